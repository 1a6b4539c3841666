"""HTTP/2 as a function of bytes and of time: however they are cut, wrong ones, and silence. No sockets here."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from itertools import cycle, pairwise, product

import hpack
import pytest
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from steersman.client.errors import ConnectError, ConnectionLostError, TransportTimeoutError
from steersman.client.transport.connection import receive_buffer
from steersman.client.transport.http2 import Http2Connection, Http2Encoder, RequestNotSentError, header_blocks
from steersman.client.transport.http2.header_blocks import decode_fields, length_matches, status_of
from steersman.client.transport.http2.stream import JOINED_PIECES_BYTES, STREAM_WINDOW_BYTES, BlockHeaders, Stream
from steersman.testing import virtual_time

ENCODE = Http2Encoder("https", "api.example")


class Line:
    """Replaces the socket: the written bytes, and whether it is open."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.open = True
        self.reading = True

    def write(self, data: bytes) -> None:
        self.written += data

    def abort(self) -> None:
        self.open = False

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def frames(self) -> list[Frame]:
        """Return the frames that were sent since the last call."""
        data = memoryview(bytes(self.written).removeprefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
        self.written.clear()
        frames: list[Frame] = []
        while data:
            frame, size = Frame.parse_frame_header(data[:9])
            frame.parse_body(data[9 : 9 + size])
            frames.append(frame)
            data = data[9 + size :]
        return frames


class Pool:
    def __init__(self) -> None:
        self.receive_buffer = receive_buffer()
        self.released = 0

    def release(self, connection: Http2Connection) -> None:
        self.released += 1

    def forget(self, connection: Http2Connection) -> None:
        pass


class Both:
    """A connection and its line."""

    def __init__(self) -> None:
        self.pool = Pool()
        self.line = Line()
        self.connection = Http2Connection(self.pool, 0, self.line, None, ENCODE)
        self.connection.begin()

    def ask(self, path: str = "/", method: str = "GET", body: bytes | None = None, timeout: float = 600.0):
        return asyncio.create_task(self._asked(path, method, body, timeout))

    async def _asked(self, path: str, method: str, body: bytes | None, timeout: float):
        answer = self.connection.send_request(method, path, (), body, timeout)
        try:
            return await answer
        except asyncio.CancelledError:
            self.connection.cancel_request(answer)
            raise

    def open(self, path: str = "/watch", timeout: float = 600.0):
        return asyncio.create_task(self.connection.open("GET", path, (), None, timeout))

    def say(self, *frames: Frame | bytes) -> None:
        self.connection.received(b"".join(f if isinstance(f, bytes) else f.serialize() for f in frames))


async def turns(count: int = 3) -> None:
    """Run all ready tasks; there is no I/O to wait for."""
    for _ in range(count):
        await asyncio.sleep(0)


def head(stream: int, block: bytes = b"\x88", *flags: str) -> HeadersFrame:
    return HeadersFrame(stream, block, flags=["END_HEADERS", *flags])


def data(stream: int, body: bytes = b"", *flags: str) -> DataFrame:
    return DataFrame(stream, body, flags=list(flags))


async def watching(both: Both):
    """A stream whose response has begun, and of which nothing waits to be sent."""
    opening = both.open()
    await turns()
    both.say(head(1))
    stream = await opening
    both.line.frames()
    return stream


# However it is cut.

NAMES = st.sampled_from(["content-type", "warning", "retry-after", "x-kubernetes-pf-flowschema-uid", "x", "x-\xe9"])
HEADERS = st.lists(
    st.tuples(NAMES, st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=300)), max_size=5
)


@st.composite
def answers(draw):
    """A status, headers, the pieces of a body, and the ways in which they are put."""
    return {
        "status": draw(st.integers(200, 599)),
        "headers": draw(HEADERS),
        "pieces": draw(st.lists(st.binary(max_size=400), max_size=4)),
        "padding": draw(st.none() | st.integers(0, 255)),
        "huffman": draw(st.booleans()),
        "interim": draw(st.booleans()),
        "priority": draw(st.booleans()),
        "trailers": draw(st.booleans()),
        "continued": draw(st.integers(0, 3)),
    }


