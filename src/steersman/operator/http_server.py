"""An HTTP server in separate threads, for probes and metrics.

It is independent of the event loop: a liveness probe must answer while the loop is blocked (R6), and a scrape should
not wait for reconciles. It serves GET and HEAD on fixed paths, reads no bodies, limits the number of connections and
the size and duration of requests. It binds only the configured address. A server without clients never wakes up, which
the server of the standard library does several times a second.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import httptools

from steersman.operator.settings import Address
from steersman.telemetry.log import get_logger

__all__ = ["Answer", "BindError", "Route", "ThreadServer", "Visit"]

log = get_logger("server")

_MAX_CONNECTIONS: Final = 32
_MAX_REQUEST_BYTES: Final = 64 * 1024
_REQUEST_SECONDS: Final = 10.0
_DRAIN_SECONDS: Final = 0.5
_BACKLOG: Final = 64
_PAUSE_SECONDS: Final = 0.1
"""The pause after a connection could not be accepted, because the process has too many open files."""


class BindError(Exception):
    """An address cannot be used; the message has the address, the reason and the setting to change."""


@dataclass(frozen=True, slots=True)
class Visit:
    """The request that a route receives."""

    path: str
    query: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """The response of a route."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


Route: TypeAlias = Callable[[Visit], Answer]


class ThreadServer:
    """Serves `routes` on `address` until closed, with one thread per connection and a limit on connections.

    Calls `tls` for each new connection, so that renewed certificates are used at once. Raises `BindError`.
    """

    def __init__(
        self,
        address: Address,
        routes: Mapping[str, Route],
        *,
        name: str,
        setting: str,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self.name = name
        self._routes = routes
        self._tls = tls
        self._slots = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        try:
            self._listener = socket.create_server((address.host, address.port), family=family, backlog=_BACKLOG)
        except (OSError, OverflowError) as problem:
            reason = (isinstance(problem, OSError) and problem.strerror) or str(problem)
            raise BindError(
                f"the {name} server cannot listen on {address}: {reason}."
                f" Choose another address with {setting}, or 0 for none"
            ) from None
        self._listener.setblocking(False)  # noqa: FBT003 - a positional parameter of sockets
        host, port = self._listener.getsockname()[:2]
        self._address = Address(str(host), int(port))
        self._closing, self._closed = socket.socketpair()
        self._thread = threading.Thread(target=self._accept, name=f"steersman-{name}", daemon=True)
        self._thread.start()

    @property
    def address(self) -> Address:
        """The address in use, with the real port if port 0 was configured."""
        return self._address

    def close(self) -> None:
        """Stop listening; open connections end after their response."""
        self._closing.close()
        self._thread.join(timeout=5)

    def _accept(self) -> None:
        """Accept connections until `close` closes the other end of `_closed`."""
        with self._listener, self._closed, selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._closed, selectors.EVENT_READ)
            while all(key.fileobj is not self._closed for key, _ in selector.select()):
                try:
                    connection, _ = self._listener.accept()
                except (BlockingIOError, ConnectionError):
                    continue  # The client has disconnected already.
                except OSError as problem:
                    log.warning("accept_failed", server=str(self._address), error=str(problem))
                    time.sleep(_PAUSE_SECONDS)
                    continue
                if not self._slots.acquire(blocking=False):
                    connection.close()
                    continue
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        deadline = time.monotonic() + _REQUEST_SECONDS
        try:
            connection.settimeout(_REQUEST_SECONDS)
            # The handshake happens in this thread, so that a silent client does not block other clients.
            if self._tls is not None:
                connection = self._tls().wrap_socket(connection, server_side=True)
            connection.sendall(self._respond(connection, deadline))
            connection.shutdown(socket.SHUT_WR)
            _drain(connection)
        except (OSError, ValueError):
            pass  # The client disconnected or is too slow, or its bytes are not TLS.
        except Exception:
            log.exception("request_failed", server=str(self._address))
        finally:
            connection.close()
            self._slots.release()

    def _respond(self, connection: socket.socket, deadline: float) -> bytes:
        """Read a request and return the bytes of the response. Raises OSError for a client that is too slow."""
        request = _Request()
        parser = httptools.HttpRequestParser(request)
        received = 0
        while not request.complete:
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            data = connection.recv(_MAX_REQUEST_BYTES)
            received += len(data)
            if not data:
                raise ConnectionError("the client disconnected within its request")
            try:
                parser.feed_data(data)
            except httptools.HttpParserUpgrade:
                break  # The headers are complete; no other protocol is offered.
            except httptools.HttpParserError:
                return _response(Answer(400, b"this is not HTTP/1.1\n"), with_body=True)
            if received > _MAX_REQUEST_BYTES and not request.complete:
                return _response(Answer(431, b"the headers are too large\n"), with_body=True)
        connection.settimeout(_REQUEST_SECONDS)
        method = parser.get_method()
        if method not in (b"GET", b"HEAD"):
            return _response(Answer(501, b"use GET\n"), with_body=True)
        return _response(self._answer(request), with_body=method == b"GET")

    def _answer(self, request: _Request) -> Answer:
        target, _, query = request.target.decode("latin-1").partition("?")
        route = self._routes.get(target)
        if route is None:
            return Answer(404, b"not found\n")
        try:
            return route(Visit(target, query, request.headers))
        except Exception:
            log.exception("route_failed", path=target)
            return Answer(500, b"internal error; the operator's log has the details\n")


class _Request:
    """Receives the parts of a request from the parser of httptools."""

    def __init__(self) -> None:
        self.target = b""
        self.headers: dict[str, str] = {}
        self.complete = False

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.complete = True


def _drain(connection: socket.socket) -> None:
    """Read what the client still sends: a close with unread bytes would reset the connection before the response."""
    connection.settimeout(_DRAIN_SECONDS)
    received = 0
    while received < _MAX_REQUEST_BYTES and (data := connection.recv(_MAX_REQUEST_BYTES)):
        received += len(data)


def _response(answer: Answer, *, with_body: bool) -> bytes:
    headers = {
        "Server": "steersman",
        "Content-Type": answer.content_type,
        "Content-Length": str(len(answer.body)),
        "X-Content-Type-Options": "nosniff",
        "Connection": "close",
        **answer.headers,
    }
    lines = [f"HTTP/1.1 {answer.status} ", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1") + (answer.body if with_body else b"")
