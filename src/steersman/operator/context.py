"""What a reconcile is given: reads from the cache, writes that the cache is known to have seen, Events, a log.

Reads of declared kinds are synchronous and cost no request. Every write waits until the cache has it (for a bounded
time), so a read after a write in the same reconcile, or in a later one, is never older than the write (C2). Kinds
that nobody declared are read from the API server, explicitly, with `fetch` (C6). A context is never shared between
reconciles.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from steersman.client.errors import NotFound
from steersman.controller.blocking import run_in_loop
from steersman.controller.request import Request
from steersman.models import ALL_NAMESPACES, Key, KindLike, View, view_of
from steersman.telemetry.log import Logger

if TYPE_CHECKING:
    from steersman.cache import Cache
    from steersman.client import Client
    from steersman.operator.reach import Labels, Reach
    from steersman.operator.runtime import Runtime

__all__ = ["Context", "SyncContext"]

T = TypeVar("T")


class Context:
    """The world as one reconcile, finalizer, timer or hook sees and changes it.

    `namespace` arguments default to the namespace of the reconciled object; `ALL_NAMESPACES` means all.
    """

    __slots__ = ("_owner", "_reach", "_runtime", "log", "request")

    def __init__(self, runtime: Runtime, reach: Reach, request: Request | None, owner: Any, log: Logger) -> None:
        self._runtime = runtime
        self._reach = reach
        self._owner = owner
        self.request = request
        """Which object, why and for the how many-th time; `None` in timers and hooks."""
        self.log = log
        """Its lines carry kind, namespace, name and reconcile id."""

    @property
    def client(self) -> Client:
        """The API client, for everything that this class has no word for. Its writes are gated on the lease, too."""
        return self._runtime.client

    @property
    def cache(self) -> Cache:
        """The operator's cache, for who learns of kinds only while running and adds informers for them."""
        return self._runtime.cache

    def now(self) -> datetime:
        """The wall clock, in UTC; an argument in tests."""
        return self._runtime.now()

    # Reads from the cache.

    def get(self, kind: KindLike[T], name: str, *, namespace: str | None = None) -> T | None:
        """The object from the cache, or `None`.

        Raises `NotCachedError` for a kind that is not among the operator's owns, reads and watches, and
        `UndecodableError` for an object that does not fit its type.
        """
        view = view_of(kind)
        return self._reach.get(view, self._key(view, name, namespace))

    def list(
        self,
        kind: KindLike[T],
        *,
        labels: Labels | None = None,
        namespace: str | None = None,
        owned: bool = False,
        index: tuple[str, str] | None = None,
    ) -> tuple[T, ...]:
        """Objects from the cache, in no particular order; those of the reconciled object's namespace by default.

        `labels` is a mapping or a selector ("app=web,tier in (a,b)"); `owned` keeps what the reconciled object
        owns; `index` is the name of an index of the operator and a value. Objects that do not fit their type are
        left out, and logged once per version. Raises `NotCachedError` as `get` does.
        """
        view = view_of(kind)
        owner = self._owner.metadata.uid if owned and self._owner is not None else None
        return self._reach.list(view, self._namespace(view, namespace), labels, owner, index)

    # Reads from the API server.

    async def fetch(self, kind: KindLike[T], name: str, *, namespace: str | None = None) -> T | None:
        """The object as the API server has it now, or `None`; for kinds that are not declared, or to be sure."""
        view = view_of(kind)
        key = self._key(view, name, namespace)
        try:
            return await self.client.get(view, key.name, namespace=key.namespace)
        except NotFound as missing:
            if missing.kind_is_missing:
                raise
            return None

    async def fetch_list(
        self, kind: KindLike[T], *, labels: Labels | None = None, namespace: str | None = None
    ) -> tuple[T, ...]:
        """The objects as the API server has them now, page by page."""
        view = view_of(kind)
        place = self._namespace(view, namespace) or ALL_NAMESPACES
        found = self.client.iterate(view, namespace=place, labels=labels)
        return tuple([item async for item in found])

    # Writes.

    async def apply(self, obj: T, *, owned: bool = True, force: bool = True, wait: bool = True) -> T:
        """Make the cluster have `obj`, and return what it has: server-side apply of the full intent (A1).

        Sends nothing when the cluster already has it. `owned` sets the controlling owner reference to the reconciled
        object. `force` takes over fields from other managers. `wait=False` does not wait until the cache has seen
        the write.
        """
        runtime = self._runtime
        owner = self._owner if owned else None
        live = await runtime.applier.apply(cast(Any, self._placed(obj)), owner=owner, force=force)
        if wait:
            await runtime.seen(live)
        return cast(T, live)

    async def create(self, obj: T, *, owned: bool = True) -> T:
        """Create `obj` once; raises `AlreadyExists`. Prefer `apply`, which may be repeated."""
        runtime = self._runtime
        placed = self._placed(obj)
        if owned and self._owner is not None:
            placed = runtime.with_owner(placed, self._owner)
        live = await self.client.create(placed, field_manager=runtime.field_manager)
        await runtime.seen(live)
        return cast(T, live)

    async def patch(
        self, target: Any, patch: Any, *, name: str | None = None, namespace: str | None = None, subresource: str = ""
    ) -> Any:
        """Patch an object, given itself or as kind and `name`, with a `MergePatch`, `JsonPatch`, …"""
        view, key = self._target(target, name, namespace)
        live = await self.client.patch(
            view,
            key.name,
            patch,
            namespace=key.namespace,
            subresource=subresource or None,
            field_manager=self._runtime.field_manager,
        )
        await self._runtime.seen(live, view)
        return live

    async def delete(
        self,
        target: Any,
        name: str | None = None,
        *,
        namespace: str | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
    ) -> bool:
        """Delete an object, given itself or as kind and `name`; false when there is none any more.

        Given itself, it is deleted only if it still is that very object (its uid).
        """
        view, key = self._target(target, name, namespace)
        uid = "" if isinstance(target, type | View) else str(target.metadata.uid)
        return await self._runtime.delete(view, key, uid, propagation)

    def event(
        self,
        reason: str,
        message: str,
        *,
        type: Literal["Normal", "Warning"] = "Normal",
        action: str = "Reconcile",
        about: Any = None,
    ) -> None:
        """Record an Event about the reconciled object, or `about`; returns at once, and counts repeats up."""
        subject = about if about is not None else self._owner
        if subject is None:
            raise ValueError("event(): there is no reconciled object here; say about=…")
        self._runtime.event(subject, reason, message, type=type, action=action)

    def _key(self, view: View[Any], name: str, namespace: str | None) -> Key:
        return Key(view.info.object_namespace(namespace, self._default_namespace), name)

    def _namespace(self, view: View[Any], namespace: str | None) -> str:
        return view.info.list_namespace(namespace, self._default_namespace)

    @property
    def _default_namespace(self) -> str:
        return "" if self._owner is None else self._owner.metadata.namespace

    def _target(self, target: Any, name: str | None, namespace: str | None) -> tuple[View[Any], Key]:
        if isinstance(target, type | View):
            view = view_of(cast("KindLike[Any]", target))
            if not name:
                raise ValueError(f"{view.info.kind}: which one? Pass name=…")
            return view, self._key(view, name, namespace)
        view = view_of(cast("type[Any]", type(target)))
        return view, Key(target.metadata.namespace if view.info.namespaced else "", target.metadata.name)

    def _placed(self, obj: T) -> T:
        """The object in the reconciled object's namespace, unless it says another one."""
        return self._runtime.placed(obj, self._owner)


