"""What the controllers of a running operator share: client, cache, applier, event recorder, clock.

Made by the run loop, used by `Context` and the reconcilers. It keeps no state of objects beyond the cache's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, TypeVar, cast

from steersman.cache import Cache
from steersman.client import Client, NotFound
from steersman.client.options import Preconditions, Propagation
from steersman.controller import Request
from steersman.controller.apply import Applier
from steersman.controller.events import EventRecorder, EventType
from steersman.controller.ownership import owner_reference
from steersman.models import Dynamic, Key, View, dynamic, info_of, lookup, replace, view_of
from steersman.operator.context import Context
from steersman.operator.reach import BARRIER, LabelIndexes, Reach
from steersman.operator.tracing import Tracing
from steersman.telemetry.log import get_logger

__all__ = ["Runtime"]

T = TypeVar("T")


class Runtime:
    """One running operator, as its controllers see it."""

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
        """Off in a dry run, where no write ever comes back."""
        self.stopping = False
        self._log = get_logger("reconcile")

    def reach(self, views: Iterable[View[Any]], whose: str) -> Reach:
        """What a controller, timer or hook may read."""
        return Reach(self.cache, self.indexes, views, whose)

    def context(self, reach: Reach, request: Request | None, owner: Any) -> Context:
        return Context(self, reach, request, owner, self._log)

    async def seen(self, obj: Any, kind: View[Any] | None = None) -> None:
        """Wait until the cache has what a write has just answered, where it watches that kind (C2)."""
        if not self.waits:
            return
        view: View[Any] = kind or _view(obj)
        metadata = obj.metadata
        key = Key(metadata.namespace if view.info.namespaced else "", metadata.name)
        if self.cache.outstanding(view, key):
            await self.cache.read_barrier(view, key, BARRIER)

    async def delete(self, view: View[Any], key: Key, uid: str, propagation: Propagation) -> bool:
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
            await self.cache.read_barrier(view, key, BARRIER)
        return True

    def placed(self, obj: T, owner: Any) -> T:
        """`obj` in the owner's namespace, unless it has one or is cluster-scoped."""
        model = cast(Any, obj)
        if owner is None or not hasattr(model, "__resource__") or not info_of(model).namespaced:
            return obj
        if model.metadata.namespace or not owner.metadata.namespace:
            return obj
        return replace(model, metadata=replace(model.metadata, namespace=owner.metadata.namespace))

    def with_owner(self, obj: T, owner: Any) -> T:
        """`obj` controlled by `owner` (A4)."""
        model = cast(Any, obj)
        references = (*model.metadata.owner_references, owner_reference(owner))
        return replace(model, metadata=replace(model.metadata, owner_references=references))

    def event(self, subject: Any, reason: str, message: str, *, type: EventType, action: str) -> None:
        """Record an Event; see `EventRecorder.event`."""
        self.recorder.event(subject, reason, message, type=type, action=action)


def _view(obj: Any) -> View[Any]:
    if isinstance(obj, Dynamic):
        known = lookup(obj.api_version, obj.kind)
        return view_of(known) if known is not None else dynamic(obj.api_version, obj.kind)
    return view_of(cast("type[Any]", type(obj)))
