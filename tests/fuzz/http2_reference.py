"""The HTTP/2 client beside a reference library: the same frames, and after each of them the same state.

Both have sent the same three requests. After each frame of the server, the connection is open or closed in both, and
each stream is pending, lost, or answered with the same status and body. Where the two may differ is named in
`may_differ`, with the reason; the comparison ends there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, ResponseReceived, StreamEnded, StreamReset
from h2.exceptions import InvalidBodyLengthError, ProtocolError, StreamClosedError
from h2.settings import SettingCodes, Settings

from steersman.client.errors import ClientError, ConnectionLostError
from steersman.client.transport.http2 import Http2Connection, Http2Encoder
from steersman.client.transport.http2.frames import (
    ACK,
    CONTINUATION,
    END_HEADERS,
    HEADERS,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
)
from steersman.client.transport.http2.receiver import CONNECTION_WINDOW_BYTES, MAX_FRAME_BYTES, MAX_HEADER_BLOCK_BYTES
from steersman.client.transport.http2.stream import STREAM_WINDOW_BYTES

__all__ = ["Difference", "Frame", "compare", "frames_of"]

STREAMS = (1, 3, 5)
PRIORITY_FRAME = 2
FIELD_PROBLEMS = ("header", "trailers", "informational", "end_stream")
State: TypeAlias = "tuple[int, bytes] | str"
"""The status and the body of an answer, or `pending`, or `lost`."""


class Difference(AssertionError):  # noqa: N818 - a failed assertion
    """The two do not agree."""


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    payload: bytes

    def serialize(self) -> bytes:
        size = len(self.payload)
        return size.to_bytes(3, "big") + bytes((self.kind, self.flags)) + self.stream.to_bytes(4, "big") + self.payload


def frames_of(data: bytes) -> Iterator[Frame]:
    """The whole frames that bytes begin with."""
    at = 0
    while at + 9 <= len(data):
        end = at + 9 + int.from_bytes(data[at : at + 3], "big")
        if end > len(data):
            return
        yield Frame(data[at + 3], data[at + 4], int.from_bytes(data[at + 5 : at + 9], "big"), data[at + 9 : end])
        at = end


HELLO = (Frame(SETTINGS, 0, 0, b""), Frame(SETTINGS, ACK, 0, b""))


class Reference:
    """The library as a client."""

    def __init__(self) -> None:
        connection = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        connection.local_settings = Settings(
            client=True,
            initial_values={
                SettingCodes.HEADER_TABLE_SIZE: 0,
                SettingCodes.ENABLE_PUSH: 0,
                SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW_BYTES,
                SettingCodes.MAX_FRAME_SIZE: MAX_FRAME_BYTES,
                SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEADER_BLOCK_BYTES,
            },
        )
        # What the library changes when settings are acknowledged, which initial ones are not.
        connection.max_inbound_frame_size = MAX_FRAME_BYTES
        connection.decoder.max_allowed_table_size = connection.decoder.header_table_size = 0
        connection.decoder.max_header_list_size = MAX_HEADER_BLOCK_BYTES
        connection.initiate_connection()
        connection.increment_flow_control_window(CONNECTION_WINDOW_BYTES - 65_535)
        for stream in STREAMS:
            head = [(":method", "GET"), (":scheme", "https"), (":authority", "api.example"), (":path", "/")]
            connection.send_headers(stream, head, end_stream=True)
        self._connection = connection
        self._status = dict.fromkeys(STREAMS, 0)
        self._body = dict.fromkeys(STREAMS, b"")
        self.states: dict[int, State] = dict.fromkeys(STREAMS, "pending")
        self.problem: ProtocolError | None = None
        self.leaving = False

    def received(self, frame: Frame) -> None:
        try:
            events = self._connection.receive_data(frame.serialize())
        except ProtocolError as problem:
            self.problem = problem
            self.states = {stream: "lost" if state == "pending" else state for stream, state in self.states.items()}
            return
        for event in events:
            self._take(event)

    def _take(self, event: Any) -> None:
        match event:
            case ResponseReceived():
                self._status[event.stream_id] = int(dict(event.headers)[b":status"])
            case DataReceived():
                self._body[event.stream_id] += event.data
            case StreamEnded():
                self.states[event.stream_id] = self._status[event.stream_id], self._body[event.stream_id]
            case StreamReset():
                self.states[event.stream_id] = "lost"
            case ConnectionTerminated():
                self.leaving = True
            case _:
                pass


class _Line:
    def write(self, data: bytes) -> None: ...

    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class _Pool:
    receive_buffer = bytearray(65536)

    def release(self, connection: Any) -> None: ...

    def forget(self, connection: Any) -> None: ...


class Client:
    """The project's client."""

    def __init__(self) -> None:
        encoder = Http2Encoder("https", "api.example")
        self._connection = Http2Connection(_Pool(), 0, _Line(), None, encoder)  # type: ignore[arg-type]
        self._connection.begin()
        self._answers = {stream: self._connection.send_request("GET", "/", (), None, 600.0) for stream in STREAMS}
        self.problems: set[str] = set()

    def received(self, data: bytes) -> None:
        if not self._connection.lost:
            self._connection.received(data)

    @property
    def lost(self) -> bool:
        return self._connection.lost

    @property
    def states(self) -> dict[int, State]:
        return {stream: self._state(answer) for stream, answer in self._answers.items()}

    def _state(self, answer: asyncio.Future[Any]) -> State:
        if not answer.done():
            return "pending"
        if (problem := answer.exception()) is not None:
            assert isinstance(problem, ClientError), problem
            self.problems.add(str(problem))
            return "lost"
        return answer.result().status, bytes(answer.result().body)

    def close(self) -> None:
        self._connection.abort(ConnectionLostError("the end of the comparison"))
        for answer in self._answers.values():
            answer.exception()


