"""A transport that turns every write into a dry run: the API server checks and admits it, and keeps nothing.

It stands below everything that writes, so that nothing can forget to ask for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from steersman.client.transport import Query, RequestHeaders, Response, StreamResponse, Transport, WebSocket

__all__ = ["DryRunTransport"]

_READS = ("GET", "HEAD", "OPTIONS")


class DryRunTransport:
    """Adds `dryRun=All` to whatever is not a read; refuses web sockets, which have no dry run."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

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
        return await self._inner.request(
            method, path, query=_dry(method, query), headers=headers, body=body, timeout=timeout
        )

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
        return self._inner.stream(
            method,
            path,
            query=_dry(method, query),
            headers=headers,
            body=body,
            connect_timeout=connect_timeout,
            idle_timeout=idle_timeout,
        )

    async def websocket(
        self, path: str, *, query: Query = (), headers: RequestHeaders = (), protocols: Sequence[str], timeout: float
    ) -> WebSocket:
        raise RuntimeError(f"{path}: exec and port-forward have no dry run")

    async def close(self) -> None:
        await self._inner.close()


def _dry(method: str, query: Query) -> Query:
    if method in _READS:
        return query
    pairs = list(query.items()) if isinstance(query, Mapping) else list(query)
    return [*((name, value) for name, value in pairs if name != "dryRun"), ("dryRun", "All")]
