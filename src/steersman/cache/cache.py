"""The cache: all informers of one client, reads over them, and the consistency of reads with own writes.

Kinds are declared with `informer`; a read of anything else raises `NotCachedError`, so that nothing is ever watched by
accident (C6). Reads are synchronous and never go to the server.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from steersman.cache.entry import Entry, NotCachedError, UndecodableError
from steersman.cache.hygiene import keep_freed, set_aside
from steersman.cache.index import IndexFunction
from steersman.cache.informer import Informer, Scope
from steersman.cache.listwatch import ListWatch, RawListWatch
from steersman.cache.partial import REMEDY
from steersman.cache.pool import Pool
from steersman.cache.shell import Server, Shell
from steersman.cache.store import Transform
from steersman.client.hooks import WriteEnded, WriteObserver
from steersman.client.raw import Raw
from steersman.models import GVK, Key, KindLike, ObjectMeta, ResourceInfo, View, view_of
from steersman.telemetry.clock import Now, utc_now
from steersman.telemetry.log import get_logger

__all__ = ["Cache", "CacheClient", "NotCachedError", "SyncTimeoutError"]

T = TypeVar("T")

ListWatches: TypeAlias = Callable[[View[Any], Scope], ListWatch]
"""Where an informer's bytes come from; the view's form says whether metadata is enough."""

QUESTIONS: Final = 1024
"""Answers to "which informers cover this read?" that are remembered."""

_log = get_logger("cache")


class CacheClient(Protocol):
    """What the cache needs of a client."""

    @property
    def raw(self) -> Raw: ...
    @property
    def observers(self) -> list[WriteObserver]: ...


class Selects(Protocol):
    """A parsed label selector."""

    def matches(self, labels: Mapping[str, str]) -> bool: ...


class SyncTimeoutError(TimeoutError):
    """Some informers have not synced in time; the message says which and why."""


class Cache:
    """Shared informers over one client.

    `rng` jitters back-offs, `now` stamps metrics. `sources` replaces the requests to the server, for tests. With
    `gc_tuning`, what is alive when it starts is exempt from garbage collections from then on, once for the process.
    One event loop, one thread.
    """

    def __init__(
        self,
        client: CacheClient | None,
        *,
        rng: random.Random | None = None,
        now: Now = utc_now,
        sources: ListWatches | None = None,
        gc_tuning: bool = True,
    ) -> None:
        if client is None and sources is None:
            raise TypeError("Cache needs a client, or sources= to list and watch from")
        self._client = client
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._now = now
        self._gc_tuning = gc_tuning
        self._pool = Pool()
        self._sources = sources or self._from_client
        self._server = Server()
        self._informers: dict[tuple[GVK, Scope], Informer] = {}
        self._by_kind: dict[GVK, list[Informer]] = {}
        self._by_resource: dict[tuple[str, str], list[Informer]] = {}
        self._covering: dict[tuple[ResourceInfo, bool, str | None, str], list[Informer]] = {}
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
        """Declare that a kind is watched; the same arguments give the same informer, whatever the view (W11).

        The server is asked for metadata only while every declaration of a kind and scope is in a metadata view. The
        first other one widens the informer for good: it lists afresh, in whole, and is not synced until that is done.

        `labels` and `fields` are selectors, as text or parsed. An index function is given the object in the view of
        `kind`. Starts watching at once when the cache has been started. Raises `ValueError` when an index or the
        transform contradicts an earlier declaration.
        """
        view = kind if isinstance(kind, View) else view_of(kind)
        info = view.info
        scope = Scope((namespace or None) if info.namespaced else None, str(labels or ""), str(fields or ""))
        known = self._informers.get((info.gvk, scope))
        if known is None:
            known = Informer(view, scope, transform=transform, pool=self._pool, now=self._now)
            self._informers[info.gvk, scope] = known
            self._by_kind.setdefault(info.gvk, []).append(known)
            self._by_resource.setdefault((info.group, info.plural), []).append(known)
            self._covering.clear()
            if self._started:
                self._run(known)
        else:
            if transform is not None and known.transform is not transform:
                raise ValueError(
                    f"{info.kind}: the informer for {scope or 'all objects'} already has another transform"
                )
            if view.form != "metadata" and not known.whole:
                self._widen(known, view)
        for name, function in (indexes or {}).items():
            known.declare_index(name, function, view)
        return known

    def _widen(self, informer: Informer, view: View[Any]) -> None:
        informer.widen(view)
        self._covering.clear()
        if informer.version:
            _log.info(
                "whole objects are listed where only metadata was kept: declare them before the start to list once",
                kind=informer.kind,
                scope=str(informer.scope),
            )
        if informer in self._tasks:
            informer.when_told(lambda: self._restart(informer))

    def _restart(self, informer: Informer) -> None:
        """List and watch anew, in the form that is asked for now."""
        if (task := self._tasks.get(informer)) is not None:
            self._let_go(task)
            self._run(informer, task)

    def _let_go(self, task: asyncio.Task[None]) -> None:
        self._dropped.add(task)
        task.add_done_callback(self._dropped.discard)
        task.cancel()

    def drop(self, informer: Informer) -> None:
        """Stop watching at once and forget: its handlers hear nothing more, and reads of its scope raise
        `NotCachedError`.

        May be called from a handler. Who waits for it to sync, or for a write to arrive in it, goes on. Ignores an
        informer that is not (any more) of this cache.
        """
        info = informer.info
        if self._informers.get((info.gvk, informer.scope)) is not informer:
            return
        del self._informers[info.gvk, informer.scope]
        self._by_kind[info.gvk].remove(informer)
        self._by_resource[info.group, info.plural].remove(informer)
        self._covering.clear()
        informer.close()
        informer.metrics.forget()
        if (task := self._tasks.pop(informer, None)) is not None:
            self._let_go(task)

    @property
    def informers(self) -> tuple[Informer, ...]:
        """All that were declared."""
        return tuple(self._informers.values())

    async def start(self) -> None:
        """Start to list and watch; returns at once."""
        if self._started:
            return
        self._started = True
        keep_freed()
        if self._gc_tuning:
            set_aside()
        if self._client is not None:
            self._client.observers.append(self._observer)
        for informer in self._informers.values():
            self._run(informer)

    async def wait_synced(self, timeout: float | None = None, informers: Iterable[Informer] | None = None) -> None:
        """Return when all informers (or those given) have synced and their handlers have run (C3).

        Raises `SyncTimeoutError` after `timeout` seconds, which names the kinds that are missing and what keeps them. A
        kind whose CustomResourceDefinition does not exist syncs when that is created, and not before.
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
        """Stop to watch; reads keep answering from what was known. Safe to call twice."""
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
        """The object as cached, or `None`.

        Raises `NotCachedError`, and `UndecodableError` when it does not fit its type.
        """
        view = kind if isinstance(kind, View) else view_of(kind)
        for informer in self._informers_for(view, key[0] or None):
            entry = informer.get(key)
            if entry is not None:
                return entry.object(view)
        return None

    def entry(self, gvk: GVK, key: Key) -> Entry | None:
        """The cached state of one object, decoded as nothing yet; `None` where there is none, or nothing caches it.

        The whole object where some informer has it, else its metadata (`Entry.whole`).
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
        """The cached objects that fit all arguments, in no particular order.

        `labels` is a selector, as text or parsed; `owner` a uid; `index` a declared index's name and a value. Objects
        that do not fit their type are left out (`Informer.undecodables` has them, logs and metrics name them).
        Raises `NotCachedError`, and `KeyError` for an index that was not declared.
        """
        view = kind if isinstance(kind, View) else view_of(kind)
        namespace = namespace or None
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

    def caches(self, kind: KindLike[Any], namespace: str | None = None) -> bool:
        """Whether reads of that kind (in that namespace) are answered from the cache."""
        view = kind if isinstance(kind, View) else view_of(kind)
        try:
            return bool(self._informers_for(view, namespace or None))
        except NotCachedError:
            return False

    def outstanding(self, kind: KindLike[Any], key: Key | None = None) -> bool:
        """Whether a read could be older than a write of this client; what to ask before awaiting `read_barrier`."""
        view = kind if isinstance(kind, View) else view_of(kind)
        for informer in self._by_resource.get((view.info.group, view.info.plural), ()):
            writes = informer.writes
            if writes.active and writes.unseen(key):
                return True
        return False

    async def read_barrier(self, kind: KindLike[Any], key: Key | None = None, timeout: float = 5.0) -> bool:
        """Wait until reads of `key` (or of lists of the kind) are no older than any finished write of this client (C2).

        Returns true at once where nothing is outstanding, and false after `timeout` seconds: then the read may be
        older, and the write holds back nobody any more.
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
                        "an own write has not arrived in time: the read may be older than it",
                        kind=informer.kind,
                        key=str(key) if key else "",
                        seconds=timeout,
                    )
        return fresh

    def _informers_for(self, view: View[Any], namespace: str | None, labels: str = "") -> list[Informer]:
        """The informers that together answer a read; worked out once, until informers come, widen or go."""
        info, whole = view.info, view.form != "metadata"
        question = (info, whole, namespace, labels)
        known = self._covering.get(question)
        if known is None:
            if len(self._covering) >= QUESTIONS:
                self._covering.clear()
            known = self._covering[question] = self._find_informers(info, whole, namespace, labels)
        return known

    def _find_informers(self, info: ResourceInfo, whole: bool, namespace: str | None, labels: str) -> list[Informer]:
        """The one for all objects, else those that come nearest."""
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
            raise NotCachedError(f"only the metadata of {info.gvk} {where}is cached: {REMEDY}")
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
        shell = Shell(informer, source, server=self._server, rng=self._rng)
        name = f"informer {informer.kind} {informer.scope}"
        self._tasks[informer] = loop.create_task(_run_after(after, shell), name=name)

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


async def _run_after(before: asyncio.Task[None] | None, shell: Shell) -> None:
    """Run a shell when the one before it has let go of the informer."""
    if before is not None:
        await asyncio.wait([before])
    await shell.run()


class _Observer:
    """Tells the informers of this client's writes (C2)."""

    def __init__(self, informers: Mapping[tuple[str, str], list[Informer]]) -> None:
        self._informers = informers

    def before_write(self, info: ResourceInfo, key: Key, verb: str) -> Sequence[WriteEnded]:
        ended: list[WriteEnded] = []
        for informer in self._informers.get((info.group, info.plural), ()):
            namespace = informer.scope.namespace
            if namespace is None or namespace == key[0]:
                ended.append(informer.writes.begin(key, verb == "delete"))
        return ended


def _select(
    informer: Informer, namespace: str | None, owner: str | None, index: tuple[str, str] | None
) -> Iterator[Entry]:
    if index is not None:
        entries: Iterable[Entry] = informer.indexed(*index)
    elif owner is not None:
        entries = informer.owned_by(owner)
    else:
        yield from informer.entries(namespace)
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
