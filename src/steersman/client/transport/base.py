"""The narrow waist between Kubernetes' verbs and an HTTP library: five calls, bytes in and bytes out.

A transport knows one server. It sends what it is told and reports what came back, whatever the status; it never
retries, never follows redirects, never authenticates and never decodes. What it must get right is *telling failures
apart*: `ConnectError` promises that the request was never sent, and retries of writes rest on that promise.

The least that a test needs to stand in for a server is `request`; see `Transport`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, cast
from urllib.parse import quote_plus

import msgspec

from steersman.client.errors import TransportError

__all__ = [
    "HeaderPairs",
    "Headers",
    "PairedHeaders",
    "Pouring",
    "Query",
    "RequestHeaders",
    "Response",
    "StreamResponse",
    "Take",
    "Transport",
    "UnsupportedTransport",
    "WebSocket",
    "pour",
    "target",
]

Query: TypeAlias = Mapping[str, str] | Sequence[tuple[str, str]]
"""Query parameters, not yet encoded; a sequence of pairs where a name repeats."""

RequestHeaders: TypeAlias = Mapping[str, str] | Sequence[tuple[str, str]]
"""Headers to send; a sequence of pairs where a name repeats. They may hold credentials: never log them."""

Take: TypeAlias = Callable[[bytes], bool]
"""What takes chunks in, one by one, and says by true that it wants no more for now."""


class Headers(Protocol):
    """The headers of a response; names are case-insensitive."""

    def get(self, name: str) -> str | None:
        """The first value of a header, or `None`."""
        ...

    def get_all(self, name: str) -> Sequence[str]:
        """All values of a header, in order; empty where it is absent."""
        ...


class PairedHeaders:
    """What all headers do that have `_pairs`: names in lower case, and values."""

    __slots__ = ()

    def _pairs(self) -> Sequence[tuple[str, str]]:
        raise NotImplementedError

    def get_all(self, name: str) -> Sequence[str]:
        name = name.lower()
        return [value for known, value in self._pairs() if known == name]

    def __repr__(self) -> str:
        return f"<headers {', '.join(name for name, _ in self._pairs())}>"


class HeaderPairs(PairedHeaders):
    """Headers as a plain sequence of pairs; what tests and other transports use."""

    __slots__ = ("_known",)

    def __init__(self, pairs: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> None:
        items = cast("Iterable[tuple[str, str]]", pairs.items() if isinstance(pairs, Mapping) else pairs)
        self._known = tuple((name.lower(), value) for name, value in items)

    def _pairs(self) -> Sequence[tuple[str, str]]:
        return self._known

    def get(self, name: str) -> str | None:
        name = name.lower()
        return next((value for known, value in self._known if known == name), None)


class Response(msgspec.Struct, frozen=True):
    """A whole response. The body is not part of its `repr`: it may hold a Secret."""

    status: int
    headers: Headers = msgspec.field(default_factory=HeaderPairs)
    body: bytes = b""

    def __repr__(self) -> str:
        return f"Response(status={self.status!r}, headers={self.headers!r})"


@dataclass(frozen=True, slots=True)
class StreamResponse:
    """The head of a response, and its body as it arrives. Chunks end anywhere, also inside a character."""

    status: int
    headers: Headers
    chunks: AsyncIterator[bytes] = field(repr=False)


class Pouring(Protocol):
    """Chunks that need no task to be woken for each: some transports' are."""

    async def pour(self, take: Take) -> bool:
        """What the function `pour` promises."""
        ...


async def pour(chunks: AsyncIterator[bytes], take: Take) -> bool:
    """Give each chunk to `take`, until that wants no more (true) or they end (false).

    Where the transport can, `take` is called right where the bytes arrive. What it raises is raised here. After true,
    it may be called again for the rest.
    """
    own = getattr(chunks, "pour", None)  # of `Pouring`; `isinstance` of a protocol takes longer than all the rest
    if own is not None:
        return await own(take)
    async for chunk in chunks:
        if take(chunk):
            return True
    return False


class WebSocket(Protocol):
    """An open web socket that carries binary messages."""

    @property
    def protocol(self) -> str:
        """The subprotocol that the server chose; `""` for none."""
        ...

    async def send(self, data: bytes) -> None:
        """Send one binary message; waits while the peer reads slowly. Raises `ConnectionLost`."""
        ...

    async def receive(self) -> bytes | None:
        """The next message, or `None` after an orderly close. Raises `ConnectionLost`."""
        ...

    async def close(self) -> None:
        """Close in order; safe to call twice."""
        ...


class Transport(Protocol):
    """One server, spoken to over HTTP.

    `path` is absolute and already percent-encoded; `query` is not. `timeout` is the whole time in seconds that a
    request may take, `connect_timeout` the time until the response's head, and `idle_timeout` the longest silence
    between two chunks of a stream.

    Raises `ConnectError` when the request was never sent, `ConnectionLost` when the connection broke after that (or
    may have), `TransportTimeout` when time ran out, and never anything else for trouble on the network. A status is
    never an error. Cancelling a call abandons its connection.

    For tests of what stands on the client, a class with `request` and `close` (and `stream` where there are
    watches) is enough; derive from `UnsupportedTransport`, which refuses the rest:

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
        """Send one request and read the whole response; an `async def`, or what returns the coroutine of another."""
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
        """Send one request and read the response as it comes; leaving the context abandons the rest."""
        ...

    async def websocket(
        self, path: str, *, query: Query = (), headers: RequestHeaders = (), protocols: Sequence[str], timeout: float
    ) -> WebSocket:
        """Open a web socket; an answer that is no upgrade raises `UpgradeRefused` with the response."""
        ...

    async def close(self) -> None:
        """Close every connection; streams that are open end with an error."""
        ...


class UnsupportedTransport:
    """Refuses everything: the base of small stand-ins that override what they serve."""

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
        raise TransportError(f"{type(self).__name__} does not do requests")

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
        raise TransportError(f"{type(self).__name__} does not do streams")

    async def websocket(
        self, path: str, *, query: Query = (), headers: RequestHeaders = (), protocols: Sequence[str], timeout: float
    ) -> WebSocket:
        raise TransportError(f"{type(self).__name__} does not do web sockets")

    async def close(self) -> None:
        return None


def target(path: str, query: Query) -> str:
    """Path and encoded query as they stand in the request line."""
    if not query:
        return path
    pairs = query.items() if isinstance(query, Mapping) else query
    return f"{path}?{'&'.join([f'{quote_plus(name)}={quote_plus(value)}' for name, value in pairs])}"
