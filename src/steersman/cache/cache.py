"""The cache: all informers of one client, the reads over them, and read-your-writes consistency.

Kinds are declared with `informer`. A read of any other kind raises `NotCachedError`, so the cache never watches a kind
by accident (C6). Reads are synchronous and never send a request.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from steersman.cache.dictionaries import DictionaryPool
from steersman.cache.entry import Entry, NotCachedError, UndecodableError
from steersman.cache.index import IndexFunction
from steersman.cache.informer import Informer, Scope
from steersman.cache.listwatch import ListWatch, RawListWatch
from steersman.cache.memory import NO_MEMORY_POLICY, MemoryPolicy
from steersman.cache.metadata_store import WHOLE_OBJECTS_HINT
from steersman.cache.reflector_loop import ReflectorLoop, ServerFeatures
from steersman.cache.store import Transform
from steersman.client.hooks import WriteEnded, WriteObserver
from steersman.client.raw import Raw
from steersman.models import GVK, Key, KindLike, ObjectMeta, ResourceInfo, View, view_of
from steersman.telemetry.clock import Now, utc_now
from steersman.telemetry.log import get_logger

__all__ = ["Cache", "CacheClient", "NotCachedError", "SyncTimeoutError"]

T = TypeVar("T")

ListWatches: TypeAlias = Callable[[View[Any], Scope], ListWatch]
"""Returns the list and watch source of an informer; the view's form says whether metadata is enough."""

MAX_REMEMBERED_READS: Final = 1024
"""Reads for which the cache remembers the informers that answer them."""

_log = get_logger("cache")


class CacheClient(Protocol):
    """The part of a client that the cache uses."""

    @property
    def raw(self) -> Raw:
        """The requests below the typed methods."""
        ...

    @property
    def observers(self) -> list[WriteObserver]:
        """Functions that are called with each write of the client."""
        ...


class Selects(Protocol):
    """A parsed label selector."""

    def matches(self, labels: Mapping[str, str]) -> bool: ...


class SyncTimeoutError(TimeoutError):
    """Some informers have not synced within the timeout; the message names them and the reasons."""


