"""The transport for clients in the same process: no socket, no TLS, and virtual time on request."""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlencode

from steersman.client.errors import ConnectError, ConnectionLostError, TransportTimeoutError, UpgradeRefusedError
from steersman.client.transport.base import HeaderPairs, Query, RequestHeaders, StreamResponse, close_chunks
from steersman.client.transport.base import Response as Answer
from steersman_cluster.api.requests.messages import JSON, Params, Request, Response
from steersman_cluster.errors import APIError
from steersman_cluster.strategy import User

if TYPE_CHECKING:
    from steersman_cluster.api.server import APIServer

__all__ = ["InProcessTransport"]


_JSON_HEADERS: Final = HeaderPairs((("Content-Type", JSON),))


class _Headers(dict[str, str]):
    """Headers with names in lower case."""

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        return super().get(name.lower(), default)


class InProcessTransport:
    """A `client.transport.Transport` that calls an API server in this process.

    Args:
        server: The API server.
        user: The user of all requests; headers do not change it.
        quiet: Whether to drop warnings; for the built-in controllers, which read deprecated fields.
    """

    as_of: int | None = None
    """The revision that lists and new watches are served from, as by a server whose watch cache is behind."""

    def __init__(self, server: APIServer, user: User | None = None, *, drop_warnings: bool = False) -> None:
        self._server = server
        self._user = user
        self._drop_warnings = drop_warnings
        self._closed = False

    @property
    def revision(self) -> int:
        """The revision of the server's last write."""
        return self._server.storage.revision

    def _request(self, method: str, path: str, query: Query, headers: RequestHeaders, body: bytes | None) -> Request:
        if self._closed:
            raise ConnectError(f"{method} {path}: the client is closed")
        pairs = tuple(query.items() if isinstance(query, Mapping) else query) if query else ()
        given = headers.items() if isinstance(headers, Mapping) else headers
        return Request(
            method,
            unquote(path) if "%" in path else path,
            Params(pairs),
            _Headers([(name.lower(), value) for name, value in given]),
            body or b"",
            self._user,
            query=urlencode(pairs) if pairs else "",
            as_of=self.as_of,
        )

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: RequestHeaders = (),
        body: bytes | None = None,
        timeout: float,
    ) -> Answer:
        """Send a request; see `Transport.request`."""
        handling = self._server.handle(self._request(method, path, query, headers, body))
        # Most requests wait for nothing, and need no timer.
        try:
            waits_for = handling.send(None)
        except StopIteration as done:
            response: Response = done.value
            if response.stream is None:
                return Answer(response.status, self._headers(response), response.body)
            waiting = _finished(response)
        else:
            waiting = _resumed(handling, waits_for)
        try:
            async with asyncio.timeout(timeout):
                response = await waiting
                data = response.body
                if response.stream is not None:
                    data = b"".join([chunk async for chunk in response.stream])
        except TimeoutError:
            raise TransportTimeoutError(f"{method} {path}: no answer within {timeout:g} s") from None
        return Answer(response.status, self._headers(response), data)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: RequestHeaders = (),
        body: bytes | None = None,
        connect_timeout: float,
        idle_timeout: float,
    ) -> AsyncGenerator[StreamResponse]:
        """Open a stream; see `Transport.stream`."""
        response = await self._server.handle(self._request(method, path, query, headers, body))
        chunks = response.stream if response.stream is not None else _single_chunk(response.body)
        reading = _timed(chunks, idle_timeout, f"{method} {path}")
        try:
            yield StreamResponse(response.status, self._headers(response), reading)
        finally:
            for each in (reading, chunks):
                await close_chunks(each)

    async def websocket(
        self, path: str, *, query: Query = (), headers: RequestHeaders = (), protocols: Sequence[str], timeout: float
    ) -> _End:
        """Open a WebSocket; see `Transport.websocket`."""
        given = headers.items() if isinstance(headers, Mapping) else headers
        request = self._request("GET", path, query, (*given, ("Upgrade", "websocket")), None)
        response = await self._server.handle(request)
        chosen = next((p for p in response.protocols if p in protocols), None)
        if response.serve is None or chosen is None:
            raise UpgradeRefusedError(f"GET {path}", response.status, response.body, response.content_type)
        ours, theirs = _pipe(chosen)
        ours.task = asyncio.ensure_future(response.serve(theirs))  # type: ignore[arg-type]
        return ours

    async def close(self) -> None:
        """Do nothing: the server belongs to its creator."""
        self._closed = True

    def _headers(self, response: Response) -> HeaderPairs:
        headers = response.headers
        if self._drop_warnings and headers:
            headers = [pair for pair in headers if pair[0] != "Warning"]
        if not headers and response.content_type == JSON:
            return _JSON_HEADERS
        return HeaderPairs((("Content-Type", response.content_type), *headers))


async def _finished(response: Response) -> Response:
    return response


@types.coroutine
def _resumed(handling: Coroutine[Any, Any, Response], waits_for: Any) -> Generator[Any, Any, Response]:
    """Run a coroutine to its end that has been started, and waits for what its first step has returned."""
    while True:
        try:
            sent = yield waits_for
        except BaseException as problem:  # noqa: BLE001 - the coroutine handles it
            step, argument = handling.throw, problem
        else:
            step, argument = handling.send, sent
        try:
            waits_for = step(argument)
        except StopIteration as done:
            return done.value


async def _single_chunk(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _timed(chunks: AsyncIterator[bytes], seconds: float, what: str) -> AsyncIterator[bytes]:
    while True:
        try:
            async with asyncio.timeout(seconds):
                chunk = await anext(chunks, None)
        except TimeoutError:
            raise TransportTimeoutError(f"{what}: silence for {seconds:g} s") from None
        except APIError as problem:  # too late for a status: over a socket the connection would break
            raise ConnectionLostError(f"{what}: the connection broke: {problem}") from None
        if chunk is None:
            return
        yield chunk


class _End:
    """One end of a web socket that is no socket."""

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self.peer: _End | None = None
        self.task: asyncio.Future[object] | None = None
        self._messages: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._closed = False

    async def send(self, data: bytes) -> None:
        if self._closed or self.peer is None or self.peer._closed:
            raise ConnectionLostError("the web socket is closed")
        self.peer._messages.put_nowait(data)

    async def receive(self) -> bytes | None:
        if self._closed and self._messages.empty():
            return None
        return await self._messages.get()

    async def close(self) -> None:
        for end in (self, self.peer):
            if end is not None and not end._closed:
                end._closed = True
                end._messages.put_nowait(None)
        if self.task is not None:
            task, self.task = self.task, None
            await asyncio.wait([task])


def _pipe(protocol: str) -> tuple[_End, _End]:
    one, other = _End(protocol), _End(protocol)
    one.peer, other.peer = other, one
    return one, other