def blocks(stream, block, continued, *, flags=(), **kw):
    """A header block as one frame or as several."""
    cuts = [len(block) * n // (continued + 1) for n in range(continued + 2)]
    parts = [block[a:b] for a, b in pairwise(cuts)]
    first = HeadersFrame(stream, parts[0], flags=[*flags, *(["END_HEADERS"] if len(parts) == 1 else [])], **kw)
    rest = [ContinuationFrame(stream, part) for part in parts[1:]]
    if rest:
        rest[-1].flags.add("END_HEADERS")
    return b"".join(frame.serialize() for frame in [first, *rest])


def frames_of(stream, answer, encoder):
    """The answer as a list of bytes, between which frames of other streams may come."""
    out = []

    def encoded(*pairs):
        return encoder.encode([(n.encode("latin-1"), v.encode("latin-1")) for n, v in pairs], huffman=answer["huffman"])

    padding = answer["padding"]
    padded, kw = ((), {}) if padding is None else (("PADDED",), {"pad_length": padding})
    if answer["interim"]:
        out.append(blocks(stream, encoded((":status", "103"), ("link", "</a>")), 0))
    block = encoded((":status", str(answer["status"])), *answer["headers"])
    bodiless = not answer["pieces"] and not answer["trailers"]
    flags = [*padded, *(["PRIORITY"] if answer["priority"] else []), *(["END_STREAM"] if bodiless else [])]
    out.append(blocks(stream, block, answer["continued"], flags=flags, **kw))
    for n, piece in enumerate(answer["pieces"]):
        last = n == len(answer["pieces"]) - 1 and not answer["trailers"]
        out.append(DataFrame(stream, piece, flags=[*padded, *(["END_STREAM"] if last else [])], **kw).serialize())
    if answer["trailers"]:
        out.append(blocks(stream, encoded(("grpc-status", "0")), 0, flags=["END_STREAM"]))
    return out


OTHERS = [
    SettingsFrame(0, settings={1: 4096, 4: 70_000, 8: 1}).serialize(),
    SettingsFrame(0, flags=["ACK"]).serialize(),
    PingFrame(0, b"12345678").serialize(),
    WindowUpdateFrame(0, window_increment=10).serialize(),
    b"\x00\x00\x07\xfa\x00\x00\x00\x00\x00unknown",
    DataFrame(1, b"late").serialize(),
    RstStreamFrame(1, error_code=8).serialize(),
]


@given(
    said=st.lists(answers(), min_size=1, max_size=4),
    order=st.lists(st.integers(0, 10), min_size=1),
    between=st.lists(st.none() | st.sampled_from(OTHERS), min_size=1),
    sizes=st.lists(st.integers(1, 600), min_size=1),
)
@settings(max_examples=100, deadline=None)
def test_answers_are_the_same_however_they_are_mixed_and_cut(said, order, between, sizes):
    encoder = hpack.Encoder()
    encoder.header_table_size = 0
    # Blocks are numbered as they are encoded; the order is free, since no table is shared.
    queues = {2 * n + 3: frames_of(2 * n + 3, answer, encoder) for n, answer in enumerate(said)}
    order, between, sizes = cycle(order), cycle(between), cycle(sizes)
    sent = bytearray()
    while queues:
        stream = list(queues)[next(order) % len(queues)]
        sent += (next(between) or b"") + queues[stream].pop(0)
        if not queues[stream]:
            del queues[stream]

    @virtual_time
    async def run():
        both = Both()
        both.ask("/left").cancel()  # never starts
        left = both.ask("/left")  # stream 1, for which things come late
        await turns()
        left.cancel()
        asked = [both.ask(f"/{n}") for n in range(len(said))]
        await turns()
        rest = bytes(sent)
        while rest:
            size = next(sizes)
            both.connection.received(rest[:size])
            rest = rest[size:]
        got = await asyncio.gather(*asked)
        both.connection.abort(ConnectionLostError("over"))
        return got

    for answer, response in zip(said, run(), strict=True):
        assert response.status == answer["status"]
        assert response.body == b"".join(answer["pieces"])
        for name, _ in answer["headers"]:
            values = [value for other, value in answer["headers"] if other == name]
            assert list(response.headers.get_all(name)) == values
            assert BlockHeaders(response.headers._block).get(name) == values[0]
        assert response.headers.get("x-not-there") is None


@given(st.lists(st.binary(max_size=60), max_size=6))
@settings(max_examples=150, deadline=None)
def test_no_bytes_at_all_are_more_than_an_error(pieces):
    @virtual_time
    async def run():
        both = Both()
        asked = [both.ask(), both.open()]
        await turns()
        for piece in pieces:
            both.connection.received(piece)
        both.connection.abort(ConnectionLostError("over"))
        return await asyncio.gather(*asked, return_exceptions=True)

    for result in run():
        assert not isinstance(result, Exception) or isinstance(result, (ConnectionLostError, ConnectError))


@given(
    kinds=st.lists(
        st.tuples(
            st.integers(0, 10), st.integers(0, 255), st.sampled_from([0, 1, 2, 3, 5, 1 << 31]), st.binary(max_size=20)
        ),
        max_size=8,
    )
)
@settings(max_examples=150, deadline=None)
def test_no_frames_at_all_are_more_than_an_error(kinds):
    sent = b"".join(
        len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + body
        for kind, flags, stream, body in kinds
    )

    @virtual_time
    async def run():
        both = Both()
        asked = [both.ask("/", "PUT", b"x" * 100_000), both.open()]
        await turns()
        both.connection.received(sent)
        await turns()
        both.connection.abort(ConnectionLostError("over"))
        return await asyncio.gather(*asked, return_exceptions=True)

    for result in run():
        assert not isinstance(result, Exception) or isinstance(result, (ConnectionLostError, ConnectError))


# Statuses.


INDEXED = {200: 0x88, 204: 0x89, 206: 0x8A, 304: 0x8B, 400: 0x8C, 404: 0x8D, 500: 0x8E}
HUFFMAN = hpack.Encoder().huffman_coder
FORMS = {"not indexed": b"\x08", "never indexed": b"\x18", "to be indexed": b"\x48", "by another index": b"\x0d"}


@pytest.mark.parametrize("form", ["indexed", *FORMS, "spelled out"])
def test_a_status_is_read_in_every_form(form):
    for status, huffman, start in product(range(200, 600, 3), [False, True], [b"", b"\x20", b"\x20\x20"]):
        text = str(status).encode()
        code = HUFFMAN.encode(text)
        value = bytes((0x80 | len(code),)) + code if huffman else b"\x03" + text
        if form == "indexed" and status in INDEXED:
            field = bytes((INDEXED[status],))
        elif form == "spelled out":
            field = b"\x00\x07:status" + value
        else:
            field = FORMS.get(form, b"\x08") + value
        assert status_of(start + field + b"\x5f\x10application/json") == status
        assert status_of(start + field) == status


@pytest.mark.parametrize(
    "block",
    [
        b"\x82",
        b"\x08\x03abc",
        b"\x08\x022x",
        b"\x08\x04" + b"2000",
        b"\x5f\x03200",
        b"\x00\x01a\x03200",
        b"\x40\x00\x00",
    ],
)
def test_what_is_no_status_is_refused(block):
    with pytest.raises(ValueError, match=r"status|decoded"):
        status_of(block)


def test_every_status_is_read_plain_and_in_code():
    for status in range(100, 600):
        text = str(status).encode()
        code = HUFFMAN.encode(text)
        assert status_of(b"\x08\x03" + text) == status
        assert status_of(b"\x08" + bytes((0x80 | len(code),)) + code) == status


def decoded(block: bytes) -> list[tuple[str, str]]:
    """What the library makes of a block; nothing where it is none."""
    try:
        pairs = hpack.Decoder(max_header_list_size=1 << 20).decode(block, raw=True)
    except (hpack.HPACKError, IndexError):
        return []
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in pairs]


