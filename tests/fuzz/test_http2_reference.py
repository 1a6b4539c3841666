"""The HTTP/2 client agrees with a reference library about any frames of a server, valid or not."""

from __future__ import annotations

import asyncio
from itertools import cycle

import hpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .http2_reference import Difference, Frame, Reference, compare

STREAM = st.sampled_from((1, 1, 3, 3, 5, 5, 0, 2, 7))
FIELDS = st.lists(
    st.sampled_from(
        (
            ("content-length", "0"),
            ("content-length", "2"),
            ("audit-id", "x"),
            ("grpc-status", "0"),
            ("connection", "x"),
            ("Upper", "x"),
            (":path", "/"),
        )
    ),
    max_size=2,
)
STATUS = st.sampled_from(("200", "200", "201", "204", "304", "404", "500", "100", "103", None))
NUMBERS = st.sampled_from((0, 1, 7, 8, 65_535, 2**31 - 1, 2**31, 2**32 - 1)).map(lambda value: value.to_bytes(4, "big"))


@st.composite
def blocks(draw: st.DrawFn) -> bytes:
    encoder = hpack.Encoder()
    encoder.header_table_size = 0
    status = draw(STATUS)
    fields = [*([(":status", status)] if status else []), *draw(FIELDS)]
    return encoder.encode(fields, huffman=draw(st.booleans()))


def frame(kind: int, flags: tuple[int, ...], payload: st.SearchStrategy[bytes]) -> st.SearchStrategy[Frame]:
    return st.builds(Frame, st.just(kind), st.sampled_from(flags), STREAM, payload)


def on_connection(kind: int, flags: tuple[int, ...], payload: st.SearchStrategy[bytes]) -> st.SearchStrategy[Frame]:
    stream = st.sampled_from((0, 0, 0, 1))
    return st.builds(Frame, st.just(kind), st.sampled_from(flags), stream, payload)


SHORT = st.binary(max_size=9)
PADDED = st.builds(lambda size, rest: bytes((size,)) + rest, st.integers(0, 6), st.binary(max_size=8))
SETTINGS = st.lists(
    st.builds(lambda key, value: key.to_bytes(2, "big") + value, st.sampled_from((1, 2, 3, 4, 5, 6, 8, 99)), NUMBERS),
    max_size=2,
).map(b"".join)
VALID = st.one_of(
    st.builds(Frame, st.just(1), st.sampled_from((4, 4, 5)), st.sampled_from((1, 3, 5)), st.just(b"\x88")),
    st.builds(Frame, st.just(0), st.sampled_from((0, 1)), st.sampled_from((1, 3, 5)), st.binary(max_size=3)),
    st.sampled_from((Frame(6, 0, 0, bytes(8)), Frame(8, 0, 0, bytes(3) + b"\1"), Frame(4, 0, 0, b"\0\3\0\0\0\5"))),
)
"""Frames that leave most connections open, so that later frames are reached."""
FRAMES = st.one_of(
    VALID,
    VALID,
    VALID,
    VALID,
    frame(1, (4, 4, 5, 5, 0, 1), blocks()),
    frame(1, (4, 5), blocks()),
    frame(1, (0xC, 0xD, 0x24, 0x2D), st.builds(lambda pad, block: pad + block, st.binary(max_size=6), blocks())),
    frame(0, (0, 1), st.binary(max_size=3)),
    frame(0, (8, 9), PADDED),
    frame(2, (0,), st.just(bytes(5)) | SHORT),
    frame(3, (0,), NUMBERS | SHORT),
    on_connection(4, (0, 0, 1), SETTINGS | SHORT),
    frame(5, (4,), SHORT),
    on_connection(6, (0, 1), st.just(bytes(8)) | SHORT),
    on_connection(7, (0,), st.just(bytes(8)) | SHORT),
    frame(8, (0, 1), NUMBERS | SHORT),
    frame(9, (0, 4), blocks() | st.just(b"")),
    st.builds(Frame, st.integers(10, 255), st.integers(0, 255), STREAM, SHORT),
)


def compared(data: bytes, sizes: list[int]) -> str:
    async def run() -> str:
        return compare(data, cycle(sizes))

    return asyncio.run(run())


