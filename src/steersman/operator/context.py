"""`Context`: what a reconcile reads and writes with. `SyncContext` is the same for functions that run in a thread.

Reads of declared kinds are synchronous and send no request. A write returns when the cache has it, or after a few
seconds, so that a later read is not older than the write (rule C2). Kinds that are not declared are read from the API
server with `fetch` (rule C6). Each reconcile has a context of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar

from steersman.client.errors import NotFound
from steersman.client.options import Preconditions
from steersman.controller.blocking import run_in_loop
from steersman.controller.queue import DEFAULT_PRIORITY
from steersman.controller.request import Request
from steersman.models import ALL_NAMESPACES, Key, KindLike, View, view_of
from steersman.models.resource import is_kind, view_of_object
from steersman.operator.cache_reader import CacheReader, Labels
from steersman.operator.runtime import Runtime
from steersman.telemetry.log import Logger

if TYPE_CHECKING:
    from steersman.cache import Cache
    from steersman.client import Client

__all__ = ["Context", "SyncContext"]

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")

EventType: TypeAlias = Literal["Normal", "Warning"]
Propagation: TypeAlias = Literal["Background", "Foreground", "Orphan"]


class Context:
    """Reads, writes, Events and the log of one reconcile, finalizer, timer or hook.

    `namespace=` defaults to the namespace of the reconciled object, and in a mapper to that of the changed object.
    Where there is none, as in a timer, reads of namespaced kinds need it.
    """

    __slots__ = ("_add", "_default_namespace", "_owner", "_reader", "_runtime", "log", "request")

    def __init__(
        self,
        runtime: Runtime,
        reader: CacheReader,
        request: Request | None = None,
        owner: Any = None,
        *,
        namespace: str = "",
        add: Callable[[Key, int, str], None] | None = None,
    ) -> None:
        self._add = add
        self._runtime = runtime
        self._reader = reader
        self._owner = owner
        self._default_namespace = namespace if owner is None else owner.metadata.namespace
        self.request = request
        """The key, the reasons of the trigger and the attempt number (from 1); `None` in timers and hooks."""
        self.log: Logger = runtime.log
        """The log. Each line has the kind, namespace, name and reconcile id."""

    @property
    def client(self) -> Client:
        """The API client, for other requests. Its writes need the lease, too."""
        return self._runtime.client

    @property
    def cache(self) -> Cache:
        """The cache, for operators that add informers while they run."""
        return self._runtime.cache

    def now(self) -> datetime:
        """Return the wall clock time in UTC; tests replace the clock."""
        return self._runtime.now()

    # Reads from the cache.

    def get(self, kind: KindLike[T], name: str, *, namespace: str | None = None) -> T | None:
        """Return an object from the cache, or `None`.

        Args:
            kind: A class or a view.
            name: The name of the object.
            namespace: The namespace; by default that of the reconciled object.

        Raises:
            NotCachedError: The kind is not among `owns`, `reads` and `watches`.
            UndecodableError: The object does not fit its class.
            ValueError: The kind is namespaced, and there is no namespace.
        """
        view = view_of(kind)
        return self._reader.get(view, self._key(view, name, namespace))

    def list(
        self,
        kind: KindLike[T],
        *,
        labels: Labels | None = None,
        namespace: str | None = None,
        owned: bool = False,
        index: tuple[str, str] | None = None,
    ) -> tuple[T, ...]:
        """Return objects from the cache, in no particular order.

        Objects that do not fit their class are left out; each version of them is logged once.

        Args:
            kind: A class or a view.
            labels: A mapping, or a selector such as `"app=web,tier in (a,b)"`.
            namespace: The namespace, or `ALL_NAMESPACES`; by default that of the reconciled object.
            owned: Whether to return only objects that the reconciled object owns.
            index: The name of an index of the operator, and a value.

        Raises:
            NotCachedError: The kind is not among `owns`, `reads` and `watches`.
            ValueError: The kind is namespaced, and there is no namespace.
        """
        view = view_of(kind)
        owner = self._owner.metadata.uid if owned and self._owner is not None else None
        return self._reader.list(view, self._list_namespace(view, namespace), labels, owner, index)

    # Reads from the API server.

    async def fetch(self, kind: KindLike[T], name: str, *, namespace: str | None = None) -> T | None:
        """Return the current object from the API server, or `None`. Arguments are those of `get`."""
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
        """Return the current objects from the API server, read page by page. Arguments are those of `list`."""
        view = view_of(kind)
        place = self._list_namespace(view, namespace) or ALL_NAMESPACES
        found = self.client.iterate(view, namespace=place, labels=labels)
        return tuple([item async for item in found])

    # Writes.

    async def apply(self, obj: T, *, owned: bool = True, force: bool = True, wait: bool = True) -> T:
        """Apply an object by server-side apply (rule A1), and return the object in the cluster.

        Sends no request if the cluster has the object already.

        Args:
            obj: The complete intent. Without a namespace it is applied in that of the reconciled object.
            owned: Whether the reconciled object becomes the controlling owner.
            force: Whether fields of other managers are taken over.
            wait: Whether to wait until the cache has the write.

        Raises:
            FieldConflictError: Another manager owns a field, and `force` is false.
        """
        runtime = self._runtime
        owner = self._owner if owned else None
        placed: Any = self._placed(obj)
        live = await runtime.applier.apply(placed, owner=owner, force=force)
        if wait:
            await runtime.wait_for_own_write(live)
        return live

    async def create(self, obj: T, *, owned: bool = True) -> T:
        """Create an object, and return it. `apply` is the better choice, because it can be repeated.

        Args:
            obj: The object. Without a namespace it is created in that of the reconciled object.
            owned: Whether the reconciled object becomes the controlling owner.

        Raises:
            AlreadyExists: There is an object of that name.
        """
        runtime = self._runtime
        placed = self._placed(obj)
        if owned and self._owner is not None:
            placed = runtime.with_owner(placed, self._owner)
        live = await self.client.create(placed, field_manager=runtime.field_manager)
        await runtime.wait_for_own_write(live)
        return live

    async def patch(
        self, target: Any, patch: Any, *, name: str | None = None, namespace: str | None = None, subresource: str = ""
    ) -> Any:
        """Patch an object, and return it.

        Args:
            target: The object, or its kind.
            patch: A `MergePatch`, `JsonPatch`, `StrategicMergePatch` or `ApplyPatch`.
            name: The name, if `target` is a kind.
            namespace: The namespace, if `target` is a kind.
            subresource: The subresource, such as `status`.

        Raises:
            NotFound: There is no such object.
        """
        view, key = self._target(target, name, namespace)
        live = await self.client.patch(
            view,
            key.name,
            patch,
            namespace=key.namespace,
            subresource=subresource or None,
            field_manager=self._runtime.field_manager,
        )
        await self._runtime.wait_for_own_write(live, view)
        return live

    async def delete(
        self,
        target: Any,
        name: str | None = None,
        *,
        namespace: str | None = None,
        propagation: Propagation = "Background",
    ) -> bool:
        """Delete an object; returns false if it does not exist.

        Args:
            target: The object, which is deleted only if it still has the same uid, or its kind.
            name: The name, if `target` is a kind.
            namespace: The namespace, if `target` is a kind.
            propagation: When the garbage collector deletes the dependents.

        Raises:
            Conflict: Another object has the name now.
        """
        view, key = self._target(target, name, namespace)
        uid = "" if isinstance(target, type | View) else str(target.metadata.uid)
        return await self._runtime.delete(view, key, uid, propagation)

    async def evict(self, pod: Any, *, grace_period: int | None = None) -> bool:
        """Evict a Pod, which respects PodDisruptionBudgets; returns false if the Pod does not exist.

        The operator needs `operator.permit("create", Pod, subresource="eviction")`.

        Args:
            pod: The Pod, which is evicted only if it still has the same uid.
            grace_period: Seconds for the containers to stop; by default those of the Pod.

        Raises:
            TooManyRequests: A budget does not allow the eviction now; `retry_after` says when to try again.
            Conflict: Another Pod has the name now.

        Source: Kubernetes documentation, "API-initiated Eviction".
        """
        metadata = pod.metadata
        this = Preconditions(uid=metadata.uid) if metadata.uid else None
        try:
            await self.client.evict(
                metadata.name, namespace=metadata.namespace, grace_period=grace_period, preconditions=this
            )
        except NotFound:
            return False
        return True

    def event(
        self, reason: str, message: str, *, type: EventType = "Normal", action: str = "Reconcile", about: Any = None
    ) -> None:
        """Record an Event. Returns immediately; repeated Events are counted in one object.

        Args:
            reason: The reason, in CamelCase.
            message: A sentence for people.
            type: `Normal` or `Warning`.
            action: The action of the operator, in CamelCase.
            about: The object that the Event is about; by default the reconciled object.

        Raises:
            ValueError: There is no reconciled object, and `about` is missing.
        """
        subject = about if about is not None else self._owner
        if subject is None:
            raise ValueError("event(): there is no reconciled object here: pass about=…")
        self._runtime.event(subject, reason, message, type=type, action=action)

    def enqueue(self, reason: str = "external event") -> None:
        """Reconcile the object again soon, for example because a task of the operator has noticed an external change.

        May be called at any time in the event loop, also after the reconcile has ended, and does nothing after
        shutdown. Several calls before the next reconcile lead to one reconcile.

        Args:
            reason: The reason of the trigger in logs.

        Raises:
            ValueError: There is no reconciled object, as in a timer or a hook.
        """
        if self._add is None or self.request is None:
            raise ValueError("enqueue(): there is no reconciled object here")
        self._add(self.request.key, DEFAULT_PRIORITY, reason)

    # Addresses.

    def _key(self, view: View[Any], name: str, namespace: str | None) -> Key:
        return Key(view.info.object_namespace(namespace, self._default_namespace), name)

    def _list_namespace(self, view: View[Any], namespace: str | None) -> str:
        return view.info.list_namespace(namespace, self._default_namespace)

    def _target(self, target: Any, name: str | None, namespace: str | None) -> tuple[View[Any], Key]:
        if is_kind(target):
            view = view_of(target)
            if not name:
                raise ValueError(f"{view.info.kind}: name= is missing; it is needed with a kind")
            return view, self._key(view, name, namespace)
        view = view_of_object(target)
        return view, Key(target.metadata.namespace if view.info.namespaced else "", target.metadata.name)

    def _placed(self, obj: T) -> T:
        """Return the object in the namespace of the reconciled object, unless it names another one."""
        return self._runtime.placed(obj, self._owner)


def _blocking(
    method: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[SyncContext, P], R]:
    """Return an async method of `Context` as a blocking one of `SyncContext`."""

    @wraps(method)
    def call(self: SyncContext, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.run(lambda context: method(context, *args, **kwargs))

    return call


def _in_loop(method: Callable[Concatenate[Context, P], R]) -> Callable[Concatenate[SyncContext, P], R]:
    """Return a synchronous method of `Context` as one of `SyncContext` that runs in the event loop."""

    @wraps(method)
    def call(self: SyncContext, *args: P.args, **kwargs: P.kwargs) -> R:
        async def work(context: Context) -> R:
            return method(context, *args, **kwargs)

        return self.run(work)

    return call


class SyncContext:
    """The `Context` of a plain `def`, which runs in a thread: the same methods, which block instead of being awaited.

    Each call runs in the event loop and returns its result. There is no `client` and no `cache`, which work only in the
    loop: use `run` for them.
    """

    __slots__ = ("_context", "_loop")

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop

    @property
    def request(self) -> Request | None:
        """The key, the reasons of the trigger and the attempt number (from 1); `None` in timers and hooks."""
        return self._context.request

    @property
    def log(self) -> Logger:
        """The log. Each line has the kind, namespace, name and reconcile id."""
        return self._context.log

    def run(self, work: Callable[[Context], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine function with the `Context` in the event loop, and return its result."""
        return run_in_loop(self._loop, work(self._context))

    now = _in_loop(Context.now)
    get = _in_loop(Context.get)
    list = _in_loop(Context.list)
    fetch = _blocking(Context.fetch)
    fetch_list = _blocking(Context.fetch_list)
    apply = _blocking(Context.apply)
    create = _blocking(Context.create)
    patch = _blocking(Context.patch)
    delete = _blocking(Context.delete)
    evict = _blocking(Context.evict)
    event = _in_loop(Context.event)
    enqueue = _in_loop(Context.enqueue)
