"""`Source`: an informer whose changes become keys in the work queue of a controller.

The code runs in the call that processes the watch event, so it is synchronous and short. A change passes if its
predicate raises an exception, and a mapper that raises one is retried with backoff. Neither loses an event, ends the
stream or affects other handlers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from random import Random
from typing import Any

from steersman.controller.backoff import Backoff
from steersman.controller.error_log import ErrorLog
from steersman.controller.mappers import MapperLike, mapper, to_self
from steersman.controller.metrics import ControllerStats
from steersman.controller.predicates import Predicate, PredicateLike
from steersman.controller.predicates import where as where_
from steersman.controller.protocols import Change, Entry, Informer
from steersman.controller.queue import DEFAULT_PRIORITY, LOW_PRIORITY, WorkQueue
from steersman.controller.status_echoes import StatusEchoes
from steersman.models import Key, View
from steersman.telemetry.log import get_logger

__all__ = ["Source", "SourceHandler"]

_MAPPER_BACKOFF = Backoff(base=0.1, cap=60.0)
_MAX_STATES = 16
"""The most states of one object that wait for a failing mapper; older ones are dropped."""


class Source:
    """The changes of one informer, filtered by `where` and mapped by `to`; usable by several controllers.

    `name` is the kind in reasons and logs. Functions in `where` and `to` receive objects in `view`.
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
    """The handler of a source for one controller, which adds keys to its work queue."""

    def __init__(
        self,
        source: Source,
        queue: WorkQueue[Key],
        stats: ControllerStats,
        rng: Random,
        controller: str,
        echoes: StatusEchoes,
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
        self._error_log: ErrorLog | None = None
        self._controller = controller
        self._pending: dict[Key, _PendingMapping] = {}
        self._timer: asyncio.TimerHandle | None = None

    def handle(self, change: Change) -> None:
        """Handle one change; exceptions of users' functions are logged."""
        if self._where is not None:
            try:
                if not self._where(change):
                    return
            except Exception as problem:  # noqa: BLE001 - R1: a failing predicate must not drop events
                self._log_error("predicate", change.key, problem)
        old, new = change.old, change.new
        low = change.initial
        if old is not None and new is not None:
            if old.resource_version == new.resource_version:
                low = True
            elif self._own is not None and not low and self._echoes.matches(new, self._own):
                return
        priority = LOW_PRIORITY if low else DEFAULT_PRIORITY
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
            self._log_error("mapper", state.key, problem)
            self._keep(state, priority, reason)
            return False
        return True

    def _keep(self, state: Entry, priority: int, reason: str) -> None:
        known = self._pending.get(state.key)
        if known is None:
            known = self._pending[state.key] = _PendingMapping(priority, reason)
        known.priority = max(known.priority, priority)
        if all(s is not state for s in known.states):
            known.states.append(state)
            del known.states[:-_MAX_STATES]
        if known.due == inf:
            known.failures += 1
            known.due = asyncio.get_running_loop().time() + _MAPPER_BACKOFF.delay(known.failures, self._rng)
        self._arm()

    def _arm(self) -> None:
        if self._timer is None and self._pending:
            due = min(u.due for u in self._pending.values())
            self._timer = asyncio.get_running_loop().call_at(due, self._retry_pending, due)

    def _retry_pending(self, due: float) -> None:
        self._timer = None
        now = max(due, asyncio.get_running_loop().time())
        for key, unmapped in list(self._pending.items()):
            if unmapped.due <= now:
                states, unmapped.states, unmapped.due = unmapped.states, [], inf
                failed = [s for s in states if not self._map_one(s, unmapped.priority, unmapped.reason)]
                if not failed:
                    del self._pending[key]
        self._arm()

    def close(self) -> None:
        """Stop retrying, because the controller ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._pending.clear()

    def _log_error(self, what: str, key: Key, problem: Exception) -> None:
        self._stats.handler_errors[what] = self._stats.handler_errors.get(what, 0) + 1
        if self._error_log is None:
            self._error_log = ErrorLog(self._log, asyncio.get_running_loop().time)
        self._error_log.log(
            f"{what}_failed",
            f"{what} for {self._name}",
            problem,
            controller=self._controller,
            namespace=key.namespace,
            name=key.name,
        )


class _PendingMapping:
    """The states of an object whose mapper has failed."""

    __slots__ = ("due", "failures", "priority", "reason", "states")

    def __init__(self, priority: int, reason: str) -> None:
        self.states: list[Entry] = []
        self.failures = 0
        self.due = inf
        self.priority = priority
        self.reason = reason
