"""The codec of remoting frames."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq.remoting import Command, FrameError, FrameParser, encode

numbers = st.integers(-(2**31), 2**31 - 1)
commands = st.builds(
    Command, numbers, numbers, numbers, st.text(), st.dictionaries(st.text(), st.text(), max_size=5), st.binary()
)


@given(st.lists(commands, max_size=4), st.integers(1, 40))
def test_a_stream_cut_anywhere_gives_the_commands_that_were_sent(sent, size):
    stream, parser = b"".join(map(encode, sent)), FrameParser()
    received = [c for at in range(0, len(stream), size) for c in parser.feed(stream[at : at + size])]
    assert received == sent


@given(st.binary(max_size=200))
def test_any_bytes_give_commands_or_a_frame_error(data):
    with contextlib.suppress(FrameError):
        FrameParser().feed(data)


def test_a_frame_beyond_the_limit_is_refused_before_its_body_arrives():
    with pytest.raises(FrameError, match="not valid"):
        FrameParser().feed(b"\x7f\xff\xff\xff\x00\x00\x00\x02")
