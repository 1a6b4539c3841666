"""One connection to a name server or a broker; responses are matched to requests by their number."""

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rocketmq.remoting.codes import ResponseCode
from rocketmq.remoting.errors import ConnectionClosedError, RefusedError, RemotingError, RequestTimeoutError
from rocketmq.remoting.frames import ONEWAY_FLAG, RESPONSE_FLAG, Command, FrameError, FrameParser, encode

CONNECT_TIMEOUT_SECONDS = 5.0
REQUEST_TIMEOUT_SECONDS = 10.0
MAX_PENDING_REQUESTS = 256
READ_BYTES = 64 * 1024
MAX_OPAQUE = 2**31 - 1


class Connection:
    """An open connection, which does not reconnect: the caller opens a new one.

    Use it as an asynchronous context manager, or call `close`.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str) -> None:
        self.address = address
        self._reader = reader
        self._writer = writer
        self._opaque = 0
        self._pending: dict[int, asyncio.Future[Command]] = {}
        self._end: str | None = None
        self._receiver = asyncio.create_task(self._receive(), name=f"rocketmq-receive-{address}")

    @classmethod
    async def open(cls, address: str, *, timeout_seconds: float = CONNECT_TIMEOUT_SECONDS) -> Self:
        """Connect to `HOST:PORT`.

        Raises:
            RemotingError: the address is not valid, or the server does not accept the connection in time.
        """
        host, separator, port = address.rpartition(":")
        if not separator or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise RemotingError(f"the address {address!r} is not valid: use HOST:PORT")
        try:
            async with asyncio.timeout(timeout_seconds):
                reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        except TimeoutError as error:
            raise RequestTimeoutError(f"{address} did not accept within {timeout_seconds:g} seconds") from error
        except OSError as error:
            raise ConnectionClosedError(f"{address} does not accept connections: {error}") from error
        return cls(reader, writer, address)

    @property
    def closed(self) -> bool:
        """Whether the connection has ended, so that every further request fails."""
        return self._end is not None

    async def request(
        self,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
        accept: tuple[int, ...] = (ResponseCode.SUCCESS,),
    ) -> Command:
        """Send a request and return its response.

        Args:
            code: a request code.
            fields: the fields of the header that the command defines.
            body: the body that the command defines.
            timeout_seconds: the timeout of the write and the response together.
            accept: the response codes that are not errors.

        Raises:
            RefusedError: the response has another code.
            RequestTimeoutError: the response did not arrive in time.
            ConnectionClosedError: the connection ended before the response arrived.
            FrameError: the request exceeds the size of a frame.
        """
        if len(self._pending) >= MAX_PENDING_REQUESTS:
            raise RemotingError(
                f"{self.address} has not answered {MAX_PENDING_REQUESTS} requests; wait for one of them"
            )
        opaque = self._next_opaque()
        frame = encode(Command(code, opaque, fields=fields or {}, body=body))
        answer = asyncio.get_running_loop().create_future()
        self._pending[opaque] = answer
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._write(frame)
                response = await answer
        except TimeoutError as error:
            message = f"{self.address} did not answer request {code} within {timeout_seconds:g} seconds"
            raise RequestTimeoutError(message) from error
        finally:
            self._pending.pop(opaque, None)
            if answer.done() and not answer.cancelled():
                # Marks the exception as retrieved when the write failed first.
                answer.exception()
        if response.code not in accept:
            raise RefusedError(code, response.code, self.address, response.remark)
        return response

    async def send_oneway(
        self,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
    ) -> None:
        """Send a request that the server does not answer.

        Raises:
            RequestTimeoutError: the server does not read the bytes in time.
            ConnectionClosedError: the connection ended.
        """
        frame = encode(Command(code, self._next_opaque(), ONEWAY_FLAG, fields=fields or {}, body=body))
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._write(frame)
        except TimeoutError as error:
            raise RequestTimeoutError(f"{self.address} does not read request {code}") from error

    async def close(self) -> None:
        """Close the connection; requests that wait fail with `ConnectionClosedError`."""
        self._finish("it was closed by this side")
        self._receiver.cancel()
        await asyncio.gather(self._receiver, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _next_opaque(self) -> int:
        while True:
            self._opaque = self._opaque % MAX_OPAQUE + 1
            if self._opaque not in self._pending:
                return self._opaque

    async def _write(self, frame: bytes) -> None:
        if self._end is not None:
            raise ConnectionClosedError(f"the connection to {self.address} has ended: {self._end}")
        try:
            self._writer.write(frame)
            await self._writer.drain()
        except OSError as error:
            self._finish(str(error))
            raise ConnectionClosedError(f"the connection to {self.address} has ended: {error}") from error

    async def _receive(self) -> None:
        parser = FrameParser()
        try:
            while data := await self._reader.read(READ_BYTES):
                for command in parser.feed(data):
                    self._deliver(command)
            reason = "the server closed it"
        except (FrameError, OSError) as error:
            reason = str(error)
        self._finish(reason)

    def _deliver(self, command: Command) -> None:
        # No task waits for requests of the server, or for responses that arrive after their timeout.
        answer = self._pending.get(command.opaque) if command.flag & RESPONSE_FLAG else None
        if answer is not None and not answer.done():
            answer.set_result(command)

    def _finish(self, reason: str) -> None:
        if self._end is not None:
            return
        self._end = reason
        self._writer.transport.abort()
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(ConnectionClosedError(f"the connection to {self.address} has ended: {reason}"))