class Cache:
    """Shared informers over one client, for one event loop and one thread.

    Args:
        client: Sends the lists and watches, and reports this client's writes.
        rng: Jitters backoffs.
        now: Returns the wall clock time, for metrics.
        sources: Replaces the requests to the server, for tests.
        memory: Process-wide memory settings that the cache applies while it fills; by default none.
    """

    def __init__(
        self,
        client: CacheClient | None,
        *,
        rng: random.Random | None = None,
        now: Now = utc_now,
        sources: ListWatches | None = None,
        memory: MemoryPolicy = NO_MEMORY_POLICY,
    ) -> None:
        if client is None and sources is None:
            raise TypeError("Cache needs a client, or sources= to list and watch from")
        self._client = client
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._now = now
        self._memory = memory
        self._pool = DictionaryPool()
        self._sources = sources or self._from_client
        self._server = ServerFeatures()
        self._informers: dict[tuple[GVK, Scope], Informer] = {}
        self._by_kind: dict[GVK, list[Informer]] = {}
        self._by_resource: dict[tuple[str, str], list[Informer]] = {}
        self._informers_by_read: dict[tuple[ResourceInfo, bool, str | None, str], list[Informer]] = {}
        self._tasks: dict[Informer, asyncio.Task[None]] = {}
        self._dropped: set[asyncio.Task[None]] = set()
        self._started = False
        self._observer = _Observer(self._by_resource)

    def informer(
        self,
        kind: KindLike[Any],
        *,
        namespace: str | None = None,
        labels: object = None,
        fields: object = None,
        indexes: Mapping[str, IndexFunction] | None = None,
        transform: Transform | None = None,
    ) -> Informer:
        """Declare an informer for a kind; equal arguments return the same informer, whatever the view (W11).

        The informer requests only metadata while every declaration of its kind and scope is in a metadata view. The
        first declaration in another view widens the informer permanently: it lists whole objects and is not synced
        until that list is complete.

        Args:
            kind: The kind to watch. Index functions receive objects in this view.
            namespace: The namespace to watch; `None` watches all namespaces.
            labels: A label selector, as text or parsed.
            fields: A field selector, as text or parsed.
            indexes: Index functions by index name.
            transform: Reduces each object's JSON before it is stored.

        Raises:
            ValueError: An index or the transform contradicts an earlier declaration.
        """
        view = kind if isinstance(kind, View) else view_of(kind)
        info = view.info
        scope = Scope((namespace or None) if info.namespaced else None, str(labels or ""), str(fields or ""))
        known = self._informers.get((info.gvk, scope))
        if known is None:
            known = Informer(view, scope, transform=transform, pool=self._pool, memory=self._memory, now=self._now)
            self._informers[info.gvk, scope] = known
            self._by_kind.setdefault(info.gvk, []).append(known)
            self._by_resource.setdefault((info.group, info.plural), []).append(known)
            self._informers_by_read.clear()
            if self._started:
                self._run(known)
        else:
            if transform is not None and known.transform is not transform:
                raise ValueError(
                    f"{info.kind}: the informer of {str(scope) or 'all objects'} has another transform;"
                    " use one transform in all declarations of a scope"
                )
            if view.form != "metadata" and not known.whole:
                self._widen(known, view)
        for name, function in (indexes or {}).items():
            known.declare_index(name, function, view)
        return known

    def _widen(self, informer: Informer, view: View[Any]) -> None:
        informer.widen(view)
        self._informers_by_read.clear()
        if informer.version:
            _log.info(
                "informer_widened",
                kind=informer.kind,
                scope=str(informer.scope),
                hint="declare the kind as whole objects before the start to list it only once",
            )
        if informer in self._tasks:
            informer.after_notification(lambda: self._restart(informer))

    def _restart(self, informer: Informer) -> None:
        """List and watch again, in the form that the informer's view needs."""
        if (task := self._tasks.get(informer)) is not None:
            self._cancel(task)
            self._run(informer, task)

    def _cancel(self, task: asyncio.Task[None]) -> None:
        self._dropped.add(task)
        task.add_done_callback(self._dropped.discard)
        task.cancel()

    def drop(self, informer: Informer) -> None:
        """Remove an informer: stop its watch and its handlers; reads of its scope raise `NotCachedError`.

        A handler may call this. Waiters for its sync, or for a write to arrive in it, are released. An informer that
        does not belong to this cache is ignored.
        """
        info = informer.info
        if self._informers.get((info.gvk, informer.scope)) is not informer:
            return
        del self._informers[info.gvk, informer.scope]
        self._by_kind[info.gvk].remove(informer)
        self._by_resource[info.group, info.plural].remove(informer)
        self._informers_by_read.clear()
        informer.close()
        informer.metrics.forget()
        if (task := self._tasks.pop(informer, None)) is not None:
            self._cancel(task)

    @property
    def informers(self) -> tuple[Informer, ...]:
        """All declared informers."""
        return tuple(self._informers.values())

    async def start(self) -> None:
        """Start to list and watch; returns immediately."""
        if self._started:
            return
        self._started = True
        self._memory.cache_started()
        if self._client is not None:
            self._client.observers.append(self._observer)
        for informer in self._informers.values():
            self._run(informer)

    async def wait_synced(self, timeout: float | None = None, informers: Iterable[Informer] | None = None) -> None:
        """Return when all informers (or those given) have synced and their handlers have run (C3).

        A kind whose CustomResourceDefinition does not exist syncs when the definition is created.

        Raises:
            SyncTimeoutError: `timeout` seconds have passed; the message names each kind that is missing, and why.
        """
        wanted = tuple(self._informers.values() if informers is None else informers)
        try:
            async with asyncio.timeout(timeout):
                for informer in wanted:
                    await informer.wait_synced()
        except TimeoutError:
            missing = [i for i in wanted if not i.synced]
            reasons = "; ".join(f"{i.kind}: {i.problem or 'still listing'}" for i in missing)
            raise SyncTimeoutError(f"{len(missing)} of {len(wanted)} informers have not synced: {reasons}") from None

    async def close(self) -> None:
        """Stop all watches; reads still return the last known state. May be called twice."""
        if self._client is not None and self._observer in self._client.observers:
            self._client.observers.remove(self._observer)
        tasks, self._tasks = self._tasks, {}
        ending = {*tasks.values(), *self._dropped}
        for task in ending:
            task.cancel()
        if ending:
            await asyncio.wait(ending)
        for informer in tasks:
            informer.metrics.forget()

    # Reads.

    def get(self, kind: KindLike[T], key: Key) -> T | None:
        """Return the cached object, or `None`.

        Raises:
            NotCachedError: No informer covers the read.
            UndecodableError: The object does not fit its type.
        """
        view = kind if isinstance(kind, View) else view_of(kind)
        for informer in self._informers_for(view, key[0] or None):
            entry = informer.get(key)
            if entry is not None:
                return entry.object(view)
        return None

    def entry(self, gvk: GVK, key: Key) -> Entry | None:
        """Return the cached entry of one object, not decoded; `None` if it does not exist or no informer covers it.

        The entry is of the whole object if some informer has it, else of its metadata (`Entry.whole`).
        """
        partial: Entry | None = None
        for informer in self._by_kind.get(gvk, ()):
            found = informer.store.get(key)
            if found is not None:
                if found.whole:
                    return found
                partial = partial or found
        return partial

    def list(
        self,
        kind: KindLike[T],
        *,
        namespace: str | None = None,
        labels: Any = None,
        owner: str | None = None,
        index: tuple[str, str] | None = None,
    ) -> tuple[T, ...]:
        """Return the cached objects that match all arguments, in no particular order.

        Objects that do not fit their type are left out; `Informer.undecodables` lists them.

        Args:
            kind: The kind to read.
            namespace: The namespace, or `ALL_NAMESPACES`; needed for namespaced kinds.
            labels: A label selector, as text or parsed.
            owner: The uid of an owner.
            index: The name of a declared index, and a value.

        Raises:
            NotCachedError: No informer covers the read.
            KeyError: The index was not declared.
            ValueError: The kind is namespaced and `namespace` is missing or empty.
        """
        view = kind if isinstance(kind, View) else view_of(kind)
        namespace = view.info.list_namespace(namespace, "") or None
        selector = _selector(labels)
        found: list[T] = []
        seen: set[Key] = set()
        informers = self._informers_for(view, namespace, str(labels or ""))
        for informer in informers:
            for entry in _select(informer, namespace, owner, index):
                if len(informers) > 1:
                    if entry.key in seen:
                        continue
                    seen.add(entry.key)
                try:
                    value = entry.object(view)
                    if selector is None or selector.matches(_metadata(value, entry).labels):
                        found.append(value)
                except UndecodableError:
                    continue
        return tuple(found)

    def caches(self, kind: KindLike[Any], *, namespace: str | None = None) -> bool:
        """Return whether some informer covers reads of a kind in a namespace, or in `ALL_NAMESPACES`."""
        view = kind if isinstance(kind, View) else view_of(kind)
        place = view.info.list_namespace(namespace, "") or None
        try:
            return bool(self._informers_for(view, place))
        except NotCachedError:
            return False

    def outstanding(self, kind: KindLike[Any], key: Key | None = None) -> bool:
        """Return whether a read could be older than a write of this client; a check before `read_barrier`."""
        view = kind if isinstance(kind, View) else view_of(kind)
        for informer in self._by_resource.get((view.info.group, view.info.plural), ()):
            writes = informer.writes
            if writes.active and writes.unseen(key):
                return True
        return False

    async def read_barrier(self, kind: KindLike[Any], key: Key | None = None, timeout: float = 5.0) -> bool:
        """Wait until reads of `key`, or lists of the kind, include every finished write of this client (C2).

        Returns true when they do, and false after `timeout` seconds. After a timeout the read may be older than the
        write, and the write no longer delays reads.
        """
        view = kind if isinstance(kind, View) else view_of(kind)
        fresh = True
        time = asyncio.get_running_loop().time
        deadline = time() + timeout
        for informer in tuple(self._by_resource.get((view.info.group, view.info.plural), ())):
            if informer.writes.active and informer.writes.unseen(key):
                informer.metrics.own_write_waits.inc()
                if not await informer.writes.wait(key, deadline - time()):
                    fresh = False
                    informer.metrics.own_write_timeouts.inc()
                    _log.warning(
                        "own_write_not_observed",
                        kind=informer.kind,
                        key=str(key) if key else "",
                        seconds=timeout,
                    )
        return fresh

    def _informers_for(self, view: View[Any], namespace: str | None, labels: str = "") -> list[Informer]:
        """Return the informers that together answer a read; remembered until the set of informers changes."""
        info, whole = view.info, view.form != "metadata"
        question = (info, whole, namespace, labels)
        known = self._informers_by_read.get(question)
        if known is None:
            if len(self._informers_by_read) >= MAX_REMEMBERED_READS:
                self._informers_by_read.clear()
            known = self._informers_by_read[question] = self._find_informers(info, namespace, labels, whole=whole)
        return known

    def _find_informers(self, info: ResourceInfo, namespace: str | None, labels: str, *, whole: bool) -> list[Informer]:
        """Return the informer of all objects, or else those with the closest scopes."""
        informers = self._by_kind.get(info.gvk, ())
        covering = [i for i in informers if not namespace or i.scope.namespace in (None, namespace)]
        where = f"in namespace {namespace} " if namespace else ""
        if not covering:
            raise NotCachedError(
                f"{info.gvk} {where}is not cached: declare it "
                "(owns=, reads=, watches=, or Cache.informer), or read it through the client"
            )
        fitting = [i for i in covering if i.whole] if whole else covering
        if not fitting:
            raise NotCachedError(f"only the metadata of {info.gvk} {where}is cached: {WHOLE_OBJECTS_HINT}")
        for informer in fitting:
            if informer.scope.namespace is None and not informer.scope.selects:
                return [informer]
        exact = [i for i in fitting if labels and i.scope.labels == labels and not i.scope.fields]
        unselected = [i for i in fitting if not i.scope.selects]
        return exact or unselected or fitting

    def _run(self, informer: Informer, after: asyncio.Task[None] | None = None) -> None:
        loop = asyncio.get_running_loop()
        if after is None:
            self._observe(informer)
        source = self._sources(informer.view, informer.scope)
        reflector = ReflectorLoop(informer, source, server=self._server, rng=self._rng)
        name = f"informer {informer.kind} {informer.scope}"
        self._tasks[informer] = loop.create_task(_run_after(after, reflector), name=name)

    def _observe(self, informer: Informer) -> None:
        started = self._now().timestamp()
        informer.metrics.observe(
            objects=lambda: len(informer.store),
            stored=lambda: informer.store.size,
            last=lambda: informer.last_event,
            lag=lambda: max(0.0, self._now().timestamp() - (informer.last_event or started)),
        )

    def _from_client(self, view: View[Any], scope: Scope) -> ListWatch:
        assert self._client is not None
        return RawListWatch(self._client.raw, view, namespace=scope.namespace, labels=scope.labels, fields=scope.fields)