@given(frames=st.lists(FRAMES, min_size=1, max_size=8), sizes=st.lists(st.integers(1, 40), min_size=1, max_size=3))
@settings(max_examples=400, deadline=None)
def test_any_frames_leave_the_client_where_they_leave_the_library(frames: list[Frame], sizes: list[int]) -> None:
    compared(b"".join(one.serialize() for one in frames), sizes)


ACK = Frame(4, 1, 0, b"")
BROKEN = {
    "settings of a stream": Frame(4, 0, 1, b""),
    "an acknowledgement with settings": Frame(4, 1, 0, bytes(6)),
    "half a setting": Frame(4, 0, 0, bytes(5)),
    "a server that wants pushes": Frame(4, 0, 0, b"\0\2\0\0\0\1"),
    "a switch that is neither on nor off": Frame(4, 0, 0, b"\0\2\0\0\0\2"),
    "a window that is too large": Frame(4, 0, 0, b"\0\4\x80\0\0\0"),
    "frames that are too small": Frame(4, 0, 0, b"\0\5\0\0\x3f\xff"),
    "frames that are too large": Frame(4, 0, 0, b"\0\5\1\0\0\0"),
    "another protocol that is neither on nor off": Frame(4, 0, 0, b"\0\x08\0\0\0\2"),
    "a ping of a stream": Frame(6, 0, 1, bytes(8)),
    "a ping that is too short": Frame(6, 0, 0, bytes(7)),
    "a goodbye of a stream": Frame(7, 0, 1, bytes(8)),
    "a goodbye that is too short": Frame(7, 0, 0, bytes(7)),
    "a reset of the connection": Frame(3, 0, 0, bytes(4)),
    "a priority of the connection": Frame(2, 0, 0, bytes(5)),
    "a priority that is too short": Frame(2, 0, 1, bytes(4)),
    "a head of the connection that is continued": Frame(1, 0, 0, b"\x88"),
    "a body of the connection": Frame(0, 0, 0, b"x"),
    "a continuation of nothing": Frame(9, 4, 1, b"\x88"),
    "half a priority in a head": Frame(1, 0x24, 1, b"\0\0\0\0"),
    "more padding than frame": Frame(0, 8, 1, b"\x04xxx"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_frame_that_breaks_the_protocol_closes_the_connection(name: str) -> None:
    assert compared(BROKEN[name].serialize(), [1000]) == "closed"


def test_each_value_of_a_setting_that_a_frame_has_twice_is_checked() -> None:
    invalid, valid = b"\0\2\0\0\0\1", b"\0\2\0\0\0\0"
    assert compared(Frame(4, 0, 0, valid + invalid).serialize(), [1000]) == "closed"
    assert "RFC 9113 §6.5.3" in compared(Frame(4, 0, 0, invalid + valid).serialize(), [1000])
    assert compared(Frame(4, 0, 0, valid + valid).serialize(), [1000]) == "open"


def test_a_window_of_a_stream_that_becomes_too_large_closes_the_connection() -> None:
    half = Frame(8, 0, 1, b"\x40\0\0\0").serialize()
    assert compared(half, [1000]) == "open"
    assert "RFC 9113 §5.4.1" in compared(half + half, [1000])
    assert compared(Frame(8, 0, 0, b"\x7f\xff\xff\xff").serialize(), [1000]) == "closed"


def test_padding_is_checked_for_streams_that_were_left_too() -> None:
    reset, late = Frame(3, 0, 1, b"\0\0\0\x08"), Frame(0, 8, 1, b"\x04xxx")
    assert compared(reset.serialize() + late.serialize(), [1000]) == "closed"


def test_ordinary_answers_leave_both_open() -> None:
    answers = [Frame(1, 4, 1, b"\x88"), Frame(0, 1, 1, b"one"), Frame(1, 5, 3, b"\x89"), Frame(6, 0, 0, bytes(8))]
    assert compared(b"".join(one.serialize() for one in answers), [7]) == "open"


def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reference, "received", lambda self, frame: None)
    with pytest.raises(Difference, match="the client"):
        compared(Frame(1, 5, 1, b"\x88").serialize(), [1000])
