"""Forwards a client's request on a new connection, over TLS if requested, with an upgrade if both sides agree.

Request bodies are complete; response bodies are forwarded as they arrive. The client's credentials are not forwarded.
Certificates are not verified, as in the API server's proxy.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import httptools

from steersman_cluster.api.requests.messages import Request, Response, Socket
from steersman_cluster.kubelet import Connection

__all__ = ["Upstream", "repeat"]

_HOP: Final = frozenset(
    (
        "authorization", "connection", "content-length", "host", "keep-alive", "proxy-authenticate",
        "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade",
    )
)  # fmt: skip
_PROTOCOLS: Final = "sec-websocket-protocol"
_BEARER: Final = "base64url.bearer.authorization.k8s.io."
"""A web socket protocol that is a token."""
_IDENTITY: Final = ("x-remote-", "impersonate-")
_RESPONSE_START_SECONDS: Final = 30.0
"""Seconds for the other side to begin its answer."""
_CHUNK: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Upstream:
    """The address and the credentials of an upstream server that trusts this server."""

    name: str
    """The name in its certificate."""
    context: ssl.SSLContext
    headers: tuple[tuple[str, str], ...]
    """The identity of the user, in place of such headers of the request."""


async def repeat(
    request: Request,
    path: str,
    host: str,
    connect: Callable[[], Awaitable[Connection]],
    *,
    secure: bool = False,
    upstream: Upstream | None = None,
) -> Response:
    """Return the response, or the connection after an upgrade.

    Args:
        request: The request of the client.
        path: The decoded path without the query.
        host: The value of the header Host.
        connect: Opens the connection to the upstream server.
        secure: Whether the upstream server uses TLS; its certificate is not verified.
        upstream: How a server is called that trusts this one; then its certificate is verified.

    Raises:
        OSError: The connection failed.
        APIError: The response is invalid.
    """
    try:
        async with asyncio.timeout(_RESPONSE_START_SECONDS):
            connection = await connect()
            try:
                if upstream is not None:
                    await connection[1].start_tls(upstream.context, server_hostname=upstream.name)
                elif secure:
                    await connection[1].start_tls(_unverified())
                return await _exchange(request, path, host, connection, upstream.headers if upstream else ())
            except BaseException:
                connection[1].close()
                raise
    except httptools.HttpParserError as problem:
        raise ConnectionError(str(problem)) from None


def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class _ResponseReader:
    """The response as httptools parses it."""

    def __init__(self) -> None:
        self.headers: list[tuple[str, str]] = []
        self.begun = False
        self.done = False
        self._body = bytearray()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        self.begun = True

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.done = True

    def taken(self) -> bytes:
        """Return the part of the body that arrived since the last call."""
        body = bytes(self._body)
        self._body.clear()
        return body


def _upgrade(request: Request) -> str:
    """Return the protocol of the requested upgrade; "" for none."""
    wanted = "upgrade" in (request.headers.get("Connection") or "").lower()
    return (request.headers.get("Upgrade") or "") if wanted else ""


def _head(request: Request, path: str, host: str, upgrade: str, identity: Sequence[tuple[str, str]]) -> bytes:
    target = quote(path, safe="/!$&'()*+,;=:@~-._") + (f"?{request.query}" if request.query else "")
    lines = [f"{request.method} {target} HTTP/1.1", f"Host: {host}"]
    lines += ["Connection: Upgrade", f"Upgrade: {upgrade}"] if upgrade else ["Connection: close"]
    for name, value in request.headers.items():
        if name.lower() == _PROTOCOLS:
            kept = [protocol for protocol in map(str.strip, value.split(",")) if not protocol.startswith(_BEARER)]
            lines += [f"{name}: {', '.join(kept)}"] if kept else []
        elif name.lower() not in _HOP and not (identity and name.lower().startswith(_IDENTITY)):
            lines.append(f"{name}: {value}")
    lines += [f"{name}: {value}" for name, value in identity]
    if request.body:
        lines.append(f"Content-Length: {len(request.body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")


async def _exchange(
    request: Request, path: str, host: str, connection: Connection, identity: Sequence[tuple[str, str]]
) -> Response:
    reader, writer = connection
    upgrade = _upgrade(request)
    writer.write(_head(request, path, host, upgrade, identity) + request.body)
    answer = _ResponseReader()
    parser = httptools.HttpResponseParser(answer)
    while not answer.begun:
        data = await reader.read(_CHUNK)
        if not data:
            raise ConnectionError("EOF")
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade as switched:
            return _switched(answer, connection, data[switched.args[0] :])
    kind = next((value for name, value in answer.headers if name.lower() == "content-type"), "")
    kept = tuple((name, value) for name, value in answer.headers if name.lower() not in (*_HOP, "content-type"))
    status = parser.get_status_code()
    if answer.done or request.method == "HEAD" or status in (204, 304):
        writer.close()
        return Response(status, answer.taken(), kind, kept)
    return Response(status, b"", kind, kept, stream=_rest(parser, answer, connection))


async def _rest(
    parser: httptools.HttpResponseParser, answer: _ResponseReader, connection: Connection
) -> AsyncIterator[bytes]:
    """The body as it comes; it ends early where the other side ends it early."""
    reader, writer = connection
    try:
        while True:
            if body := answer.taken():
                yield body
            if answer.done:
                return
            try:
                data = await reader.read(_CHUNK)
                if not data:
                    return
                parser.feed_data(data)
            except (OSError, httptools.HttpParserError):
                return
    finally:
        writer.close()


def _switched(answer: _ResponseReader, connection: Connection, early: bytes) -> Response:
    """The connection is another protocol's from here on: bytes both ways, until either side goes."""

    async def serve(socket: Socket) -> None:
        reader, writer = connection

        async def outwards() -> None:
            data = early or await reader.read(_CHUNK)
            while data:
                await socket.send(data)
                data = await reader.read(_CHUNK)

        async def inwards() -> None:
            while (data := await socket.receive()) is not None:
                writer.write(data)
                await writer.drain()

        copies = [asyncio.ensure_future(outwards()), asyncio.ensure_future(inwards())]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in copies:
                task.cancel()
            await asyncio.gather(*copies, return_exceptions=True)
            writer.close()
            with suppress(OSError):
                await socket.close()

    return Response(101, b"", "", tuple(answer.headers), serve=serve, tunnel="upgrade")
