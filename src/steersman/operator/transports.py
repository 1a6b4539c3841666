"""Transports around the client's own: the election gate, dry runs, spans.

They are below all retries and queues, so that every request passes them.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from steersman.client.hooks import READS
from steersman.client.transport import Query, RequestHeaders, Response, StreamResponse, Transport, WebSocket
from steersman.operator.leaderelection.elector import LeaseGate
from steersman.operator.tracing import Tracing

__all__ = ["DryRunTransport", "GatedTransport", "TracedTransport", "WrappedTransport"]


class WrappedTransport:
    """Base class: forwards every call after `_before`."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    def _before(self, method: str, path: str, query: Query, timeout: float) -> tuple[Query, float]:
        """Return the request to send and its timeout; raises an exception to refuse it."""
        return query, timeout

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
        """Send a request; see `Transport.request`."""
        # Returns the inner coroutine: a coroutine of this method would cost time in every request.
        query, timeout = self._before(method, path, query, timeout)
        return self._inner.request(method, path, query=query, headers=headers, body=body, timeout=timeout)

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
        """Open a stream; see `Transport.stream`."""
        query, connect_timeout = self._before(method, path, query, connect_timeout)
        return self._inner.stream(
            method,
            path,
            query=query,
            headers=headers,
            body=body,
            connect_timeout=connect_timeout,
            idle_timeout=idle_timeout,
        )

    async def websocket(
        self, path: str, *, query: Query = (), headers: RequestHeaders = (), protocols: Sequence[str], timeout: float
    ) -> WebSocket:
        """Open a WebSocket; see `Transport.websocket`."""
        # Exec and port-forward can change state with any HTTP method.
        query, timeout = self._before("POST", path, query, timeout)
        return await self._inner.websocket(path, query=query, headers=headers, protocols=protocols, timeout=timeout)

    async def close(self) -> None:
        """Close the wrapped transport."""
        await self._inner.close()


class GatedTransport(WrappedTransport):
    """Refuses writes at the time of sending without the lease, and limits their time to the lease's (L2)."""

    def __init__(self, inner: Transport, gate: LeaseGate) -> None:
        super().__init__(inner)
        self._gate = gate

    def _before(self, method: str, path: str, query: Query, timeout: float) -> tuple[Query, float]:
        if method in READS:
            return query, timeout
        self._gate.check(method, path)
        return query, min(timeout, self._gate.remaining())


class DryRunTransport(WrappedTransport):
    """Adds `dryRun=All` to all writes: the API server checks and admits them, and stores nothing."""

    def _before(self, method: str, path: str, query: Query, timeout: float) -> tuple[Query, float]:
        return query if method in READS else _with_dry_run(query), timeout

    async def websocket(
        self, path: str, *, query: Query = (), headers: RequestHeaders = (), protocols: Sequence[str], timeout: float
    ) -> WebSocket:
        """Open a WebSocket; see `Transport.websocket`."""
        raise RuntimeError(f"{path}: exec and port-forward have no dry run")


class TracedTransport(WrappedTransport):
    """Creates a span for each request except watches, which last for minutes."""

    def __init__(self, inner: Transport, tracing: Tracing) -> None:
        super().__init__(inner)
        self._tracing = tracing

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
        """Send a request; see `Transport.request`."""
        with self._tracing.request(method, path) as span:
            response = await self._inner.request(method, path, query=query, headers=headers, body=body, timeout=timeout)
            span.set_attribute("http.response.status_code", response.status)
            return response


def _with_dry_run(query: Query) -> Query:
    pairs = query.items() if isinstance(query, Mapping) else query
    return [*((name, value) for name, value in pairs if name != "dryRun"), ("dryRun", "All")]