STATUS_FIELDS = st.builds(
    lambda first, value: bytes((first,)) + value,
    st.sampled_from([0x07, 0x08, 0x0E, 0x0F, 0x18, 0x1E, 0x41, 0x48, 0x4E, 0x58]),
    st.binary(min_size=1, max_size=8)
    | st.text("0123456789aX", min_size=2, max_size=4).map(lambda text: bytes((len(text),)) + text.encode())
    | st.text("0123456789aX", min_size=2, max_size=4)
    .map(lambda text: HUFFMAN.encode(text.encode()))
    .map(lambda code: bytes((0x80 | len(code),)) + code),
)


@given(field=STATUS_FIELDS)
@settings(max_examples=500)
def test_a_status_is_what_the_library_says(field):
    name, said = (decoded(field[: 2 + (field[1] & 0x7F)]) or [("", "")])[0]
    if name == ":status" and len(said) == 3 and said.isdecimal():
        assert status_of(field) == int(said)
    else:
        with pytest.raises(ValueError, match=r"status|decoded"):
            status_of(field)


# Without the library.


def test_the_names_with_an_index_are_those_of_the_library():
    assert [name.encode() for name in header_blocks._NAMES] == [name for name, _ in HeaderTable.STATIC_TABLE]


def test_the_codes_are_those_of_the_library():
    assert set("abcdefghijklmnopqrstuvwxyz0123456789-_.") <= set(header_blocks._HUFFMAN_CODES)
    for letter, code in header_blocks._HUFFMAN_CODES.items():
        assert int(code, 2) == REQUEST_CODES[ord(letter)]
        assert len(code) == REQUEST_CODES_LENGTH[ord(letter)]


@given(text=st.text(st.sampled_from(list(header_blocks._HUFFMAN_CODES)), min_size=1))
def test_text_is_put_in_code_as_the_library_does(text):
    code = header_blocks._huffman_encode(text)
    assert code == HUFFMAN.encode(text.encode())
    assert header_blocks._huffman_decode(code) == text


@given(code=st.binary(max_size=6) | st.text(max_size=6).map(lambda text: HUFFMAN.encode(text.encode()) + b"\xff"))
def test_what_is_read_of_a_code_is_what_the_library_reads(code):
    text = header_blocks._huffman_decode(code)
    assert text is None or text.encode() == decode_huffman(code)


NAMED = (
    st.sampled_from(["warning", "Retry-After", "content-type", "age", "date", "x_y", "x'y", "x-\xe9", "", ":status"])
    | st.sampled_from(header_blocks._NAMES)
    | st.text(st.characters(max_codepoint=255), max_size=12)
)
FIELDS = st.lists(st.tuples(NAMED, st.text(st.characters(max_codepoint=255), max_size=20)), max_size=6)


def check_that_headers_are_those_of_the_library(block: bytes, names: list[str]) -> None:
    known = [(name, value) for name, value in decoded(block) if not name.startswith(":")]
    for name in [*names, *(name for name, _ in known)]:
        values = [value for other, value in known if other == name.lower()]
        assert BlockHeaders(block).get(name) == (values[0] if values else None)
        assert BlockHeaders(block).get_all(name) == values


@given(fields=FIELDS, asked=st.lists(NAMED, max_size=6), huffman=st.booleans(), table=st.sampled_from([0, 64, 4096]))
@settings(max_examples=300)
def test_headers_are_those_of_the_library_whatever_their_names(fields, asked, huffman, table):
    encoder = hpack.Encoder()
    encoder.header_table_size = table
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]
    check_that_headers_are_those_of_the_library(encoder.encode([(b":status", b"201"), *raw], huffman=huffman), asked)


@given(
    parts=st.lists(
        st.binary(max_size=12)
        | st.sampled_from(
            [b"\x88", b"\x20", b"\x9f", b"\xbe", b"\x5f\x01a", b"\x0f\x26\x017", b"\x7f\x01b", b"\x0f\x2f"]
        )
        | st.sampled_from([b"\x40\x01x\x01y", b"\x00\x07warning\x00", b"\x0f\xa6\x80\x80\x80\x80\x80\x00\x017"]),
        max_size=5,
    ),
    asked=st.lists(NAMED, max_size=4),
)
@settings(max_examples=500)
def test_headers_of_any_bytes_are_those_of_the_library(parts, asked):
    check_that_headers_are_those_of_the_library(
        b"".join(parts), ["warning", "retry-after", "content-type", "x", *asked]
    )


ORDINARY = [
    ("audit-id", "4d0c2b9e-6a1f-4b0e-8a53-2b9f0a8a2f7e"),
    ("cache-control", "no-cache, private"),
    ("content-type", "application/json"),
    ("x-kubernetes-pf-flowschema-uid", "9b6c1d7e"),
    ("content-length", "217"),
    ("date", "Mon, 05 Jan 2026 10:00:00 GMT"),
]


