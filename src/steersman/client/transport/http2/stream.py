"""One request on an HTTP/2 connection and its response.

A complete response is a future; watches and logs are read in pieces. A process creates thousands of streams per
second, hence the `msgspec.Struct`, which is created without a Python call. The connection parses the frames.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

import msgspec

from steersman.client.errors import ConnectError, TransportError
from steersman.client.transport.base import ChunkConsumer, PairedHeaders, Response
from steersman.client.transport.connection import request_label
from steersman.client.transport.http2.header_blocks import ENCODED_NAMES, decode_fields, values_of

__all__ = [
    "JOINED_PIECES_BYTES",
    "NO_DEADLINE",
    "STREAM_WINDOW_BYTES",
    "TASK_WAKEUP_MIN_BYTES",
    "BlockHeaders",
    "RequestNotSentError",
    "Stream",
    "StreamOwner",
]

STREAM_WINDOW_BYTES: Final = 1 << 21
"""Bytes of one response that may wait for their reader. With a quarter of this value, large objects take a fifth more
time, because the server stops and waits for a WINDOW_UPDATE after every few objects."""
TASK_WAKEUP_MIN_BYTES: Final = 1 << 13
"""Pieces of at least this size are handled by a task of their own: then the receive buffers are free while the data is
decoded, and the data is still in the processor's caches."""
JOINED_PIECES_BYTES: Final = 1 << 15
"""Pieces are joined up to this size before the reader gets them."""
NO_DEADLINE: Final = float("inf")
"""The deadline of a stream without a timeout."""


class RequestNotSentError(ConnectError):
    """The server did not process the request (RFC 9113 sections 6.8 and 8.7), so it can be sent again."""


class BlockHeaders(PairedHeaders, msgspec.Struct, eq=False, gc=False):
    """The headers of a response, decoded when a header is read. An invalid header block has no headers."""

    _block: bytes
    _known: list[tuple[str, str]] | None = None

    def get(self, name: str) -> str | None:
        """Return the first value of a header, or `None`."""
        if self._known is None:
            index, names = ENCODED_NAMES[name]
            if index:
                if not values_of(self._block, index, names):
                    return None
            else:
                # Not `in`: for bytes it creates an exception internally, which is slow.
                find = self._block.find
                if find(names[1]) < 0 and find(names[0]) < 0:
                    return None
        found = self.get_all(name)
        return found[0] if found else None

    def _pairs(self) -> list[tuple[str, str]]:
        if self._known is None:
            self._known = decode_fields(self._block)
        return self._known


class StreamOwner(Protocol):
    """The methods of the connection that a stream calls."""

    def waiter(self) -> asyncio.Future[bool]:
        """Return a future for a reader."""
        ...

    def enlarge_window(self, stream: Stream, waiting: int = 0) -> None:
        """Enlarge the window of a stream by the bytes that its reader has taken; `waiting` bytes are not yet taken."""
        ...

    def leave(self, stream: Stream, why: str) -> None:
        """Cancel a stream, unless it has ended."""
        ...


class Stream(msgspec.Struct, eq=False):
    """One request. `response` is the future of the whole response, `head` of its headers, `reader` of body bytes.

    With a `consumer`, body pieces are passed to it as they arrive, and `reader` completes when it returns True.
    """

    connection: StreamOwner
    id: int
    method: str
    where: str
    deadline: float
    response: asyncio.Future[Response] | None = None
    head: asyncio.Future[None] | None = None
    reader: asyncio.Future[bool] | None = None
    consumer: ChunkConsumer | None = None
    status: int = 0
    block: bytes = b""
    body: list[bytes] | None = None
    """Pieces of the body that have not been read."""
    total: int = 0
    """Bytes of the body that arrived in pieces."""
    arrived: int = 0
    """Bytes that arrived since the last WINDOW_UPDATE."""
    complete: bool = False
    problem: TransportError | None = None
    unsent: memoryview | None = None
    window: int = 0

    def __repr__(self) -> str:
        return f"<stream {self.id}: {self.label}>"

    @property
    def label(self) -> str:
        """The request as error messages name it."""
        return request_label(self.method, self.where)

    @property
    def headers(self) -> BlockHeaders:
        """The headers of the response."""
        return BlockHeaders(self.block)

    def take(self) -> bytes:
        """Remove and return the available bytes of the body."""
        body, self.body = self.body, None
        if body is None:
            return b""
        return body[0] if len(body) == 1 else b"".join(body)

    async def read(self) -> bytes:
        """Return the available bytes of the body, or wait for the next ones; `b""` at its end."""
        while self.body is None:
            if self.complete:
                return b""
            if self.problem is not None:
                raise self.problem
            reader = self.reader = self.connection.waiter()
            try:
                await reader
            finally:
                self.reader = None
        return self._read()

    def _read(self) -> bytes:
        data = self.take()
        self._enlarge_window()
        return data

    def _enlarge_window(self) -> None:
        """Enlarge the window after half of it has been read; unread pieces still occupy their part of it."""
        if self.arrived > STREAM_WINDOW_BYTES >> 1 and not self.complete:
            waiting = sum(map(len, self.body or ()))
            if self.arrived - waiting > STREAM_WINDOW_BYTES >> 1:
                self.connection.enlarge_window(self, waiting)

    async def deliver(self, take: ChunkConsumer) -> bool:
        """Pass the body to `take` until it returns True, or until the end (returns False).

        Small pieces are passed on directly when they arrive.
        """
        while True:
            if self.body is not None:
                if self._give(take):
                    return True
                continue
            if self.complete:
                return False
            if self.problem is not None:
                raise self.problem
            reader = self.reader = self.connection.waiter()
            self.consumer = take
            try:
                if await reader:
                    return True
            finally:
                self.reader = self.consumer = None

    def _give(self, take: ChunkConsumer) -> bool:
        """Pass the available pieces to `take` until it returns True.

        The pieces are joined only up to `JOINED_PIECES_BYTES` bytes: joining all of them would copy the whole body once
        more.
        """
        pieces = self.body or []
        self.body = None
        pieces.reverse()
        enough = False
        while pieces and not enough:
            piece = pieces.pop()
            while pieces and len(piece) < JOINED_PIECES_BYTES:
                piece += pieces.pop()
            enough = take(piece)
        pieces.reverse()
        self.body = pieces or None
        self._enlarge_window()
        return enough

    def wake(self) -> None:
        """Wake the reader: there is more to read, or the stream has ended."""
        reader, take = self.reader, self.consumer
        if reader is None or reader.done():
            return
        enough = False
        if take is not None and self.body is not None and len(self.body[-1]) < TASK_WAKEUP_MIN_BYTES:
            try:
                enough = take(self._read())
            except Exception as problem:  # noqa: BLE001 - an error of the reader must not close the connection
                if not reader.done():
                    reader.set_exception(problem)
                return
            if reader.done() or not (enough or self.complete or self.problem is not None):
                return
        reader.set_result(enough)

    def finish(self) -> None:
        """End reading; cancel a response that is not complete."""
        self.connection.leave(self, "left")

    def fail(self, problem: TransportError) -> None:
        """Fail the stream: all waiting tasks get `problem`."""
        self.problem = problem
        for waiter in (self.response, self.head):
            if waiter is not None and not waiter.done():
                waiter.set_exception(problem)
        self.wake()
