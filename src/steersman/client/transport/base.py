"""The interface between the API verbs and an HTTP library: four methods that send and receive bytes.

A transport serves one server. It sends a request and returns the response, whatever its status. It never retries,
follows redirects, authenticates or decodes. It must tell failures apart: `ConnectError` promises that the request was
not sent, and the retries of writes rely on that promise.

A test can replace the server with an object that has `request`; see `Transport`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, cast
from urllib.parse import quote_plus

import msgspec

from steersman.client.errors import TransportError

__all__ = [
    "ChunkConsumer",
    "ChunkDelivery",
    "HeaderPairs",
    "Headers",
    "PairedHeaders",
    "Query",
    "RequestHeaders",
    "Response",
    "StreamResponse",
    "Transport",
    "UnsupportedTransport",
    "WebSocket",
    "close_chunks",
    "deliver",
    "request_target",
]

Query: TypeAlias = Mapping[str, str] | Sequence[tuple[str, str]]
"""Query parameters, not yet encoded. A sequence of pairs can repeat a name."""

RequestHeaders: TypeAlias = Mapping[str, str] | Sequence[tuple[str, str]]
"""Request headers. A sequence of pairs can repeat a name. They may hold credentials: never log them."""

ChunkConsumer: TypeAlias = Callable[[bytes], bool]
"""A function that receives one chunk and returns True to stop the delivery."""


class Headers(Protocol):
    """The headers of a response; names are case-insensitive."""

    def get(self, name: str) -> str | None:
        """Return the first value of a header, or `None`."""
        ...

    def get_all(self, name: str) -> Sequence[str]:
        """Return all values of a header in order; empty if the header is absent."""
        ...


class PairedHeaders:
    """Base class of headers that are stored as pairs: subclasses return lower-case names and values from `_pairs`."""

    __slots__ = ()

    def _pairs(self) -> Sequence[tuple[str, str]]:
        raise NotImplementedError

    def get_all(self, name: str) -> Sequence[str]:
        """Return all values of a header in order; empty if the header is absent."""
        name = name.lower()
        return [value for known, value in self._pairs() if known == name]

    def __repr__(self) -> str:
        return f"<headers {', '.join(name for name, _ in self._pairs())}>"


class HeaderPairs(PairedHeaders):
    """Headers from a mapping or a sequence of pairs."""

    __slots__ = ("_known",)

    def __init__(self, pairs: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> None:
        items = cast("Iterable[tuple[str, str]]", pairs.items() if isinstance(pairs, Mapping) else pairs)
        self._known = tuple((name.lower(), value) for name, value in items)

    def _pairs(self) -> Sequence[tuple[str, str]]:
        return self._known

    def get(self, name: str) -> str | None:
        """Return the first value of a header, or `None`."""
        name = name.lower()
        return next((value for known, value in self._known if known == name), None)


class Response(msgspec.Struct, frozen=True):
    """A complete response. The body is not part of its `repr`, because it may hold a Secret."""

    status: int
    headers: Headers = msgspec.field(default_factory=HeaderPairs)
    body: bytes = b""

    def __repr__(self) -> str:
        return f"Response(status={self.status!r}, headers={self.headers!r})"


@dataclass(frozen=True, slots=True)
class StreamResponse:
    """The status and headers of a response, and an iterator of its body. A chunk can end inside a character."""

    status: int
    headers: Headers
    chunks: AsyncIterator[bytes] = field(repr=False)


async def close_chunks(chunks: AsyncIterator[bytes]) -> None:
    """Close chunks that are an async generator; other chunks end with their connection."""
    if isinstance(chunks, AsyncGenerator):
        await chunks.aclose()


class ChunkDelivery(Protocol):
    """Chunks that call a consumer when bytes arrive, without waking a task for each chunk."""

    async def deliver(self, take: ChunkConsumer) -> bool:
        """Pass each chunk to the consumer; see the function `deliver`."""
        ...


async def deliver(chunks: AsyncIterator[bytes], take: ChunkConsumer) -> bool:
    """Pass each chunk to `take`.

    Some transports call `take` directly when the bytes arrive. After True, the caller may call `deliver` again for the
    rest of the chunks.

    Returns:
        True after `take` returned True, False at the end of the chunks.

    Raises:
        TransportError: The connection broke. Exceptions of `take` are raised unchanged.
    """
    own = getattr(
        chunks, "deliver", None
    )  # of `ChunkDelivery`: `isinstance` with a protocol takes longer than the delivery
    if own is not None:
        return await own(take)
    async for chunk in chunks:
        if take(chunk):
            return True
    return False


class WebSocket(Protocol):
    """An open WebSocket that carries binary messages (RFC 6455)."""

    @property
    def protocol(self) -> str:
        """The subprotocol that the server selected; `""` for none."""
        ...

    async def send(self, data: bytes) -> None:
        """Send one binary message; waits while the peer reads slowly. Raises `ConnectionLostError`."""
        ...

    async def receive(self) -> bytes | None:
        """Return the next message, or `None` after an orderly close. Raises `ConnectionLostError`."""
        ...

    async def close(self) -> None:
        """Close the WebSocket; safe to call twice."""
        ...


class Transport(Protocol):
    """Sends HTTP requests to one server.

    `path` is absolute and percent-encoded; `query` is not encoded. `timeout` is the time in seconds for the whole
    request, `connect_timeout` the time until the response headers arrive, and `idle_timeout` the time without data
    after which a stream fails.

    Network failures raise `ConnectError` if the request was not sent, `ConnectionLostError` if the connection broke
    after the request was (or may have been) sent, and `TransportTimeoutError` after a timeout; no other exceptions. An
    HTTP status never raises. Cancelling a call closes its connection or stream.

    A test can use a class with `request` and `close` (and `stream` for watches). `UnsupportedTransport` refuses the
    other calls:
        class Fake(UnsupportedTransport):
            async def request(self, method, path, *, query=(), headers, body=None, timeout):
                return Response(200, body=b'{"metadata": {"name": "web"}}')

        client = Client(Config.for_url("http://fake"), transport=Fake())
    """

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: RequestHeaders = (),
        body: bytes | None = None,
        timeout: float,
    ) -> Coroutine[Any, Any, Response]:
        """Send one request and read the whole response."""
        ...

    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: RequestHeaders = (),
        body: bytes | None = None,
        connect_timeout: float,
        idle_timeout: float,
    ) -> AbstractAsyncContextManager[StreamResponse]:
        """Send one request and read the response body as a stream; leaving the context cancels the rest."""
        ...

    async def websocket(
        self, path: str, *, query: Query = (), headers: RequestHeaders = (), protocols: Sequence[str], timeout: float
    ) -> WebSocket:
        """Open a WebSocket. Raises `UpgradeRefusedError` with the response if the server does not switch protocols."""
        ...

    async def close(self) -> None:
        """Close all connections. Open streams fail with an error."""
        ...


class UnsupportedTransport:
    """Base class of test transports: refuses the calls that a subclass does not override."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: RequestHeaders = (),
        body: bytes | None = None,
        timeout: float,
    ) -> Response:
        """Refuse the request."""
        raise TransportError(f"{type(self).__name__} does not support requests")

    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: RequestHeaders = (),
        body: bytes | None = None,
        connect_timeout: float,
        idle_timeout: float,
    ) -> AbstractAsyncContextManager[StreamResponse]:
        """Refuse the stream."""
        raise TransportError(f"{type(self).__name__} does not support streams")

    async def websocket(
        self, path: str, *, query: Query = (), headers: RequestHeaders = (), protocols: Sequence[str], timeout: float
    ) -> WebSocket:
        """Refuse the WebSocket."""
        raise TransportError(f"{type(self).__name__} does not support WebSockets")

    async def close(self) -> None:
        """Do nothing: there are no connections."""
        return


def request_target(path: str, query: Query) -> str:
    """Return the request target (RFC 9112 section 3.2): the path and the encoded query."""
    if not query:
        return path
    pairs = query.items() if isinstance(query, Mapping) else query
    return f"{path}?{'&'.join([f'{quote_plus(name)}={quote_plus(value)}' for name, value in pairs])}"
