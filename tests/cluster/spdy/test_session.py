"""A session understands what a client sends, however it is cut, and answers it."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman_cluster.spdy import Closed, Data, Opened, Reset, Session, SpdyError
from steersman_cluster.spdy.headers import HeaderReader, HeaderWriter, _dictionary


class Peer:
    """The client's half: frames as kubectl writes them."""

    def __init__(self):
        self.writer = HeaderWriter()

    def control(self, kind, body, flags=0, version=3):
        return bytes((0x80, version, 0, kind, flags)) + len(body).to_bytes(3, "big") + body

    def open(self, stream, headers, flags=0):
        return self.control(1, stream.to_bytes(4, "big") + bytes(6) + self.writer.write(headers), flags)

    def data(self, stream, body, flags=0):
        return stream.to_bytes(4, "big") + bytes((flags,)) + len(body).to_bytes(3, "big") + body


ERROR = {"streamtype": "error", "port": "80", "requestid": "0"}


def test_the_dictionary_is_the_specifications():
    assert len(_dictionary()) == 1423


@given(st.lists(st.integers(1, 40), max_size=30))
def test_frames_may_be_cut_anywhere(cuts):
    peer = Peer()
    stream = peer.open(1, ERROR, 1) + peer.open(3, {**ERROR, "streamtype": "data"}) + peer.data(3, b"hello" * 9, 1)
    session, events, at = Session(), [], 0
    for size in [*cuts, len(stream)]:
        events += session.feed(stream[at : at + size])
        at += size
    assert events == [
        Opened(1, ERROR, last=True),
        Opened(3, {**ERROR, "streamtype": "data"}),
        Data(3, b"hello" * 9, last=True),
    ]


def test_the_answer_opens_the_stream_and_carries_data():
    session = Session()
    session.accept(1)
    session.send(1, b"there", last=True)
    out = session.pending()
    size = int.from_bytes(out[5:8], "big")
    assert out[:4] == bytes((0x80, 3, 0, 2))
    assert out[8:12] == bytes((0, 0, 0, 1))
    assert HeaderReader().read(out[12 : 8 + size]) == {}
    assert out[8 + size :] == bytes((0, 0, 0, 1, 1, 0, 0, 5)) + b"there"
    assert session.pending() == b""


def test_pings_of_the_client_are_answered_and_answers_are_not():
    session, peer = Session(), Peer()
    assert session.feed(peer.control(6, bytes((0, 0, 0, 1))) + peer.control(6, bytes((0, 0, 0, 2)))) == []
    assert session.pending() == peer.control(6, bytes((0, 0, 0, 1)))


def test_resets_and_goodbyes_are_told():
    session, peer = Session(), Peer()
    assert session.feed(peer.control(3, bytes((0, 0, 0, 5, 0, 0, 0, 5))) + peer.control(7, bytes(8))) == [
        Reset(5),
        Closed(),
    ]


def test_unknown_frames_are_ignored():
    assert Session().feed(Peer().control(99, b"whatever") + Peer().control(9, bytes(8))) == []


@pytest.mark.parametrize(
    "frame",
    [
        Peer().control(1, b"short"),
        Peer().control(1, bytes(10) + b"no zlib"),
        Peer().control(3, b""),
        Peer().control(1, bytes(10), version=2),
    ],
)
def test_what_is_no_spdy_is_refused(frame):
    with pytest.raises(SpdyError):
        Session().feed(frame)


@given(st.binary(max_size=300))
def test_any_bytes_end_in_events_or_in_malformed(data):
    with suppress(SpdyError):
        Session().feed(data)


def test_a_header_block_that_unpacks_to_much_is_refused():
    block = HeaderWriter().write({"a": "x" * 100_000})
    with pytest.raises(ValueError, match="longer"):
        HeaderReader().read(block)
