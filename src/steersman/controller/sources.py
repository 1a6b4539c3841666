"""`Source`: what a controller watches, and how a change of it becomes keys in the work queue.

Runs inside the pass that reads the watch, so it is synchronous and short. An exception in a predicate lets the
change pass, one in a mapper is retried with backoff: neither loses an event, ends a stream or stops its neighbours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from random import Random
from typing import Any

from steersman.controller.complaints import Complaints
from steersman.controller.echoes import Echoes
from steersman.controller.mappers import MapperLike, mapper, to_self
from steersman.controller.metrics import ControllerStats
from steersman.controller.predicates import Predicate, PredicateLike
from steersman.controller.predicates import where as where_
from steersman.controller.protocols import Change, Entry, Informer
from steersman.controller.queue import FRESH, LOW_PRIORITY, WorkQueue
from steersman.controller.rate import Backoff
from steersman.models import Key, View
from steersman.telemetry.log import get_logger

__all__ = ["Source", "SourceHandler"]

_RETRY_MAPPING = Backoff(base=0.1, cap=60.0)
_MAX_STATES = 16
"""States kept of one object whose mapper fails; the latest ones, since a mapper fails on all or none as a rule."""


class Source:
    """Changes of one informer, filtered by `where`, mapped by `to`.

    `name` is the kind as people know it, for reasons and logs; `view` is how functions among `where` and `to` see
    objects. A source may be given to several controllers.
    """

    def __init__(
        self,
        informer: Informer,
        *,
        name: str,
        to: MapperLike = to_self,
        where: PredicateLike | None = None,
        view: View[Any] | None = None,
    ) -> None:
        self.informer = informer
        self.name = name
        self.to = to
        self.where = where
        self.view = view

    def __repr__(self) -> str:
        return f"<source {self.name} to={self.to!r} where={self.where!r}>"


class SourceHandler:
    """The live end of a source for one controller: `hear` is what its informer calls."""

    def __init__(
        self,
        source: Source,
        queue: WorkQueue[Key],
        stats: ControllerStats,
        rng: Random,
        controller: str,
        echoes: Echoes,
    ) -> None:
        self.source = source
        self._name = source.name
        self._add = queue.add
        self._stats = stats
        self._rng = rng
        self._to_self = source.to is to_self
        self._echoes = echoes
        typed = source.view is not None and source.view.form == "typed"
        self._own = source.view if typed and self._to_self else None
        self._map = mapper(source.to, source.view)
        self._where: Callable[[Change], bool] | None = None
        if source.where is not None:
            predicate = source.where if isinstance(source.where, Predicate) else where_(source.where)
            self._where = predicate.compile(source.view)
        self._reasons = {kind: f"{source.name} {kind}" for kind in ("add", "update", "delete")}
        self._log = get_logger("controller")
        self._complaints: Complaints | None = None
        self._controller = controller
        self._unmapped: dict[Key, _Unmapped] = {}
        self._timer: asyncio.TimerHandle | None = None

    def hear(self, change: Change) -> None:
        """Handle one change. Raises nothing that a user's function raised."""
        if self._where is not None:
            try:
                if not self._where(change):
                    return
            except Exception as problem:  # noqa: BLE001 - R1: a broken predicate must not swallow events
                self._complain("predicate", change.key, problem)
        old, new = change.old, change.new
        low = change.initial
        if old is not None and new is not None:
            if old.resource_version == new.resource_version:
                low = True
            elif self._own is not None and not low and self._echoes.brings(new, self._own):
                return
        priority = LOW_PRIORITY if low else FRESH
        reason = self._reasons[change.type]
        if self._to_self:
            self._add(change.key, priority, reason)
            return
        for state in (new, old):
            if state is not None:
                self._map_one(state, priority, reason)

    def _map_one(self, state: Entry, priority: int, reason: str) -> bool:
        try:
            for key in self._map(state):
                self._add(key, priority, reason)
        except Exception as problem:  # noqa: BLE001 - R1: retried below
            self._complain("mapper", state.key, problem)
            self._keep(state, priority, reason)
            return False
        return True

    def _keep(self, state: Entry, priority: int, reason: str) -> None:
        known = self._unmapped.get(state.key)
        if known is None:
            known = self._unmapped[state.key] = _Unmapped(priority, reason)
        known.priority = max(known.priority, priority)
        if all(s is not state for s in known.states):
            known.states.append(state)
            del known.states[:-_MAX_STATES]
        if known.due == inf:
            known.failures += 1
            known.due = asyncio.get_running_loop().time() + _RETRY_MAPPING.delay(known.failures, self._rng)
        self._arm()

    def _arm(self) -> None:
        if self._timer is None and self._unmapped:
            due = min(u.due for u in self._unmapped.values())
            self._timer = asyncio.get_running_loop().call_at(due, self._again, due)

    def _again(self, due: float) -> None:
        self._timer = None
        now = max(due, asyncio.get_running_loop().time())
        for key, unmapped in list(self._unmapped.items()):
            if unmapped.due <= now:
                states, unmapped.states, unmapped.due = unmapped.states, [], inf
                failed = [s for s in states if not self._map_one(s, unmapped.priority, unmapped.reason)]
                if not failed:
                    del self._unmapped[key]
        self._arm()

    def close(self) -> None:
        """Stop retrying; the controller is going away."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._unmapped.clear()

    def _complain(self, what: str, key: Key, problem: Exception) -> None:
        self._stats.handler_errors[what] = self._stats.handler_errors.get(what, 0) + 1
        if self._complaints is None:
            self._complaints = Complaints(self._log, asyncio.get_running_loop().time)
        self._complaints.raised(
            f"{what} for {self._name}",
            problem,
            controller=self._controller,
            namespace=key.namespace,
            name=key.name,
        )


class _Unmapped:
    """States of an object that no mapper could map yet."""

    __slots__ = ("due", "failures", "priority", "reason", "states")

    def __init__(self, priority: int, reason: str) -> None:
        self.states: list[Entry] = []
        self.failures = 0
        self.due = inf
        self.priority = priority
        self.reason = reason
