"""The API calls of the fixture itself: JSON over one persistent TLS connection, blocking.

The fixture must not depend on the client that it tests, so it uses the standard library and `pki` only. It has no
retries, paging and types; operators use `steersman.client`.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from steersman.pki.sockets import ClosingSocket
from steersman.testing.faults import USER_AGENT

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

Unreachable = (OSError, http.client.HTTPException)
"""Errors of a call while the API server is unreachable."""


class CallError(RuntimeError):
    """The API server answered with an error; `status` is the HTTP code."""

    def __init__(self, request: str, status: int, body: bytes) -> None:
        try:
            message = str(json.loads(body)["message"])
        except (ValueError, KeyError, TypeError):
            message = body[:500].decode(errors="replace")
        super().__init__(f"{request} failed with {status}: {message}")
        self.status = status


class ApiSession:
    """The connection of one user to the API server. Not thread-safe."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext, *, timeout: float = 10.0) -> None:
        self._connection = http.client.HTTPSConnection(host, port, context=tls, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        self._connection.close()

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, content_type: str = "application/json"
    ) -> dict[str, Any]:
        """Send one request and return the decoded response; raises `CallError`, or one of `Unreachable`."""
        request = f"{method} {path}"
        data = b"" if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type} if body is not None else {}
        answer = self._send(method, path, data, headers)
        content = answer.read()
        if answer.status >= 400:
            raise CallError(request, answer.status, content)
        decoded = json.loads(content) if content.startswith(b"{") else {"text": content.decode(errors="replace")}
        return dict(decoded)

    def ready(self, path: str) -> bool:
        """Return whether a GET of `path` succeeds; every failure counts as not ready."""
        try:
            self.call("GET", path)
        except (CallError, *Unreachable):
            return False
        return True

    def watch(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield watch events until the server ends the stream; then the connection is closed."""
        answer = self._send("GET", path, b"", {})
        try:
            if answer.status >= 400:
                raise CallError(f"GET {path}", answer.status, answer.read())
            for line in answer:
                if line.strip():
                    yield json.loads(line)
        finally:
            self.close()

    def _send(self, method: str, path: str, data: bytes, headers: dict[str, str]) -> http.client.HTTPResponse:
        kept_alive = self._connection.sock is not None
        try:
            return self._send_once(method, path, data, headers)
        except (ConnectionError, http.client.HTTPException):
            if not kept_alive:
                raise
        # An idle connection is broken after a restart of the API server: try once more on a new one.
        return self._send_once(method, path, data, headers)

    def _send_once(self, method: str, path: str, data: bytes, headers: dict[str, str]) -> http.client.HTTPResponse:
        try:
            sent = {"User-Agent": USER_AGENT, **headers}
            self._connection.request(method, path, body=data or None, headers=sent)
            return self._connection.getresponse()
        except BaseException:
            self.close()
            raise


def client_context(ca_pem: bytes, cert_file: str | None = None, key_file: str | None = None) -> ssl.SSLContext:
    """Return a verifying TLS context, with a client certificate if there is one."""
    context = ssl.create_default_context(cadata=ca_pem.decode())
    context.sslsocket_class = ClosingSocket
    if cert_file is not None:
        context.load_cert_chain(cert_file, key_file)
    return context
