"""Verbs that read from the API server: get, list, iterate, watch. `steersman.cache` reads from a cache."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeVar

from steersman.client.core import Verbs, accept_for, accept_list_for
from steersman.client.lists import Page, read_object, read_page
from steersman.client.options import Labels, list_query
from steersman.client.watch import WatchEvent, watch_events
from steersman.models import KindLike, view_of
from steersman.telemetry.log import get_logger

__all__ = ["Reads"]

T = TypeVar("T")

_log = get_logger("client")
_SLACK_SECONDS = 30.0


class Reads(Verbs):
    """The verbs that read."""

    async def get(
        self,
        kind: KindLike[T],
        name: str,
        *,
        namespace: str | None = None,
        resource_version: str | None = None,
        timeout: float = 30.0,
    ) -> T:
        """Read one object; the default namespace is that of the configuration.

        The response is current, unless `resource_version="0"` allows an object from the server's cache. Raises
        `NotFound`, and `ResponseError` if the object does not fit its type.
        """
        view = view_of(kind)
        path = view.info.path(self.namespace_for(view.info, namespace), _required(name))
        query = {} if resource_version is None else {"resourceVersion": resource_version}
        response = await self.raw.request("GET", path, query=query, accept=accept_for(view), timeout=timeout)
        return read_object(view, response.body, f"GET {path}")

    async def list(
        self,
        kind: KindLike[T],
        *,
        namespace: str | None = None,
        labels: Labels = None,
        fields: Labels = None,
        limit: int | None = None,
        continue_: str = "",
        resource_version: str | None = None,
        resource_version_match: str | None = None,
        timeout: float = 60.0,
    ) -> Page[T]:
        """Read one page of a list, with at most `limit` objects; the default namespace is that of the configuration.

        Objects that do not fit the type are in `page.undecodable`. Raises `Expired` if `continue_` is too old (the
        server keeps it for about five minutes). Use `iterate` for many objects.
        """
        view = view_of(kind)
        path = view.info.path(self.list_namespace(view.info, namespace))
        query = list_query(
            labels=labels,
            fields=fields,
            limit=limit,
            continue_=continue_,
            resource_version=resource_version,
            resource_version_match=resource_version_match,
        )
        response = await self.raw.request("GET", path, query=query, accept=accept_list_for(view), timeout=timeout)
        return read_page(view, response.body, f"GET {path}")

    async def iterate(
        self,
        kind: KindLike[T],
        *,
        namespace: str | None = None,
        labels: Labels = None,
        fields: Labels = None,
        limit: int = 500,
        resource_version: str | None = None,
    ) -> AsyncGenerator[T, None]:
        """Read all objects of a list in pages of `limit` objects, with one page in memory; see `list`.

        All pages are from one state of the list. Objects that do not fit the type are logged and left out; use `list`
        to get them. Raises `Expired` if reading takes longer than the server keeps that state (about five minutes).
        """
        continue_ = ""
        while True:
            page = await self.list(
                kind,
                namespace=namespace,
                labels=labels,
                fields=fields,
                limit=limit,
                continue_=continue_,
                resource_version=resource_version,
            )
            for bad in page.undecodable:
                _log.warning("object_skipped", kind=view_of(kind).info.kind, object=str(bad.key), error=str(bad.error))
            for item in page.items:
                yield item
            continue_ = page.continue_
            if not continue_:
                return
            del page

    async def watch(
        self,
        kind: KindLike[T],
        *,
        namespace: str | None = None,
        labels: Labels = None,
        fields: Labels = None,
        resource_version: str | None = None,
        bookmarks: bool = False,
        initial_events: bool = False,
        timeout: int = 300,
        idle_timeout: float | None = None,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Watch from the `resource_version` of a list until the server ends the watch after about `timeout` seconds.

        Without a version the watch starts with an ADDED event for every object. `initial_events` requests these events
        with a bookmark at their end (KEP-3157, `sendInitialEvents`). Raises `Expired` if the version is too old (at the
        start or during the watch), and `TransportError` if the connection breaks: it does not reconnect.

        Use `contextlib.aclosing` to close the connection at once when the loop is left early.
        """
        view = view_of(kind)
        path = view.info.path(self.list_namespace(view.info, namespace))
        query: dict[str, str] = {
            **list_query(labels=labels, fields=fields, resource_version=resource_version),
            "watch": "true",
            "timeoutSeconds": str(timeout),
        }
        if bookmarks or initial_events:
            query["allowWatchBookmarks"] = "true"
        if initial_events:
            query["sendInitialEvents"] = "true"
            query["resourceVersionMatch"] = "NotOlderThan"
        silence = idle_timeout if idle_timeout is not None else timeout + _SLACK_SECONDS
        async with (
            self.raw.stream("GET", path, query=query, accept=accept_for(view), idle_timeout=silence) as response,
            aclosing(watch_events(view, response, f"WATCH {path}")) as events,
        ):
            async for event in events:
                if event.type != "BOOKMARK" or bookmarks or event.initial_events_end:
                    yield event

    async def exists(self, kind: KindLike[Any], name: str, *, namespace: str | None = None) -> bool:
        """Return whether the object exists. Raises `NotFound` if the server does not serve the kind."""
        from steersman.client.errors import NotFound
        from steersman.models import metadata_of

        try:
            await self.get(metadata_of(view_of(kind)), name, namespace=namespace)
        except NotFound as missing:
            if missing.kind_is_missing:
                raise
            return False
        return True


def _required(name: str) -> str:
    if not name:
        raise ValueError("the name is empty: pass the name of the object, or use list() for all objects")
    return name
