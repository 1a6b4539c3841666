"""One request of an HTTP/2 connection and its response. Whole answers are a future, watches and logs are read.

Thousands are made each second, hence a struct, which is made without a Python call. Frames are none of its business:
the connection fills it.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

import msgspec

from steersman.client.errors import ConnectError, TransportError
from steersman.client.transport.base import Response, Take
from steersman.client.transport.http2.headers import BlockHeaders
from steersman.client.transport.wire import asked

__all__ = ["MUCH", "NEVER", "STREAM_WINDOW", "WORTHWHILE", "Connection", "RequestNotSentError", "Stream"]

STREAM_WINDOW: Final = 1 << 21
"""Bytes of one response that may wait for their reader. With a quarter of that, large objects cost a fifth more: the
server stops, and is told to go on, for every few of them."""
MUCH: Final = 1 << 13
"""Bytes in a piece from which on a task is woken for it: then the buffers that it came in are free for what is made of
it, and are still in the processor's caches."""
WORTHWHILE: Final = 1 << 15
"""Bytes that are worth giving to a reader while there are more."""
NEVER: Final = float("inf")


class RequestNotSentError(ConnectError):
    """The server says that it has not begun with a request (RFC 9113 §6.8, §8.7): it may be asked elsewhere."""


class Connection(Protocol):
    """What a stream needs of its connection."""

    def waiter(self) -> asyncio.Future[bool]:
        """A future of the loop."""
        ...

    def make_room(self, stream: Stream, waiting: int = 0) -> None:
        """The server may send what has been read once more: all that has arrived, but for what still waits here."""
        ...

    def leave(self, stream: Stream, why: str) -> None:
        """Nobody waits for it any more."""
        ...


class Stream(msgspec.Struct, eq=False):
    """`answer` waits for the whole response, `head` for the status, `reader` for more of the body.

    With `taker`, what comes of the body is given to that, and `reader` waits until that wants no more.
    """

    connection: Connection
    id: int
    method: str
    where: str
    deadline: float
    answer: asyncio.Future[Response] | None = None
    head: asyncio.Future[None] | None = None
    reader: asyncio.Future[bool] | None = None
    taker: Take | None = None
    status: int = 0
    block: bytes = b""
    body: list[bytes] | None = None
    """What has come in pieces."""
    total: int = 0
    """Bytes of the body that have come in pieces."""
    arrived: int = 0
    """Bytes that the server has not been given room for again."""
    complete: bool = False
    problem: TransportError | None = None
    unsent: memoryview | None = None
    window: int = 0

    def __repr__(self) -> str:
        return f"<stream {self.id}: {self.what}>"

    @property
    def what(self) -> str:
        """The request, for people."""
        return asked(self.method, self.where)

    @property
    def headers(self) -> BlockHeaders:
        return BlockHeaders(self.block)

    def take(self) -> bytes:
        """The pieces of the body that are there, as one."""
        body, self.body = self.body, None
        if body is None:
            return b""
        return body[0] if len(body) == 1 else b"".join(body)

    async def read(self) -> bytes:
        """The bytes of the body that are there, or the next ones; `b""` at its end."""
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
        self._make_room()
        return data

    def _make_room(self) -> None:
        """Let the server go on, once half of the window has been read; what waits still fills its part of it."""
        if self.arrived > STREAM_WINDOW >> 1 and not self.complete:
            waiting = sum(map(len, self.body or ()))
            if self.arrived - waiting > STREAM_WINDOW >> 1:
                self.connection.make_room(self, waiting)

    async def pour(self, take: Take) -> bool:
        """Give all that comes to `take` until that wants no more (true) or the body ends.

        Where it is little, that is done right where it arrives.
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
            self.taker = take
            try:
                if await reader:
                    return True
            finally:
                self.reader = self.taker = None

    def _give(self, take: Take) -> bool:
        """Give `take` what is there, until it wants no more (true).

        Nearly as it came: to make one piece of all first would move it all through memory once more.
        """
        pieces = self.body or []
        self.body = None
        pieces.reverse()
        enough = False
        while pieces and not enough:
            piece = pieces.pop()
            while pieces and len(piece) < WORTHWHILE:
                piece += pieces.pop()
            enough = take(piece)
        pieces.reverse()
        self.body = pieces or None
        self._make_room()
        return enough

    def wake(self) -> None:
        """There is something to read, or there will never be more."""
        reader, take = self.reader, self.taker
        if reader is None or reader.done():
            return
        enough = False
        if take is not None and self.body is not None and len(self.body[-1]) < MUCH:
            try:
                enough = take(self._read())
            except Exception as problem:  # noqa: BLE001 - it is the reader's, and not the connection's
                if not reader.done():
                    reader.set_exception(problem)
                return
            if reader.done() or not (enough or self.complete or self.problem is not None):
                return
        reader.set_result(enough)

    def finish(self) -> None:
        """The reader leaves; a response that is not complete is cancelled."""
        self.connection.leave(self, "left")

    def fail(self, problem: TransportError) -> None:
        """Whoever waits gets `problem`."""
        self.problem = problem
        for waiter in (self.answer, self.head):
            if waiter is not None and not waiter.done():
                waiter.set_exception(problem)
        self.wake()
