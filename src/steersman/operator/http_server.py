"""An HTTP server in separate threads, for probes and metrics.

It is based on the standard library and independent of the event loop: a liveness probe must answer while the loop is
blocked (R6), and a scrape should not wait for reconciles. It serves GET and HEAD on fixed paths, reads no bodies,
limits the number of connections and closes slow ones. It binds only the configured address.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, TypeAlias

from steersman.operator.settings import Address
from steersman.telemetry.log import get_logger

__all__ = ["Answer", "BindError", "Route", "ThreadServer", "Visit"]

log = get_logger("server")

_MOST_CONNECTIONS = 32
_SLOWEST_CLIENT = 10.0


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
        self._slots = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        try:
            self._server = _Server(address, routes, self._slots, tls)
        except (OSError, OverflowError) as problem:
            reason = getattr(problem, "strerror", None) or str(problem)
            raise BindError(
                f"the {name} server cannot listen on {address}: {reason}."
                f" Choose another address with {setting}, or 0 for none"
            ) from None
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.2}, name=f"steersman-{name}", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> Address:
        """The address in use, with the real port if port 0 was configured."""
        host, port = self._server.socket.getsockname()[:2]
        return Address(str(host), int(port))

    def close(self) -> None:
        """Stop listening; open connections end after their response."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)


class _Server(HTTPServer):
    request_queue_size = 64
    allow_reuse_address = True

    def __init__(
        self,
        address: Address,
        routes: Mapping[str, Route],
        slots: threading.BoundedSemaphore,
        tls: Callable[[], ssl.SSLContext] | None,
    ) -> None:
        if ":" in address.host:
            self.address_family = socket.AF_INET6
        self.routes = routes
        self.slots = slots
        self.tls = tls
        super().__init__((address.host, address.port), _Handler)

    def server_bind(self) -> None:
        # HTTPServer's own method resolves the host name with DNS, which may take seconds.
        socket_server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self.slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        thread = threading.Thread(target=self._serve, args=(request, client_address), daemon=True)
        thread.start()

    def _serve(self, request: socket.socket, client_address: Any) -> None:
        try:
            request.settimeout(_SLOWEST_CLIENT)
            connection = request
            # The handshake happens in this thread, so that a silent client does not block other clients.
            if self.tls is not None:
                connection = self.tls().wrap_socket(request, server_side=True)
            try:
                self.finish_request(connection, client_address)
            finally:
                self.shutdown_request(connection)
        except (OSError, ValueError):
            request.close()  # The client disconnected, or its bytes are not TLS.
        except Exception:
            log.exception("request_failed", server=self.server_address)
            request.close()
        finally:
            self.slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: `_serve` handles errors."""


def socket_server_bind(server: HTTPServer) -> None:
    import socketserver

    socketserver.TCPServer.server_bind(server)
    server.server_name, server.server_port = server.server_address[:2]  # type: ignore[assignment]


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # type: ignore[assignment]
    server_version = "steersman"
    sys_version = ""
    protocol_version = "HTTP/1.0"
    timeout = _SLOWEST_CLIENT

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        path, _, query = self.path.partition("?")
        route = self.server.routes.get(path)
        if route is None:
            answer = Answer(404, b"not found\n")
        else:
            try:
                answer = route(Visit(path, query, {k.lower(): v for k, v in self.headers.items()}))
            except Exception:
                log.exception("route_failed", path=path)
                answer = Answer(500, b"internal error; the operator's log has the details\n")
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: probes arrive every few seconds."""