class SyncContext:
    """The context of a plain `def`, which runs in a thread: the same words, blocking instead of awaiting.

    Each call runs in the event loop and returns its result; never use it in the loop's own thread.
    """

    __slots__ = ("_context", "_loop")

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop

    @property
    def request(self) -> Request | None:
        return self._context.request

    @property
    def log(self) -> Logger:
        return self._context.log

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        return self._context.now()

    def get(self, kind: KindLike[T], name: str, *, namespace: str | None = None) -> T | None:
        """See `Context.get`."""

        async def get() -> T | None:
            return self._context.get(kind, name, namespace=namespace)

        return self._run(get())

    def list(
        self,
        kind: KindLike[T],
        *,
        labels: Labels | None = None,
        namespace: str | None = None,
        owned: bool = False,
    ) -> tuple[T, ...]:
        """See `Context.list`."""

        async def list_() -> tuple[T, ...]:
            return self._context.list(kind, labels=labels, namespace=namespace, owned=owned)

        return self._run(list_())

    def fetch(self, kind: KindLike[T], name: str, *, namespace: str | None = None) -> T | None:
        """See `Context.fetch`."""
        return self._run(self._context.fetch(kind, name, namespace=namespace))

    def apply(self, obj: T, *, owned: bool = True, force: bool = True) -> T:
        """See `Context.apply`."""
        return self._run(self._context.apply(obj, owned=owned, force=force))

    def create(self, obj: T, *, owned: bool = True) -> T:
        """See `Context.create`."""
        return self._run(self._context.create(obj, owned=owned))

    def patch(
        self, target: Any, patch: Any, *, name: str | None = None, namespace: str | None = None, subresource: str = ""
    ) -> Any:
        """See `Context.patch`."""
        return self._run(self._context.patch(target, patch, name=name, namespace=namespace, subresource=subresource))

    def delete(self, target: Any, name: str | None = None, *, namespace: str | None = None) -> bool:
        """See `Context.delete`."""
        return self._run(self._context.delete(target, name, namespace=namespace))

    def event(
        self, reason: str, message: str, *, type: Literal["Normal", "Warning"] = "Normal", about: Any = None
    ) -> None:
        """See `Context.event`."""

        async def event() -> None:
            self._context.event(reason, message, type=type, about=about)

        self._run(event())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return run_in_loop(self._loop, work)
