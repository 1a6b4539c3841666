"""The garbage collector: deletes objects without owners in the background or foreground, or orphans dependents.

It watches the metadata of all served kinds in the cache that all controllers share, and finds dependents by the owner
index of each kind, without scans. An owner that is missing in the cache is requested from the server before anything
is deleted, since it may be new.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from steersman.cache import Cache, Change, Entry, Informer
from steersman.client import Client, ClientError, NotFound, Preconditions
from steersman.controller import QueueClosedError, WorkQueue
from steersman.k8s import CustomResourceDefinition
from steersman.models import Key, MergePatch, ObjectMeta, OwnerReference, PartialObjectMetadata, View
from steersman.operator import Context, Operator
from steersman.telemetry.log import get_logger
from steersman_cluster.controllers.discovery import Served, served_kinds
from steersman_cluster.controllers.ownership import (
    FOREGROUND,
    ORPHAN,
    OwnerState,
    references_without,
    state_of,
    unblocked,
    verdict_of,
)

__all__ = ["Collector", "register"]

_WORKERS = 8
_ABSENT = 4096
_NEEDED = frozenset(("list", "watch", "delete"))
_IGNORED = frozenset((("", "events"), ("events.k8s.io", "events")))
_log = get_logger("garbage")


class Item(NamedTuple):
    """An object to look at: its kind, by group and plural, and its key."""

    group: str
    plural: str
    key: Key


class Kind(NamedTuple):
    """One watched kind."""

    view: View[PartialObjectMetadata]
    informer: Informer
    handler: Callable[[Change], None]
    ours: bool
    """Return whether the kind was not watched before."""


def register(operator: Operator, collector: Collector | None = None) -> None:
    """Declare the collector: it starts and stops with the operator and follows the CustomResourceDefinitions."""
    collector = collector or Collector()
    operator.on_startup(collector.start)
    operator.on_shutdown(collector.stop)
    operator.timer(30.0, name="garbage-discovery")(collector.discover)

    @operator.controller(name="garbage-kinds", terminating=True, workers=1)
    async def follow(definition: CustomResourceDefinition, ctx: Context) -> None:  # pyright: ignore[reportUnusedFunction]
        await collector.discover(ctx)


class Collector:
    """The collector's workers, and the kinds they look at."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], Kind] = {}
        self._by_name: dict[tuple[str, str], tuple[str, str]] = {}
        """From group and kind, as owner references have them, to group and plural."""
        self._queue: WorkQueue[Item] = WorkQueue("garbagecollector")
        self._absent: OrderedDict[str, None] = OrderedDict()
        self._tasks: list[asyncio.Task[None]] = []
        self._cache: Cache
        self._client: Client

    async def start(self, ctx: Context) -> None:
        """Watch all kinds, and begin when they have been listed."""
        self._cache, self._client = ctx.cache, ctx.client
        await self.discover(ctx)
        self._tasks = [asyncio.create_task(self._work(), name=f"garbage {n}") for n in range(_WORKERS)]

    async def stop(self) -> None:
        """End the workers."""
        self._queue.shut_down()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def discover(self, ctx: Context) -> None:
        """Watch kinds that have come, and leave those that have gone."""
        found, failed = await served_kinds(ctx.client)
        wanted = {s.group_resource: s for s in found if s.verbs >= _NEEDED and s.group_resource not in _IGNORED}
        for name in [n for n in self._kinds if n not in wanted and not failed]:
            self._remove_kind(name)
        for name, served in wanted.items():
            if name not in self._kinds:
                self._add_kind(name, served)

    def _add_kind(self, name: tuple[str, str], served: Served) -> None:
        known = set(self._cache.informers)
        informer = self._cache.informer(served.view)

        def handler(change: Change) -> None:
            self._changed(name, change)

        self._kinds[name] = Kind(served.view, informer, handler, informer not in known)
        self._by_name[served.view.info.group, served.view.info.kind] = name
        informer.add_handler(handler)

    def _remove_kind(self, name: tuple[str, str]) -> None:
        kind = self._kinds.pop(name)
        self._by_name.pop((kind.view.info.group, kind.view.info.kind), None)
        kind.informer.remove_handler(kind.handler)
        if kind.ours:
            self._cache.drop(kind.informer)

    # What to look at.

    def _changed(self, name: tuple[str, str], change: Change) -> None:
        new, old = change.new, change.old
        owners_changed = new is not None and (old is None or old.owner_uids != new.owner_uids)
        if new is not None and (new.deleting or (new.owner_uids and owners_changed)):
            self._queue.add(Item(*name, change.key))
        if new is None:
            for dependent, _ in self._dependents(change.entry.uid):
                self._queue.add(dependent)
        if old is not None and old.owner_uids and (new is None or new.owner_uids != old.owner_uids or new.deleting):
            for owner in old.owners:  # it may wait for this one
                if (where := self._by_name.get((_group(owner), owner.kind))) is not None:
                    self._queue.add(Item(*where, self._owner_key(where, owner, change.key.namespace)))

    def _dependents(self, uid: str) -> Iterator[tuple[Item, Entry]]:
        for name, kind in self._kinds.items():
            for entry in kind.informer.owned_by(uid):
                yield Item(*name, entry.key), entry

    def _owner_key(self, where: tuple[str, str], owner: OwnerReference, namespace: str) -> Key:
        return Key(namespace if self._kinds[where].view.info.namespaced else "", owner.name)

    # Looking.

    async def _work(self) -> None:
        await self._cache.wait_synced(informers=[k.informer for k in self._kinds.values() if not k.informer.problem])
        while True:
            try:
                item = (await self._queue.get()).key
            except QueueClosedError:
                return
            try:
                await self._attempt_to_delete(item)
            except (ClientError, LookupError) as problem:
                wait = self._queue.fail(item)
                _log.debug("collection_retried", item=str(item), problem=str(problem), seconds=wait)
            except BaseException:
                self._queue.fail(item)
                raise
            else:
                self._queue.done(item)

    async def _attempt_to_delete(self, item: Item) -> None:
        kind = self._kinds.get((item.group, item.plural))
        entry = kind.informer.get(item.key) if kind is not None else None
        if kind is None or entry is None:
            return
        metadata = entry.metadata()
        if entry.deleting:
            if ORPHAN in metadata.finalizers:
                await self._orphan(kind, metadata)
            elif FOREGROUND in metadata.finalizers:
                await self._foreground(kind, metadata)
            return
        states = {o.uid: await self._state(o, metadata.namespace) for o in metadata.owner_references}
        waits = OwnerState.WAITING in states.values()
        dependents = [dependent for _, dependent in self._dependents(metadata.uid)] if waits else []
        verdict = verdict_of(metadata, states, has_dependents=bool(dependents), in_circle=any(map(_waits, dependents)))
        try:
            if verdict.unblock:
                await self._unblock(kind.view, metadata)
            if verdict.action == "cut":
                await self._cut(kind.view, metadata, verdict.cut)
            elif verdict.action == "delete":
                await self._client.delete(
                    kind.view,
                    metadata.name,
                    namespace=metadata.namespace,
                    propagation=verdict.propagation,
                    preconditions=Preconditions(uid=metadata.uid),
                )
        except NotFound:
            return

    async def _state(self, owner: OwnerReference, namespace: str) -> OwnerState:
        where = self._by_name.get((_group(owner), owner.kind))
        if where is None:
            raise LookupError(f"{owner.api_version} {owner.kind} is not served")
        kind = self._kinds[where]
        if kind.view.info.namespaced and not namespace:
            return OwnerState.SOLID  # the namespace of that owner is unknown
        key = self._owner_key(where, owner, namespace)
        entry = kind.informer.get(key)
        if entry is not None and entry.uid == owner.uid:
            return state_of(entry.metadata(), owner.uid) if entry.deleting else OwnerState.SOLID
        if owner.uid in self._absent:
            return OwnerState.ABSENT
        try:
            live = await self._client.get(kind.view, key.name, namespace=key.namespace)
        except NotFound:
            live = None
        state = state_of(live.metadata if live is not None else None, owner.uid)
        if state is OwnerState.ABSENT:
            self._absent[owner.uid] = None
            if len(self._absent) > _ABSENT:
                self._absent.popitem(last=False)
        return state

    async def _orphan(self, kind: Kind, owner: ObjectMeta) -> None:
        """Cut all dependents loose, then let the owner go."""
        for dependent, entry in list(self._dependents(owner.uid)):
            try:
                await self._cut(self._kinds[dependent.group, dependent.plural].view, entry.metadata(), {owner.uid})
            except NotFound:
                continue
        await self._remove_finalizer(kind.view, owner, ORPHAN)

    async def _foreground(self, kind: Kind, owner: ObjectMeta) -> None:
        """Have the dependents deleted; let the owner go when none is left that blocks it."""
        blocked = False
        for dependent, entry in self._dependents(owner.uid):
            blocked = blocked or any(o.uid == owner.uid and o.block_owner_deletion for o in entry.owners)
            if not entry.deleting:
                self._queue.add(dependent)
        if not blocked:
            await self._remove_finalizer(kind.view, owner, FOREGROUND)

    async def _cut(self, view: View[PartialObjectMetadata], obj: ObjectMeta, uids: set[str] | frozenset[str]) -> None:
        metadata = {
            "uid": obj.uid,
            "resourceVersion": obj.resource_version,
            "ownerReferences": references_without(obj.owner_references, uids),
        }
        await self._patch(view, obj, metadata)

    async def _unblock(self, view: View[PartialObjectMetadata], obj: ObjectMeta) -> None:
        """Let owners go although this dependent exists: owners and dependents would wait for each other."""
        references = unblocked(obj.owner_references)
        body = {"uid": obj.uid, "resourceVersion": obj.resource_version, "ownerReferences": references}
        await self._patch(view, obj, body)

    async def _remove_finalizer(self, view: View[PartialObjectMetadata], obj: ObjectMeta, name: str) -> None:
        left = [finalizer for finalizer in obj.finalizers if finalizer != name]
        metadata = {"uid": obj.uid, "resourceVersion": obj.resource_version, "finalizers": left or None}
        try:
            await self._patch(view, obj, metadata)
        except NotFound:
            return

    async def _patch(self, view: View[PartialObjectMetadata], obj: ObjectMeta, metadata: Mapping[str, object]) -> None:
        await self._client.patch(
            view, obj.name, MergePatch({"metadata": metadata}), namespace=obj.namespace, want="metadata"
        )


def _waits(entry: Entry) -> bool:
    """Return whether an object is being deleted in the foreground."""
    return entry.deleting and FOREGROUND in entry.metadata().finalizers


def _group(owner: OwnerReference) -> str:
    return owner.api_version.rpartition("/")[0]
