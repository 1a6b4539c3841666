"""What the controllers of a running operator share: client, cache, applier, event recorder, clock.

Made by the run loop, used by `Context` and the reconcilers. It keeps no state of objects beyond the cache's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, TypeVar, cast

from steersman.cache import Cache, NotCached
from steersman.client import Client, NotFound
from steersman.client.options import Preconditions, Propagation
from steersman.controller import Request
from steersman.controller.apply import Applier
from steersman.controller.events import EventRecorder, EventType
from steersman.controller.live import CachedState
from steersman.controller.ownership import owner_reference
from steersman.models import GVK, Dynamic, Key, View, dynamic, info_of, lookup, replace, view_of
from steersman.operator.context import Context
from steersman.operator.tracing import Tracing
from steersman.telemetry.log import get_logger

__all__ = ["Reach", "Runtime"]

T = TypeVar("T")

BARRIER = 5.0
"""Seconds that a read waits at most for the echo of an own write."""


class Reach:
    """Which kinds one controller may read from the cache: those it declares, whose sync it awaits (C3, C6)."""

    def __init__(self, cache: Cache, views: Iterable[View[Any]], whose: str) -> None:
        self._cache = cache
        self._whose = whose
        self.views = tuple(views)
        self._kinds: frozenset[GVK] = frozenset(v.info.gvk for v in self.views)

    def get(self, view: View[T], key: Key) -> T | None:
        self._check(view)
        return self._cache.get(view, key)

    def list(self, view: View[T], namespace: str, labels: Any, owner: str | None) -> tuple[T, ...]:
        self._check(view)
        if isinstance(labels, dict) or (
            labels is not None and not isinstance(labels, str) and hasattr(labels, "items")
        ):
            labels = ",".join(f"{name}={value}" for name, value in cast("dict[str, str]", labels).items())
        return self._cache.list(view, namespace=namespace or None, labels=labels, owner=owner)

    def _check(self, view: View[Any]) -> None:
        if view.info.gvk not in self._kinds:
            raise NotCached(
                f"{self._whose} does not declare {view.info.kind}: add it to reads=[…], or read it from the API server"
                f" with `await ctx.fetch(…)`"
            )

    async def settled(self) -> None:
        """Wait until reads of these kinds are no older than any write of ours that has ended (C2)."""
        for view in self.views:
            if self._cache.outstanding(view):
                await self._cache.read_barrier(view, timeout=BARRIER)


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
        self.live = CachedState(cache)
        self.applier = applier
        self.recorder = recorder
        self.field_manager = field_manager
        self.now = now
        self.rng = rng
        self.tracing = tracing
        self.waits = waits
        """Off in a dry run, where no write ever comes back."""
        self.stopping = False

    def context(self, reach: Reach, request: Request | None, owner: Any) -> Context:
        return Context(self, reach, request, owner, get_logger("reconcile"))

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
                key.namespace or None,
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