def may_differ(frame: Frame, reference: Reference, client: Client) -> str:
    """Return why the two may differ after this frame; empty if they may not."""
    return may_accept(frame, reference, client) if not client.lost else may_refuse(frame, client)


def may_accept(frame: Frame, reference: Reference, client: Client) -> str:
    """Return why the client may continue where the library does not, or answer a stream differently."""
    problem = str(reference.problem or "")
    if frame.kind in (HEADERS, CONTINUATION) and any(word in problem.lower() for word in FIELD_PROBLEMS):
        return "the fields of a block are read when they are asked for"
    if isinstance(reference.problem, InvalidBodyLengthError) or "content-length" in "".join(client.problems):
        return "a length that is not kept is judged at the end of the body, and costs its stream only"
    if isinstance(reference.problem, StreamClosedError) and client.states[frame.stream] != "pending":
        return "what comes for a stream that has ended is taken for late"
    if frame.kind == PRIORITY_FRAME and "may not depend on itself" in problem:
        return "priorities are deprecated and not read (RFC 9113 §5.3.2)"
    if frame.kind > CONTINUATION:
        return "extensions are not read (RFC 9113 §5.5)"
    if frame.kind == WINDOW_UPDATE and frame.payload and frame.payload[0] & 0x80:
        return "the library does not ignore the reserved bit (RFC 9113 §6.9)"
    if frame.kind == WINDOW_UPDATE and frame.stream:
        return "a request that is sent needs no window"
    return ""


def may_refuse(frame: Frame, client: Client) -> str:
    """Return why the client may close the connection where the library does not."""
    if frame.kind == RST_STREAM and any("never opened" in problem for problem in client.problems):
        return "the library takes resets of idle streams, against RFC 9113 §5.1"
    if frame.kind == PUSH_PROMISE and not frame.flags & END_HEADERS:
        return "the library refuses a push when all of its head is there"
    if frame.kind == SETTINGS and repeats_setting(frame.payload):
        return "the library checks only the last value of a setting that a frame has twice, against RFC 9113 §6.5.3"
    if frame.kind == WINDOW_UPDATE and frame.stream and any("a window of more than" in one for one in client.problems):
        return "the client treats an error of a stream's window as one of the connection (RFC 9113 §5.4.1)"
    if any("frames that bring nothing" in problem for problem in client.problems):
        return "the client limits how many frames bring nothing"
    return ""


def repeats_setting(payload: bytes) -> bool:
    """Whether a SETTINGS frame has several values of one setting."""
    keys = [payload[at : at + 2] for at in range(0, len(payload), 6)]
    return len(set(keys)) < len(keys)


def compare(data: bytes, cuts: Iterator[int] | None = None) -> str:
    """Give both the frames in `data`; returns how it ended. Raises `Difference`. Needs a running loop."""
    reference, client = Reference(), Client()
    try:
        for frame in (*HELLO, *frames_of(data)):
            before = reference.states
            reference.received(frame)
            sent = frame.serialize()
            while sent:
                size = next(cuts) if cuts is not None else len(sent)
                client.received(sent[:size])
                sent = sent[size:]
            closed = reference.problem is not None
            if reference.leaving:
                return "goaway"
            states = client.states
            if closed == client.lost and reference.states == states:
                if closed:
                    return "closed"
                continue
            if why := may_differ(frame, reference, client):
                return why
            shown = frame._replace(payload=frame.payload[:40])
            raise Difference(
                f"after {shown}: the library says {reference.states} {reference.problem!r} (before {before}), "
                f"the client {states}, lost: {client.lost}, {client.problems}"
            )
        return "open"
    finally:
        client.close()
