"""HTTPS on loopback with aiohttp's low-level server: one request at a time on a connection.

Bodies are limited, slow clients are disconnected, and invalid HTTP ends its connection. The module translates requests
and responses and contains no other logic.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import socket
import ssl
from contextlib import suppress
from typing import Any, Final, Protocol, cast

from aiohttp import ClientConnectionError, WSMsgType, web
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict

from steersman.client.transport.base import close_chunks
from steersman.listener import ConnectionLimits, Listener
from steersman_cluster.api.requests.messages import Params, Request, Response, failure
from steersman_cluster.errors import APIError, bad_request, too_large

__all__ = ["HTTPSServer", "RequestHandler"]

MAX_BODY_BYTES: Final = 3 * 1024 * 1024
MAX_HEAD_BYTES: Final = 1024 * 1024
"""Bytes that one line of a request's head may have: Go's limit. Long selectors are longer than aiohttp's."""
BODY_SECONDS: Final = 30.0
"""Seconds that a request's body may take."""
_LARGEST_FIELD: Final = 128 * 1024
"""Bytes that one header may have; aiohttp takes up to 128 of them."""
_IDLE_SECONDS: Final = 90.0
"""Seconds that a connection may be idle after a request, or take for the next head; as in kube-apiserver."""
MAX_BUFFERED_BYTES: Final = 1024 * 1024
"""Bytes of an upgraded connection that may be buffered before reading pauses."""
_NO_LOG: Final = logging.Logger("steersman_cluster.http", logging.CRITICAL)
"""Errors of clients are sent to the client and not logged; errors of the server do not reach this logger."""


class RequestHandler(Protocol):
    """Answers requests: an API server, or a kubelet."""

    async def handle(self, request: Request) -> Response:
        """Return the response to a request; never raises, but for cancellation."""
        ...


class HTTPSServer:
    """Listens for one API server or kubelet; `start` or `listen_on`, then `close`."""

    def __init__(self, server: RequestHandler, context: ssl.SSLContext, limits: ConnectionLimits | None = None) -> None:
        self._server = server
        self.listener = Listener(context, limits)
        # A watch ends when its client disconnects, not only at the next event.
        self._web = web.Server(self._handle, handler_cancellation=True)
        self._streams: set[asyncio.Task[Any]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port (a free one for 0). Raises `OSError`."""
        return await self.listener.start(self._connection, host, port)

    def listen_on(self, listening: socket.socket) -> None:
        """Listen on a socket that listens already, beside those of `start`."""
        self.listener.add(self._connection, listening)

    async def close(self) -> None:
        """Stop listening and end every connection: streams at once, others when they have their answer."""
        await self.listener.close()
        for task in tuple(self._streams):
            task.cancel()
        await self._web.shutdown(1.0)

    def _connection(self) -> web.RequestHandler:
        return _Connection(self.listener, self._web)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.listener.requested(request.protocol)
        try:
            _check_upgrade(request)
            asked = await self._translate(request)
        except APIError as problem:
            answer = _plain(failure(problem))
            answer.force_close()  # the rest of the body is not read
            return answer
        response = await self._server.handle(asked)
        if response.serve is None and response.stream is None:
            return _plain(response)
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            if response.serve is None:
                return await self._stream(request, response)
            return await (self._tunnel if response.tunnel else self._upgrade)(request, response)
        finally:
            self._streams.discard(task)

    async def _translate(self, request: web.BaseRequest) -> Request:
        body = b""
        if request.can_read_body:
            size = request.content_length or 0
            if size > MAX_BODY_BYTES:
                raise too_large(f"Request entity too large: limit is {MAX_BODY_BYTES}")
            body = await self._body(request)
        url = request.rel_url
        transport = request.transport
        peer: Any = None
        if transport is not None:
            tls = transport.get_extra_info("ssl_object")
            peer = tls.getpeercert(binary_form=True) if tls is not None else None
        return Request(
            request.method,
            url.path,
            Params(url.query.items()) if url.raw_query_string else _NO_PARAMS,
            cast(Any, request.headers),
            body,
            peer,
            query=url.raw_query_string,
            source=request.remote or "",
        )

    async def _body(self, request: web.BaseRequest) -> bytes:
        content = request.content
        if content.is_eof():
            return content.read_nowait() if content.total_bytes else b""
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for chunk in content.iter_any():
                    size += len(chunk)
                    if size > MAX_BODY_BYTES:
                        raise too_large(f"Request entity too large: limit is {MAX_BODY_BYTES}")
                    parts.append(chunk)
        except TimeoutError:
            raise APIError(408, "Timeout", "the body of the request did not arrive in time") from None
        except (HttpProcessingError, ClientConnectionError, web.RequestPayloadError, OSError) as problem:
            raise bad_request(f"the body of the request cannot be read: {type(problem).__name__}") from None
        return b"".join(parts)

    async def _stream(self, request: web.BaseRequest, response: Response) -> web.StreamResponse:
        assert response.stream is not None
        answer = web.StreamResponse(status=response.status, headers=_headers(response))
        answer.enable_chunked_encoding()
        chunks = response.stream
        try:
            await answer.prepare(request)
            async for chunk in chunks:
                await answer.write(chunk)
            await answer.write_eof()
        except (ConnectionError, ClientConnectionError):
            pass
        finally:
            await close_chunks(chunks)
        return answer

    async def _upgrade(self, request: web.BaseRequest, response: Response) -> web.StreamResponse:
        assert response.serve is not None
        socket = web.WebSocketResponse(protocols=response.protocols, autoping=True, max_msg_size=0, timeout=0.5)
        await socket.prepare(request)
        with suppress(ConnectionError, ClientConnectionError):
            await response.serve(_Socket(socket))
        if not socket.closed:
            await socket.close()
        return socket

    async def _tunnel(self, request: web.BaseRequest, response: Response) -> web.StreamResponse:
        """Bytes both ways from here on: what SPDY needs of an upgraded connection, and what a proxy passes on."""
        assert response.serve is not None
        assert request.transport is not None
        incoming = _Incoming(request.transport)
        request.protocol.set_parser(cast(Any, incoming))
        request.protocol.keep_alive(False)  # noqa: FBT003 - a positional parameter
        headers = CIMultiDict(response.headers)
        if not response.headers:
            headers.update(
                {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": response.tunnel}
            )
        answer = web.StreamResponse(status=101, headers=headers)
        answer.force_close()
        with suppress(ConnectionError, ClientConnectionError):
            await answer.prepare(request)
            await response.serve(_Pipe(answer, incoming, response.tunnel))
        return answer


class _Connection(web.RequestHandler):
    """aiohttp's protocol of one connection; the listener counts it until its end."""

    def __init__(self, listener: Listener, server: web.Server) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=cast(Any, None),
            logger=_NO_LOG,
            lingering_time=0,
            auto_decompress=False,
            max_line_size=MAX_HEAD_BYTES,
            max_field_size=_LARGEST_FIELD,
            keepalive_timeout=_IDLE_SECONDS,
        )
        self._listener = listener

    def connection_lost(self, exc: BaseException | None) -> None:
        self._listener.lost(self)
        super().connection_lost(exc)