async def _run_after(before: asyncio.Task[None] | None, reflector: ReflectorLoop) -> None:
    """Run a reflector loop after the previous loop of the informer has ended."""
    if before is not None:
        await asyncio.wait([before])
    await reflector.run()


class _Observer:
    """Reports this client's writes to the informers (C2)."""

    def __init__(self, informers: Mapping[tuple[str, str], list[Informer]]) -> None:
        self._informers = informers

    def before_write(self, info: ResourceInfo, key: Key, verb: str) -> Sequence[WriteEnded]:
        ended: list[WriteEnded] = []
        for informer in self._informers.get((info.group, info.plural), ()):
            namespace = informer.scope.namespace
            if namespace is None or namespace == key[0]:
                ended.append(informer.writes.begin(key, delete=verb == "delete"))
        return ended


def _select(
    informer: Informer, namespace: str | None, owner: str | None, index: tuple[str, str] | None
) -> Iterator[Entry]:
    if index is not None:
        entries: Iterable[Entry] = informer.indexed(*index)
    elif owner is not None:
        entries = informer.owned_by(owner)
    else:
        yield from informer.entries(namespace=namespace)
        return
    for entry in entries:
        if namespace and entry.key.namespace != namespace:
            continue
        if owner is None or owner in entry.owner_uids:
            yield entry


def _selector(labels: Any) -> Selects | None:
    if not labels:
        return None
    if isinstance(labels, str):
        from steersman.models.selectors import parse_labels

        return parse_labels(labels)
    return labels


def _metadata(value: object, entry: Entry) -> ObjectMeta:
    metadata = getattr(value, "metadata", None)
    return metadata if isinstance(metadata, ObjectMeta) else entry.metadata()
