"""The source of a reflector's bytes: a protocol, and its implementation with the client's raw requests.

This module knows paths, parameters and content types, and does not interpret the bytes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Protocol

from steersman.client.core import accept_for, accept_list_for
from steersman.client.raw import Raw
from steersman.client.retry import NO_RETRIES
from steersman.models import View

__all__ = ["ListWatch", "RawListWatch"]

LIST_TIMEOUT_SECONDS: Final = 60.0


class ListWatch(Protocol):
    """Lists and watches one kind in one scope. Raises the client's `ApiError` and `TransportError` trees."""

    async def list_page(self, *, limit: int, continue_: str, resource_version: str, match: str) -> bytes:
        """The body of one page of a list."""
        ...

    def watch(
        self, *, resource_version: str, send_initial_events: bool, timeout: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The bytes of a watch stream, in arbitrary chunks; the server ends the stream after `timeout` seconds."""
        ...


class RawListWatch:
    """Lists and watches through `client.raw`, without its retries, because the reflector has its own backoff.

    It requests the form that `view` needs. A server without the metadata form responds with whole objects.
    """

    def __init__(
        self,
        raw: Raw,
        view: View[Any],
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
    ) -> None:
        self._raw = raw
        self._path = view.info.path(namespace)
        self._accept = accept_for(view)
        self._accept_list = accept_list_for(view)
        selectors = (("labelSelector", labels), ("fieldSelector", fields))
        self._selectors = tuple((name, value) for name, value in selectors if value)

    async def list_page(self, *, limit: int, continue_: str, resource_version: str, match: str) -> bytes:
        """Return the body of one page of the list; `match` is the `resourceVersionMatch` of the first page."""
        query = [*self._selectors, ("limit", str(limit))]
        if continue_:
            query.append(("continue", continue_))
        elif resource_version:
            query.append(("resourceVersion", resource_version))
            if match:
                query.append(("resourceVersionMatch", match))
        response = await self._raw.request(
            "GET", self._path, query=query, accept=self._accept_list, timeout=LIST_TIMEOUT_SECONDS, retries=NO_RETRIES
        )
        return response.body

    @asynccontextmanager
    async def watch(
        self, *, resource_version: str, send_initial_events: bool, timeout: float
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Open a watch for `timeout` seconds, and return the chunks of its response body."""
        query = [
            *self._selectors,
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(round(timeout))),
        ]
        if resource_version:
            query.append(("resourceVersion", resource_version))
        if send_initial_events:
            query += [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
        # The watchdog of the stream is stricter; this timeout of the transport is a fallback.
        async with self._raw.stream(
            "GET", self._path, query=query, accept=self._accept, idle_timeout=timeout + 30.0
        ) as response:
            yield response.chunks