def test_ordinary_answers_do_not_load_the_library():
    program = (
        "import sys, steersman.client.transport.native\n"
        "from steersman.client.transport.http2.header_blocks import length_matches, status_of\n"
        "from steersman.client.transport.http2.stream import BlockHeaders\n"
        f"for block, status in ({told(*ORDINARY, status='201')!r}, 201), ({told(*ORDINARY, status='404')!r}, 404):\n"
        "    assert status_of(block) == status\n"
        "    assert length_matches(block, 217)\n"
        "    headers = BlockHeaders(block)\n"
        "    assert headers.get('Warning') is headers.get('Retry-After') is None\n"
        "assert 'hpack' not in sys.modules\n"
        "assert headers.get('Content-Type') == 'application/json'\n"
        "assert 'hpack' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_headers_longer_than_a_library_takes_by_itself_are_read():
    block = hpack.Encoder().encode([(":status", "200"), ("audit", "x" * 200_000), ("retry-after", "7")], huffman=False)
    assert BlockHeaders(block).get("Retry-After") == "7"


# What no server should send.

GARBAGE = {
    "HTTP/1.1": b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
    "a frame too long": b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + b"x" * 100,
    "data before a head": data(1, b"x"),
    "data of a stream that never was": data(77, b"x"),
    "data of a stream of the server's": data(2, b"x"),
    "data of the connection": b"\x00\x00\x01\x00\x00\x00\x00\x00\x00x",
    "a head of a stream that never was": head(77),
    "a header block that breaks off": HeadersFrame(1, b"\x88").serialize() + PingFrame(0, b"12345678").serialize(),
    "a continuation of nothing": ContinuationFrame(1, b"\x88"),
    "a continuation of another": HeadersFrame(1, b"\x88").serialize() + ContinuationFrame(3, b"").serialize(),
    "a continuation without end": HeadersFrame(1, b"\x88").serialize()
    + ContinuationFrame(1, b"x" * 65_536).serialize() * 9,
    "a push": PushPromiseFrame(1, promised_stream_id=2, data=b"\x82", flags=["END_HEADERS"]),
    "a head without a status": head(1, b"\x82"),
    "an empty head": head(1, b""),
    "a head that cannot be decoded": head(1, b"\x7f\xff\xff\xff"),
    "a second head": head(1).serialize() + head(1).serialize(),
    "an interim answer that ends": head(1, b"\x08\x03103", "END_STREAM"),
    "more padding than frame": b"\x00\x00\x02\x01\x0d\x00\x00\x00\x01\x05\x88",
    "nothing but padding": head(1).serialize() + b"\x00\x00\x00\x00\x08\x00\x00\x00\x01",
    "half a setting": b"\x00\x00\x05\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00",
    "a ping of seven bytes": b"\x00\x00\x07\x06\x00\x00\x00\x00\x001234567",
    "a reset of three bytes": b"\x00\x00\x03\x03\x00\x00\x00\x00\x01\x00\x00\x00",
    "a window of five bytes": b"\x00\x00\x05\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01",
    "a reset of a stream that never was": RstStreamFrame(77, error_code=8),
    "room for a stream that never was": WindowUpdateFrame(77, window_increment=1),
    "no room at all": b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00",
    "no room for a stream": b"\x00\x00\x04\x08\x00\x00\x00\x00\x01\x00\x00\x00\x00",
    "more room than a window has": WindowUpdateFrame(0, window_increment=2**31 - 1),
    "more room than a stream's window has": WindowUpdateFrame(1, window_increment=2**31 - 1).serialize() * 2,
    "an initial window that is too large": b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x80\x00\x00\x00",
}


@pytest.mark.parametrize("name", GARBAGE)
@virtual_time
async def test_what_no_server_should_send_ends_the_connection(name):
    both = Both()
    asked = both.ask("/pods", "POST")
    await turns()
    both.say(GARBAGE[name])
    with pytest.raises(ConnectionLostError, match=r"POST /pods: the response is not valid HTTP/2: ."):
        await asked
    assert not both.line.open
    assert not both.connection.usable
    assert isinstance(both.line.frames()[-1], GoAwayFrame)


@virtual_time
async def test_more_than_was_allowed_to_come_ends_the_connection():
    both = Both()
    opening = both.open()
    await turns()
    both.say(head(1))
    stream = await opening
    for _ in range(STREAM_WINDOW_BYTES // 16_384 + 1):
        both.say(data(1, bytes(16_384)))
    assert not both.line.open
    while stream.body:
        await stream.read()
    with pytest.raises(ConnectionLostError, match="exceeded the flow-control window"):
        await stream.read()


@pytest.mark.parametrize("last", [1, 3 * JOINED_PIECES_BYTES])
@virtual_time
async def test_what_has_come_is_poured_in_pieces_that_are_worth_it_and_in_order(last):
    """A consumer that stops receives the rest at its next call."""
    sizes = [
        2 * JOINED_PIECES_BYTES,
        10,
        JOINED_PIECES_BYTES - 1,
        JOINED_PIECES_BYTES,
        5,
        6,
        3 * JOINED_PIECES_BYTES,
        last,
    ]
    both = Both()
    opening = both.open()
    await turns()
    both.say(head(1))
    stream = await opening
    sent = [bytes([number]) * size for number, size in enumerate(sizes)]
    for piece in sent:
        both.say(data(1, piece))
    both.say(data(1, b"", "END_STREAM"))
    got: list[bytes] = []

    def take(chunk: bytes) -> bool:
        got.append(chunk)
        return len(got) % 2 == 1

    while await stream.deliver(take):
        pass
    assert b"".join(got) == b"".join(sent)
    assert all(len(chunk) >= JOINED_PIECES_BYTES for chunk in got[:-1])
    assert len(got) > 3
    stream.finish()


@virtual_time
async def test_the_reserved_bit_means_nothing():
    both = Both()
    asked = both.ask()
    await turns()
    both.say(b"\x00\x00\x01\x01\x05\x80\x00\x00\x01\x88")
    assert (await asked).status == 200


@virtual_time
async def test_frames_after_the_end_of_a_connection_are_nothing():
    both = Both()
    asked = both.ask()
    await turns()
    both.connection.drain()
    both.say(
        head(1, b"\x88", "END_STREAM"), data(1, b"late"), PingFrame(0, b"12345678"), SettingsFrame(0), b"\xff" * 40
    )
    assert (await asked).status == 200
    assert not both.line.open


# Readers that stop, and when.


@virtual_time
async def test_a_cancellation_that_meets_its_answer_is_a_cancellation():
    both = Both()
    asked = both.ask()
    await turns()
    both.line.frames()
    both.say(head(1, b"\x88", "END_STREAM"))
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await turns()
    assert both.line.frames() == [], "there is nothing left to cancel"
    assert both.pool.released == 1


@virtual_time
async def test_an_answer_that_meets_its_cancellation_is_nothing():
    both = Both()
    asked = both.ask()
    await turns()
    asked.cancel()
    both.say(head(1, b"\x88", "END_STREAM"))
    with pytest.raises(asyncio.CancelledError):
        await asked
    again = both.ask()
    await turns()
    both.say(head(3, b"\x88"), data(3, b"mine", "END_STREAM"))
    assert (await again).body == b"mine"
    assert both.line.open


@virtual_time
async def test_a_stream_that_is_complete_is_read_after_its_connection_has_gone():
    both = Both()
    opening = both.open()
    await turns()
    both.say(head(1), data(1, b"all", "END_STREAM"))
    both.connection.abort(ConnectionLostError("over"))
    stream = await opening
    assert await stream.read() == b"all"
    assert await stream.read() == b""
    stream.finish()


@virtual_time
async def test_a_server_that_goes_away_answers_what_it_has_begun():
    both = Both()
    first, second = both.ask("/1"), both.ask("/2")
    await turns()
    both.say(GoAwayFrame(0, last_stream_id=1))
    with pytest.raises(RequestNotSentError, match="GET /2: the server sent GOAWAY"):
        await second
    assert not both.connection.usable
    both.say(GoAwayFrame(0, last_stream_id=1), head(1, b"\x88", "END_STREAM"))
    assert (await first).status == 200
    assert not both.line.open


@virtual_time
async def test_a_refusal_is_worth_another_try_only_where_the_limit_was_not_known():
    both = Both()
    early = both.ask("/early")
    await turns()
    both.say(SettingsFrame(0, settings={3: 5}))
    late = both.ask("/late")
    await turns()
    both.say(RstStreamFrame(1, error_code=7), RstStreamFrame(3, error_code=7))
    with pytest.raises(RequestNotSentError):
        await early
    with pytest.raises(ConnectError) as refused:
        await late
    assert not isinstance(refused.value, RequestNotSentError)


@virtual_time
async def test_settings_are_acknowledged_before_they_are_made_use_of():
    both = Both()
    both.say(SettingsFrame(0, settings={4: 0}))
    asked = both.ask("/", "PUT", b"x" * 100)
    await turns()
    both.line.frames()
    both.say(SettingsFrame(0, settings={4: 60}), WindowUpdateFrame(1, window_increment=40))
    await turns()
    assert [(type(f).__name__, len(getattr(f, "data", b""))) for f in both.line.frames()] == [
        ("SettingsFrame", 0),
        ("DataFrame", 60),
        ("DataFrame", 40),
    ]
    both.say(head(1, b"\x88", "END_STREAM"))
    await asked


@virtual_time
async def test_a_reader_makes_room_as_it_reads():
    both = Both()
    stream = await watching(both)
    size = STREAM_WINDOW_BYTES - 100
    both.say(data(1, bytes(size)))
    await turns()
    assert both.line.frames() == [], "nobody has read"
    assert len(await stream.read()) == size
    await turns()
    (room,) = both.line.frames()
    assert (room.stream_id, room.window_increment) == (1, size)
    stream.finish()
    both.connection.abort(ConnectionLostError("over"))


@virtual_time
async def test_room_is_made_for_what_was_read_and_not_for_what_waits():
    """A reader that takes its time would else gather a whole list in memory."""
    both = Both()
    stream = await watching(both)
    piece = STREAM_WINDOW_BYTES // 4
    both.say(*(data(1, bytes(piece)) for _ in range(4)))
    made = []
    for _ in range(4):
        assert await stream.deliver(lambda chunk: len(chunk) == piece), "one piece is enough"
        await turns()
        made.append([(frame.stream_id, frame.window_increment) for frame in both.line.frames()])
    assert made == [[], [], [(1, 3 * piece)], []], "the last piece still fills its part of the window"
    stream.finish()
    both.connection.abort(ConnectionLostError("over"))


# Time.


@virtual_time
async def test_each_request_has_its_own_time():
    both = Both()
    loop = asyncio.get_running_loop()
    started = loop.time()
    ended: dict[float, float] = {}

    async def ask(timeout: float) -> None:
        with pytest.raises(TransportTimeoutError, match="GET /: no response"):
            await both.connection.send_request("GET", "/", (), None, timeout)
        ended[timeout] = loop.time() - started

    await asyncio.gather(*(ask(timeout) for timeout in (20, 5, 25, 1)))
    assert ended == {timeout: pytest.approx(timeout) for timeout in (1, 5, 20, 25)}
    await turns()
    resets = [frame.stream_id for frame in both.line.frames() if isinstance(frame, RstStreamFrame)]
    assert resets == [7, 3, 1, 5]
    assert both.line.open


@virtual_time
async def test_silence_is_asked_about_and_then_given_up():
    both = Both()
    loop = asyncio.get_running_loop()
    stream = await watching(both)
    await asyncio.sleep(20)
    both.say(data(1, b"0\n"))
    await stream.read()
    heard = loop.time()
    reading = asyncio.create_task(stream.read())
    await asyncio.sleep(29.9)
    assert both.line.frames() == []
    await asyncio.sleep(0.2)
    assert [type(frame) for frame in both.line.frames()] == [PingFrame]
    with pytest.raises(ConnectionLostError, match="no response to a PING within 15 s"):
        await reading
    assert loop.time() - heard == pytest.approx(45)
    assert not both.line.open


@virtual_time
async def test_a_server_that_answers_pings_is_waited_for():
    both = Both()
    stream = await watching(both)
    reading = asyncio.create_task(stream.read())
    for _ in range(20):
        await asyncio.sleep(30.1)
        (ping,) = both.line.frames()
        both.say(PingFrame(0, ping.opaque_data, flags=["ACK"]))
    both.say(data(1, b"0\n"))
    assert await reading == b"0\n"
    stream.finish()
    await turns()


@virtual_time
async def test_a_server_that_speaks_but_answers_no_ping_lives():
    both = Both()
    stream = await watching(both)
    loop = asyncio.get_running_loop()
    looks = 0
    look = loop.call_at

    def count(*args, **kw):
        nonlocal looks
        looks += 1
        assert looks < 100, "the timer must not spin"
        return look(*args, **kw)

    loop.call_at = count
    for _ in range(10):
        await asyncio.sleep(31)
        both.say(data(1, b"0\n"))
        assert await stream.read() == b"0\n"
    assert both.line.open
    stream.finish()
    await turns()


@virtual_time
async def test_a_connection_without_requests_has_no_timer():
    both = Both()
    asked = both.ask()
    await turns()
    both.say(head(1, b"\x88", "END_STREAM"))
    await asked
    both.line.frames()
    await asyncio.sleep(3600)
    assert both.line.frames() == []
    assert both.connection.timeouts.timer is None


# As long as it says.


def told(*fields: tuple[str, str], huffman: bool = True, table: int = 0, status: str = "200") -> bytes:
    """A header block."""
    encoder = hpack.Encoder()
    encoder.header_table_size = table
    return encoder.encode([(":status", status), *fields], huffman=huffman)


def as_go_says(size: int) -> bytes:
    """A content-length without an index, which is how Go's servers put it."""
    return told() + b"\x0f\x0d" + bytes((len(str(size)),)) + str(size).encode()


SAYS = [
    as_go_says,
    lambda size: told(("content-length", str(size))),
    lambda size: told(("content-length", str(size)), huffman=False),
    lambda size: told(("date", "x" * 200), ("content-length", str(size)), ("audit-id", "y"), table=4096),
    lambda size: told() + b"\x00\x0econtent-length" + bytes((len(str(size)),)) + str(size).encode(),
]


@pytest.mark.parametrize("say", SAYS)
@given(said=st.integers(0, 10**9), size=st.integers(0, 10**9))
def test_a_length_is_read_however_it_is_put(say, said, size):
    assert length_matches(say(said), said)
    assert length_matches(say(said), size) == (said == size)


@given(fields=HEADERS, huffman=st.booleans(), size=st.integers(0, 10**6))
def test_what_says_no_length_agrees_with_all(fields, huffman, size):
    fields = [(name, value.encode().decode("latin-1")) for name, value in fields if name.isascii()]
    assert length_matches(told(*fields, huffman=huffman), size)


@given(block=st.binary(max_size=80), size=st.integers(0, 1000))
def test_a_length_in_any_bytes_is_looked_for_in_peace(block, size):
    assert length_matches(block, size) in (True, False)


def test_a_length_that_is_none_or_two_agrees_with_nothing():
    assert not length_matches(told(("content-length", "abc")), 3)
    assert not length_matches(told(("content-length", "-3")), 3)
    assert not length_matches(told(("content-length", "3"), ("content-length", "4")), 3)


@pytest.mark.parametrize("values", [(b"3", b"4"), (b"4", b"3")])
def test_two_lengths_that_are_not_indexed_contradict_each_other(values):
    block = b"\x88" + b"".join(b"\x0f\x0d" + bytes((len(value),)) + value for value in values)
    assert not length_matches(block, 3)


LENGTH = {
    "not indexed": b"\x0f\x0d",
    "never indexed": b"\x1f\x0d",
    "indexed": b"\x5c",
    "a long number": b"\x0f\x8d\x00",
    "a long number, never indexed": b"\x1f\x8d\x80\x00",
    "spelled out": b"\x00\x0econtent-length",
    "spelled out, never indexed": b"\x10\x0econtent-length",
    "spelled out, indexed": b"\x40\x0econtent-length",
    "in code": b"\x00\x8a" + hpack.Encoder().huffman_coder.encode(b"content-length"),
}
"""How a field named content-length may begin."""
VALUES = {"plain": b"\x014", "in code": b"\x81" + hpack.Encoder().huffman_coder.encode(b"4"), "none": b"\x00"}
ID = b"\x00\x08audit-id\x05abcde"
DATE = b"\x0f\x12\x03now"


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", LENGTH)
@pytest.mark.parametrize("before", [b"", ID, ID + DATE])
@pytest.mark.parametrize("after", [b"", DATE])
def test_a_second_length_in_any_encoding_contradicts_the_first(before, name, value, after):
    first, second = b"\x0f\x0d\x013", LENGTH[name] + VALUES[value]
    for _ in range(2):  # the second time, more of the block is known
        assert length_matches(b"\x88" + before + first + after, 3)
        assert not length_matches(b"\x88" + before + first + after + second, 3)
        assert not length_matches(b"\x88" + before + first + second + after, 3)
        assert not length_matches(b"\x88" + before + second + after + first, 3)
        assert not length_matches(b"\x88" + second + before + first + after, 3)


def test_a_length_that_is_whole_in_the_table_contradicts_another():
    assert not length_matches(b"\x88\x0f\x0d\x013\x9c", 3)
    assert not length_matches(b"\x88\x9c\x0f\x0d\x013", 3)


@given(inner=st.sampled_from((b"\x0f\x0d\x013", b"\x0f\x0d\x014", b"\x5c\x014")), size=st.sampled_from((3, 4)))
def test_what_looks_like_a_length_inside_a_value_is_none(inner, size):
    field = b"\x00\x04name" + bytes((len(inner),)) + inner
    for block in (b"\x88" + field, b"\x88" + ID + field, b"\x88" + ID + DATE + field + DATE):
        assert length_matches(block, size)
        assert length_matches(block + b"\x0f\x0d\x013", size) == (size == 3)
        assert length_matches(b"\x88" + ID + b"\x0f\x0d\x014" + block[1:], size) == (size == 4)


FIELDS = st.one_of(
    st.tuples(
        st.sampled_from([*LENGTH.values(), b"\x00\x04name", b"\x0f\x12", b"\x00\x0econtent-lengtx"]),
        st.binary(max_size=4),
    ).map(lambda field: field[0] + bytes((len(field[1]),)) + field[1]),
    st.sampled_from((b"\x0f\x0d\x013", b"\x0f\x0d\x014", b"\x9c", b"\x20", b"\x88", ID, DATE)),
)


@given(fields=st.lists(FIELDS, max_size=6), size=st.sampled_from((3, 4)))
def test_lengths_are_those_of_the_library_in_any_order_and_encoding(fields, size):
    block = b"\x88" + b"".join(fields)
    said = [value for name, value in decode_fields(block) if name == "content-length"]
    assert length_matches(block, size) == all(value.isdecimal() and int(value) == size for value in said)


@virtual_time
async def test_room_for_what_was_sent_is_no_flood():
    both = Both()
    asked = both.ask("/pods", "POST", body=b"x" * 16_000 * 40)
    await turns()
    for _ in range(40):
        both.say(WindowUpdateFrame(0, window_increment=2_000).serialize() * 8)
        both.say(WindowUpdateFrame(1, window_increment=2_000).serialize() * 8)
        await turns()
    assert both.line.open
    both.say(head(1, b"\x88", "END_STREAM"))
    assert (await asked).status == 200


@virtual_time
async def test_a_head_in_single_bytes_is_put_together_once():
    both = Both()
    asked = both.ask()
    await turns()
    block = told(("x-long", "y" * 60_000))
    both.say(HeadersFrame(1, block[:1]).serialize())
    for at in range(1, len(block) - 1):
        both.say(ContinuationFrame(1, block[at : at + 1]).serialize())
    both.say(
        ContinuationFrame(1, block[-1:], flags=["END_HEADERS"]).serialize() + data(1, b"", "END_STREAM").serialize()
    )
    assert (await asked).headers.get("x-long") == "y" * 60_000


@virtual_time
async def test_an_answer_that_is_kept_whole_has_a_limit():
    both = Both()
    both.connection.max_body_bytes = 100_000
    long, other = both.ask("/long"), both.ask("/other")
    await turns()
    both.say(head(1))
    for _ in range(10):
        both.say(data(1, bytes(16_000)))
    with pytest.raises(ConnectionLostError, match="GET /long: the response is longer than 100000 bytes"):
        await long
    both.say(head(3, b"\x88", "END_STREAM"))
    assert (await other).status == 200


def test_numbers_without_an_end_take_no_time():
    assert length_matches(b"\x88\x0f" + b"\xff" * 500_000, 3)


@virtual_time
@pytest.mark.parametrize("pieces", [[b"12"], [b"1", b"2"], [b"1234"], [b"12", b"34"], [b""], []])
@pytest.mark.parametrize("say", SAYS[:2])
async def test_an_answer_that_is_not_as_long_as_it_says_is_lost(say, pieces):
    both = Both()
    asked, other = both.ask(), both.ask("/other")
    await turns()
    both.line.frames()
    if pieces:
        frames = [data(1, piece) for piece in pieces[:-1]]
        both.say(head(1, say(3)), *frames, data(1, pieces[-1], "END_STREAM"))
    else:
        both.say(head(1, say(3), "END_STREAM"))
    with pytest.raises(ConnectionLostError, match=r"the length of the body differs from the content-length header$"):
        await asked
    assert [(f.stream_id, f.error_code) for f in both.line.frames()] == [(1, 1)]
    both.say(head(3, say(2)), data(3, b"ok", "END_STREAM"))
    assert (await other).body == b"ok"


@virtual_time
async def test_a_stream_that_ends_too_soon_is_lost_to_its_reader():
    both = Both()
    opening = both.open()
    await turns()
    both.say(head(1, as_go_says(6)), data(1, b"123"))
    stream = await opening
    assert await stream.read() == b"123"
    both.say(data(1, b"4", "END_STREAM"))
    assert await stream.read() == b"4"
    with pytest.raises(ConnectionLostError, match="differs from the content-length header"):
        await stream.read()


@virtual_time
@pytest.mark.parametrize(("method", "status"), [("HEAD", "200"), ("GET", "304"), ("DELETE", "204")])
async def test_an_answer_that_never_has_a_body_may_have_a_length(method, status):
    both = Both()
    asked = both.ask(method=method)
    await turns()
    both.say(head(1, told(("content-length", "3"), status=status), "END_STREAM"))
    assert (await asked).status == int(status)


# A server that keeps its client busy for nothing.

NOTHINGS = {
    "pings": PingFrame(0, b"12345678").serialize(),
    "answers to pings": PingFrame(0, b"12345678", flags=["ACK"]).serialize(),
    "settings": SettingsFrame(0, {}).serialize(),
    "empty pieces": data(1).serialize(),
    "padding": DataFrame(1, b"", pad_length=200, flags=["PADDED"]).serialize(),
    "empty pieces of a stream that was left": data(3).serialize(),
    "resets of a stream that was left": RstStreamFrame(3, 8).serialize(),
    "interim responses": head(5, told(status="103")).serialize(),
    "room that was not used": WindowUpdateFrame(0, window_increment=1).serialize(),
    "room for a stream that was left": WindowUpdateFrame(3, window_increment=1).serialize(),
    "heads of a stream that was left": head(3).serialize(),
    "frames of no known type": b"\x00\x00\x00\x63\x00\x00\x00\x00\x00",
}


@virtual_time
@pytest.mark.parametrize("what", NOTHINGS)
async def test_a_flood_of_nothing_ends_the_connection(what):
    both = Both()
    first, left, third = both.ask(), both.ask("/left"), both.ask("/third")
    await turns()
    left.cancel()
    await turns()
    both.say(head(1))
    both.say(NOTHINGS[what] * 900)
    assert both.line.open
    both.line.written.clear()
    both.say(NOTHINGS[what] * 200)
    assert not both.line.open
    goaway = both.line.frames()[-1]
    assert isinstance(goaway, GoAwayFrame)
    assert goaway.error_code == 11  # ENHANCE_YOUR_CALM
    for asked in (first, third):
        with pytest.raises(ConnectionLostError, match="frames in 10 s that bring no part of a response"):
            await asked


@virtual_time
async def test_a_head_of_empty_pieces_without_an_end_ends_the_connection():
    both = Both()
    asked = both.ask()
    await turns()
    both.say(HeadersFrame(1, b"\x88").serialize() + ContinuationFrame(1, b"").serialize() * 1100)
    assert not both.line.open
    with pytest.raises(ConnectionLostError, match="bring no part of a response"):
        await asked


@virtual_time
async def test_whoever_is_asked_for_life_now_and_then_for_days_stays():
    both = Both()
    opening = both.open()
    await turns()
    both.say(head(1))
    stream = await opening
    for _ in range(5000):
        await asyncio.sleep(10)
        both.say(PingFrame(0, b"12345678"))
    assert both.line.open
    stream.finish()


@virtual_time
async def test_pings_between_events_are_no_flood():
    both = Both()
    opening = both.open()
    await turns()
    both.say(head(1))
    stream = await opening
    for _ in range(3000):
        both.say(PingFrame(0, b"12345678"), data(1, b"event"))
        await stream.read()
    assert both.line.open
    stream.finish()


# Bytes without a reader.


async def _unread() -> tuple[Both, Stream]:
    """A watch with a received piece that no reader has requested yet."""
    both = Both()
    opening = both.open()
    await turns()
    both.say(head(1))
    stream = await opening
    both.say(data(1, b"one"))
    return both, stream


@virtual_time
async def test_what_nobody_waits_for_gathers_outside_the_process_for_a_moment():
    both, stream = await _unread()
    assert not both.line.reading
    await asyncio.sleep(0.01)
    assert both.line.reading  # the server may ask how its client is
    both.say(data(1, b"two"))
    assert not both.line.reading
    assert await stream.read() == b"onetwo"


@virtual_time
async def test_whoever_begins_to_wait_has_the_connection_read_at_once():
    both, stream = await _unread()
    assert await stream.read() == b"one"
    reader = asyncio.create_task(stream.read())
    await turns()
    assert both.line.reading
    both.say(data(1, b"two"))
    assert await reader == b"two"
    both.say(data(1, b"three"))
    assert not both.line.reading
    asked = both.ask()
    await turns()
    assert both.line.reading
    asked.cancel()


@virtual_time
async def test_while_anybody_waits_for_anything_the_connection_is_read():
    both = Both()
    opening = both.open()
    await turns()
    both.say(head(1))
    await opening
    for waiting in (both.ask(), both.open()):
        await turns()
        both.say(data(1, b"one"))
        assert both.line.reading
        waiting.cancel()
        await turns()
    both.say(data(1, b"two"))
    assert not both.line.reading


@virtual_time
async def test_a_connection_that_breaks_while_it_is_not_read_is_left_alone():
    both, stream = await _unread()
    both.connection.connection_lost(None)
    await asyncio.sleep(0.01)
    assert not both.line.reading
    assert await stream.read() == b"one"
    with pytest.raises(ConnectionLostError):
        await stream.read()
