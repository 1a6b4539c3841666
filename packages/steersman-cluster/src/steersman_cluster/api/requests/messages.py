"""Requests and responses, independent of HTTP libraries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Final, Protocol

import msgspec

from steersman_cluster.errors import APIError
from steersman_cluster.objects import Object
from steersman_cluster.strategy import User

__all__ = ["JSON", "Params", "Request", "RequestHeaders", "Response", "Socket", "encode", "failure"]

JSON: Final = "application/json"
encode: Final = msgspec.json.Encoder().encode


class RequestHeaders(Protocol):
    """Headers of a request; names are case-insensitive."""

    def get(self, name: str, /) -> str | None:
        """Return the value of a header, or `None`."""
        ...

    def items(self) -> Iterable[tuple[str, str]]:
        """Return all names and values."""
        ...


class Params:
    """The query of a request, decoded; a name may repeat."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._pairs = tuple(pairs)

    def get(self, name: str, default: str = "") -> str:
        """The first value of a parameter."""
        for known, value in self._pairs:
            if known == name:
                return value
        return default

    def all(self, name: str) -> list[str]:
        """All values of a parameter."""
        return [value for known, value in self._pairs if known == name]

    def __contains__(self, name: str) -> bool:
        return any(known == name for known, _ in self._pairs)

    def __bool__(self) -> bool:
        return bool(self._pairs)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """As they came."""
        return self._pairs


class Request:
    """One request, with its whole body. `peer` is the verified client certificate (DER), or a user, or nothing."""

    __slots__ = ("as_of", "body", "headers", "method", "params", "path", "peer", "query", "source")

    def __init__(
        self,
        method: str,
        path: str,
        params: Params,
        headers: RequestHeaders,
        body: bytes = b"",
        peer: bytes | User | None = None,
        *,
        query: str = "",
        source: str = "127.0.0.1",
        as_of: int | None = None,
    ) -> None:
        self.method = method
        self.path = path
        """Percent-decoded, without the query."""
        self.params = params
        self.headers = headers
        self.body = body
        self.peer = peer
        self.query = query
        """As it came, for the audit log."""
        self.source = source
        self.as_of = as_of
        """The revision that lists and new watches are served from, as by a watch cache that is behind."""


class Socket(Protocol):
    """An open socket of messages, or of bytes that may be cut anywhere. Raises `OSError` once the peer is gone."""

    protocol: str

    async def send(self, data: bytes) -> None:
        """Send bytes. Raises `OSError` after the peer has disconnected."""
        ...

    async def receive(self) -> bytes | None:
        """Return the next bytes, or `None` at the end."""
        ...

    async def close(self) -> None:
        """Close the connection; later reads and writes fail."""
        ...


class Response:
    """One answer: a whole body, or a stream of chunks, or a socket that `serve` runs.

    The socket is a web socket of one of `protocols`, or SPDY/3.1 where `tunnel` names what runs over that. Where
    there are headers, they say what the connection is upgraded to.
    """

    __slots__ = ("body", "content_type", "headers", "protocols", "serve", "status", "stream", "tunnel")

    def __init__(
        self,
        status: int = 200,
        body: bytes = b"",
        content_type: str = JSON,
        headers: tuple[tuple[str, str], ...] = (),
        *,
        stream: AsyncIterator[bytes] | None = None,
        serve: Callable[[Socket], Awaitable[Any]] | None = None,
        protocols: tuple[str, ...] = (),
        tunnel: str = "",
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers
        self.stream = stream
        self.serve = serve
        self.protocols = protocols
        self.tunnel = tunnel


def failure(error: APIError, warnings: tuple[tuple[str, str], ...] = ()) -> Response:
    """The answer to a request that is refused."""
    return Response(error.code, encode(error.status) + b"\n", JSON, (*error.headers, *warnings))


def json_response(obj: Object, status: int = 200) -> Response:
    """Return a response with the JSON of an object."""
    return Response(status, encode(obj) + b"\n")