_NO_PARAMS: Final = Params()


def _check_upgrade(request: web.BaseRequest) -> None:
    """Refuse a handshake that cannot succeed before anything is started for it (RFC 6455, 4.2.1)."""
    headers = request.headers
    if headers.get("Upgrade", "").lower() != "websocket":
        return
    try:
        whole = len(base64.b64decode(headers.get("Sec-WebSocket-Key", ""), validate=True)) == 16
    except ValueError:
        whole = False
    if not whole or headers.get("Sec-WebSocket-Version") != "13" or request.method != "GET":
        raise bad_request("unable to upgrade: the web socket's handshake is incomplete")


class _Incoming:
    """The bytes of an upgraded connection, as aiohttp's protocol hands them to a parser."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._size = 0

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._chunks.put_nowait(bytes(data))
        self._size += len(data)
        if self._size > MAX_BUFFERED_BYTES:
            self._transport.pause_reading()
        return False, b""

    def feed_eof(self) -> None:
        self._chunks.put_nowait(b"")

    async def get(self) -> bytes | None:
        data = await self._chunks.get()
        if self._size > MAX_BUFFERED_BYTES >= self._size - len(data) and not self._transport.is_closing():
            self._transport.resume_reading()
        self._size -= len(data)
        return data or None


class _Pipe:
    """An upgraded connection as the core knows it."""

    def __init__(self, answer: web.StreamResponse, incoming: _Incoming, protocol: str) -> None:
        self._answer = answer
        self._incoming = incoming
        self.protocol = protocol

    async def send(self, data: bytes) -> None:
        try:
            await self._answer.write(data)
        except (ClientConnectionError, RuntimeError) as problem:
            raise ConnectionError(str(problem)) from None

    async def receive(self) -> bytes | None:
        return await self._incoming.get()

    async def close(self) -> None:
        self._incoming.feed_eof()


class _Socket:
    """aiohttp's web socket as the core knows it."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self.protocol = socket.ws_protocol or ""

    async def send(self, data: bytes) -> None:
        try:
            await self._socket.send_bytes(data)
        except (ClientConnectionError, RuntimeError) as problem:
            raise ConnectionError(str(problem)) from None

    async def receive(self) -> bytes | None:
        while True:
            message = await self._socket.receive()
            if message.type is WSMsgType.BINARY:
                return cast(bytes, message.data)
            if message.type is WSMsgType.TEXT:
                return str(message.data).encode()
            if message.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR):
                return None

    async def close(self) -> None:
        await self._socket.close()


def _plain(response: Response) -> web.Response:
    return web.Response(status=response.status, body=response.body, headers=_headers(response))


def _headers(response: Response) -> CIMultiDict[str]:
    headers = CIMultiDict(response.headers)
    if response.content_type:
        headers["Content-Type"] = response.content_type
    headers["Cache-Control"] = headers.get("Cache-Control", "no-cache, private")
    return headers
