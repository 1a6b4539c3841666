"""Folded stacks become a graph in which nothing of the machine is left."""

import xml.etree.ElementTree as ET

import pytest

from benchmarks import flamegraph

STORE = "Store.apply (steersman/cache/store.py:174)"
DECODE = "json_decode (msgspec/_core.cpython-311-x86_64-linux-gnu.so)"
LINES = [
    f"0x7eff (libc.so.6);uv_run (core.c:452);Loop__run (loop.c:1);{STORE};{DECODE};malloc (libc.so.6) 3",
    f"0x7eff (libc.so.6);uv_run (core.c:452);{STORE} 1",
    "Thread.run (/usr/lib/python3.11/threading.py:5);epoll_wait (libc.so.6) 9",
]


def tidied():
    stacks = {}
    for stack, count in flamegraph.parse(LINES).items():
        stacks[flamegraph.tidy(stack)] = stacks.get(flamegraph.tidy(stack), 0) + count
    return stacks


def test_the_loop_s_inner_frames_are_one():
    assert ("libc", "event loop", "Store.apply (steersman/cache/store.py)") in tidied()


def test_only_stacks_of_the_loop_are_kept_from_the_loop_on():
    kept = flamegraph.within(tidied(), "event loop")
    assert sum(kept.values()) == 4
    assert all(stack[0] == "event loop" for stack in kept)


def test_what_libc_does_is_its_callers():
    assert flamegraph.shares(flamegraph.within(tidied(), "event loop")) == [
        ("msgspec", 0.75),
        ("steersman.cache", 0.25),
    ]


def test_a_system_call_is_nobody_s_but_the_kernel_s():
    assert flamegraph.shares({("event loop", "write (libc)"): 1}) == [("system calls", 1.0)]


@pytest.mark.parametrize(
    ("frame", "owner"),
    [
        ("Connection.send (steersman/client/transport/connection.py:9)", "steersman.client.transport"),
        ("Raw.request (steersman/client/raw.py:9)", "steersman.client"),
        ("report (benchmarks/peers/widget_operator.py:47)", "benchmark's operator"),
        ("SSL_read_ex (libssl.so.3)", "OpenSSL"),
        ("0x7f00 (_asyncio.cpython-311-x86_64-linux-gnu.so)", "event loop"),
        ("current_task (asyncio/tasks.py:3)", "event loop"),
        ("<lambda> (<string>:1)", "standard library"),
        ("ZstdCompressor_compress (compressor.c:554)", "zstandard"),
        ("ZSTD_compressStream2 (zstd.c:29494)", "zstandard"),
        ("uv__io_poll (src/unix/linux.c:9)", "event loop"),
    ],
)
def test_a_frame_belongs_to_who_wrote_it(frame, owner):
    assert flamegraph.owner(frame) == owner


def test_the_drawing_is_well_formed_and_escapes_what_it_shows():
    drawn = flamegraph.render({("event loop", "<lambda> (<string>)"): 2, ("event loop",): 1}, "A & B", "a < b")
    texts = [text.text for text in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert texts[:2] == ["A & B", "a < b"]
    assert "<lambda> (<string>)" in texts


def test_no_path_of_the_machine_is_shown():
    drawn = flamegraph.render({flamegraph.tidy(["run (/home/me/venv/lib/python3.11/site-packages/x/y.py:3)"]): 1}, "t")
    assert "run (x/y.py)" in drawn
    assert "/home" not in drawn


def test_a_line_that_is_no_stack_is_refused():
    with pytest.raises(ValueError, match="invalid literal"):
        flamegraph.parse(["a;b c"])
