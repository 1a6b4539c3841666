"""Where a reflector's bytes come from: a small protocol, and its implementation over the client's raw requests.

It knows paths, parameters and forms, and nothing of what the bytes mean.
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

LIST_TIMEOUT: Final = 60.0


class ListWatch(Protocol):
    """Lists and watches one kind in one scope. Raises the client's `ApiError` and `TransportError` trees."""

    async def list_page(self, *, limit: int, continue_: str, resource_version: str, match: str) -> bytes:
        """The body of one page of a list."""
        ...

    def watch(
        self, *, resource_version: str, send_initial_events: bool, timeout: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """A watch stream's bytes, in chunks that end anywhere; the server ends it after `timeout` seconds."""
        ...


class RawListWatch:
    """Lists and watches through `client.raw`, without its retries: the reflector has a back-off of its own.

    Asks for the form that `view` needs. A server that has no metadata form answers with whole objects.
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
        query = [*self._selectors, ("limit", str(limit))]
        if continue_:
            query.append(("continue", continue_))
        elif resource_version:
            query.append(("resourceVersion", resource_version))
            if match:
                query.append(("resourceVersionMatch", match))
        response = await self._raw.request(
            "GET", self._path, query=query, accept=self._accept_list, timeout=LIST_TIMEOUT, retries=NO_RETRIES
        )
        return response.body

    @asynccontextmanager
    async def watch(
        self, *, resource_version: str, send_initial_events: bool, timeout: float
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
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
        # The shell's own watchdog is stricter; the transport's stands behind it.
        async with self._raw.stream(
            "GET", self._path, query=query, accept=self._accept, idle_timeout=timeout + 30.0
        ) as response:
            yield response.chunks
