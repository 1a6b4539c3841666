"""`Runtime`: what the controllers of a running operator share: client, cache, applier, event recorder, clock.

The replica creates one; contexts and reconcilers use it. It keeps no state of objects beyond the cache's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, TypeVar

from steersman.cache import Cache
from steersman.client import Client, NotFound
from steersman.client.options import Preconditions, Propagation
from steersman.controller.apply import Applier
from steersman.controller.events import EventRecorder, EventType
from steersman.controller.ownership import owner_reference
from steersman.models import Dynamic, Key, View, dynamic, info_of, lookup, replace, view_of
from steersman.models.resource import view_of_object
from steersman.operator.cache_reader import READ_BARRIER_SECONDS, CacheReader, LabelIndexes
from steersman.operator.tracing import Tracing
from steersman.telemetry.log import get_logger

__all__ = ["Runtime"]

T = TypeVar("T")


class Runtime:
    """The shared parts of one running operator.

    Args:
        client: The client, whose writes need the lease.
        cache: The cache.
        applier: Applies children by server-side apply.
        recorder: Records Events.
        field_manager: The field manager of all writes.
        now: Returns the wall clock time.
        rng: The source of jitter.
        tracing: Records spans; `None` without tracing.
        waits: Whether reads wait for own writes; false in a dry run, whose writes never arrive in the cache.
    """

    def __init__(
        self,
        client: Client,
        cache: Cache,
        applier: Applier,
        recorder: EventRecorder,
        *,
        field_manager: str,
        now: Callable[[], datetime],
        rng: random.Random,
        tracing: Tracing | None = None,
        waits: bool = True,
    ) -> None:
        self.client = client
        self.cache = cache
        self.indexes = LabelIndexes(cache)
        self.applier = applier
        self.recorder = recorder
        self.field_manager = field_manager
        self.now = now
        self.rng = rng
        self.tracing = tracing
        self.waits = waits
        self.stopping = False
        self.log = get_logger("reconcile")

    def reader(self, views: Iterable[View[Any]], user: str) -> CacheReader:
        """Return the reads that a controller, timer or hook declares; `user` names it in errors."""
        return CacheReader(self.cache, self.indexes, views, user)

    async def wait_for_own_write(self, obj: Any, kind: View[Any] | None = None) -> None:
        """Wait until the cache has the result of a write, if it watches the kind (C2)."""
        if not self.waits:
            return
        view: View[Any] = kind or _view(obj)
        metadata = obj.metadata
        key = Key(metadata.namespace if view.info.namespaced else "", metadata.name)
        if self.cache.outstanding(view, key):
            await self.cache.read_barrier(view, key, READ_BARRIER_SECONDS)

    async def delete(self, view: View[Any], key: Key, uid: str, propagation: Propagation) -> bool:
        """Delete an object, with its uid as precondition unless it is empty; returns false if it does not exist."""
        try:
            await self.client.delete(
                view,
                key.name,
                namespace=key.namespace,
                propagation=propagation,
                preconditions=Preconditions(uid=uid) if uid else None,
            )
        except NotFound as missing:
            if missing.kind_is_missing:
                raise
            return False
        finally:
            self.applier.forget(view, key)
        if self.waits and self.cache.outstanding(view, key):
            await self.cache.read_barrier(view, key, READ_BARRIER_SECONDS)
        return True

    def placed(self, obj: T, owner: Any) -> T:
        """Return `obj` in the owner's namespace, unless it has one or is cluster-scoped."""
        model: Any = obj
        if owner is None or not hasattr(model, "__resource__") or not info_of(model).namespaced:
            return obj
        if model.metadata.namespace or not owner.metadata.namespace:
            return obj
        return replace(model, metadata=replace(model.metadata, namespace=owner.metadata.namespace))

    def with_owner(self, obj: T, owner: Any) -> T:
        """Return `obj` with `owner` as its controlling owner (A4)."""
        model: Any = obj
        references = (*model.metadata.owner_references, owner_reference(owner))
        return replace(model, metadata=replace(model.metadata, owner_references=references))

    def event(self, subject: Any, reason: str, message: str, *, type: EventType, action: str) -> None:
        """Record an Event; see `EventRecorder.event`."""
        self.recorder.event(subject, reason, message, type=type, action=action)


def _view(obj: Any) -> View[Any]:
    if isinstance(obj, Dynamic):
        known = lookup(obj.api_version, obj.kind)
        return view_of(known) if known is not None else dynamic(obj.api_version, obj.kind)
    return view_of_object(obj)
