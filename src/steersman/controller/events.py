"""`EventRecorder`: writes Events of objects (events.k8s.io/v1), which `kubectl describe` shows.

Recording is synchronous and never fails: Events go through a bounded buffer to one task that writes them. An equal
Event within six minutes extends a series, and Events of one object are rate-limited. Events are for people; no code may
depend on their arrival.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from random import Random
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from steersman.client.errors import ApiError, ClientError, NotFound
from steersman.controller.metrics import EVENTS_DROPPED, EVENTS_WRITTEN
from steersman.controller.references import group_version_kind
from steersman.controller.spam_filter import SpamFilter
from steersman.controller.worker import CURRENT_REQUEST
from steersman.models import ObjectMeta
from steersman.models.patches import MergePatch
from steersman.models.times import MicroTime
from steersman.telemetry.clock import Now, utc_now
from steersman.telemetry.log import get_logger

__all__ = ["EventClient", "EventRecorder", "EventType"]

EventType: TypeAlias = Literal["Normal", "Warning"]

_MAX_NOTE_BYTES: Final = 1024
_MAX_NAME_CHARACTERS: Final = 128
_SERIES_IDLE_SECONDS: Final = 360.0
"""A series ends after this many seconds without an Event, as in client-go."""
_SERIES_FLUSH_SECONDS: Final = 30.0
"""A series is written at most this often."""
_MAX_SERIES: Final = 4096
RECONCILE_ID: Final = "steersman.dev/reconcile-id"

_log = get_logger("events")


class EventClient(Protocol):
    """The part of a client that a recorder uses."""

    async def create(self, obj: Any, *, want: Any = "object", timeout: float = 30.0) -> Any:
        """Create an event."""
        ...

    async def patch(
        self,
        kind: Any,
        name: str,
        patch: Any,
        *,
        namespace: str | None = None,
        want: Any = "object",
        timeout: float = 30.0,
    ) -> Any:
        """Patch an event."""
        ...


class _Reference(NamedTuple):
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str


class _Occurrence(NamedTuple):
    regarding: _Reference
    related: _Reference | None
    type: str
    reason: str
    action: str
    note: str
    reconcile_id: str


class _Series:
    __slots__ = ("count", "flushed", "last", "name", "namespace", "seen")

    def __init__(self, name: str, namespace: str, now: float, seen: MicroTime) -> None:
        self.name = name
        self.namespace = namespace
        self.count = 1
        self.last = now
        self.seen = seen
        self.flushed = now - _SERIES_FLUSH_SECONDS  # the first repetition is written at once


class EventRecorder:
    """Records Events; run `run()` as a task.

    Args:
        client: Writes the Events.
        component: The reportingController, a qualified name.
        instance: The reportingInstance, this replica.
        allowed: Called before each write; Events are dropped while it returns false.
        buffer: The most Events that wait; others are dropped and counted.
        now: Returns the wall clock time.
        rng: The source of the names of Events.
    """

    def __init__(
        self,
        client: EventClient,
        component: str,
        instance: str,
        *,
        allowed: Callable[[], bool] = lambda: True,
        buffer: int = 1000,
        now: Now = utc_now,
        rng: Random | None = None,
    ) -> None:
        self._client = client
        self._component = cut(component, _MAX_NAME_CHARACTERS)
        self._instance = cut(instance, _MAX_NAME_CHARACTERS)
        self._allowed = allowed
        self._limit = buffer
        self._now = now
        self._rng = rng or Random()  # noqa: S311 - names of events
        self._waiting: deque[_Occurrence] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._series: OrderedDict[tuple[Any, ...], _Series] = OrderedDict()
        self._dirty: dict[str, _Series] = {}
        """Series, by name, with Events that are not written yet."""
        self._spam = SpamFilter()

    def event(
        self,
        obj: Any,
        reason: str,
        note: str,
        *,
        type: EventType = "Normal",
        action: str = "Reconcile",
        related: Any = None,
    ) -> None:
        """Record an Event; never blocks, and errors of the API server are only logged.

        Args:
            obj: The object that the Event regards.
            reason: A CamelCase word of at most 128 characters.
            note: A sentence, shortened to 1024 bytes.
            type: Normal or Warning.
            action: A CamelCase word of at most 128 characters.
            related: A second object, or `None`.
        """
        if len(self._waiting) >= self._limit:
            EVENTS_DROPPED.labels("buffer_full").inc()
            return
        request = CURRENT_REQUEST.get()
        self._waiting.append(
            _Occurrence(
                _reference(obj),
                _reference(related) if related is not None else None,
                type,
                cut(reason, _MAX_NAME_CHARACTERS),
                cut(action, _MAX_NAME_CHARACTERS),
                cut(note, _MAX_NOTE_BYTES),
                request.reconcile_id if request is not None else "",
            )
        )
        self._idle.clear()
        self._wake.set()

    async def run(self) -> None:
        """Write the recorded Events until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._next_flush()):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            while self._waiting:
                await self._write(self._waiting.popleft())
            await self._flush()
            if not self._waiting:
                self._idle.set()

    async def drain(self, timeout: float = 5.0) -> bool:
        """Wait up to `timeout` seconds until all recorded Events are written; return whether they are."""
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def _write(self, what: _Occurrence) -> None:
        if not self._allowed():
            EVENTS_DROPPED.labels("not_leader").inc()
            return
        now = asyncio.get_running_loop().time()
        key = (*what.regarding[:5], what.related and what.related[:5], what.type, what.reason, what.action, what.note)
        series = self._series.get(key)
        if series is not None and now - series.last < _SERIES_IDLE_SECONDS:
            series.count += 1
            series.last = now
            series.seen = MicroTime.of(self._now())
            self._dirty[series.name] = series
            self._series.move_to_end(key)
            if now - series.flushed >= _SERIES_FLUSH_SECONDS:
                await self._write_series(series, now)
            return
        if not self._spam.allows(what.regarding.uid or what.regarding[:4], now):
            EVENTS_DROPPED.labels("rate_limited").inc()
            return
        await self._create(key, what, now)

    async def _create(self, key: tuple[Any, ...], what: _Occurrence, now: float) -> None:
        from steersman.k8s.events_v1 import Event  # loads the module of built-in kinds only when events are used

        seen = MicroTime.of(self._now())
        namespace = what.regarding.namespace or "default"
        name = f"{what.regarding.name[:230].rstrip('.-') or 'event'}.{self._rng.getrandbits(64):016x}"
        obj = Event(
            metadata=ObjectMeta(
                name=name,
                namespace=namespace,
                annotations={RECONCILE_ID: what.reconcile_id} if what.reconcile_id else {},
            ),
            event_time=seen,
            reporting_controller=self._component,
            reporting_instance=self._instance,
            action=what.action,
            reason=what.reason,
            note=what.note,
            type=what.type,
            regarding=_object_reference(what.regarding),
            related=_object_reference(what.related) if what.related is not None else None,
        )
        if await self._send("create", self._client.create(obj, want="metadata", timeout=10.0)):
            self._series[key] = _Series(name, namespace, now, seen)
            if len(self._series) > _MAX_SERIES:
                _, oldest = self._series.popitem(last=False)
                self._dirty.pop(oldest.name, None)

    async def _write_series(self, series: _Series, now: float) -> None:
        from steersman.k8s.events_v1 import Event

        body = {"series": {"count": series.count, "lastObservedTime": series.seen.__to_wire__()}}
        series.flushed = now
        self._dirty.pop(series.name, None)
        await self._send(
            "patch",
            self._client.patch(
                Event, series.name, MergePatch(body), namespace=series.namespace, want="metadata", timeout=10.0
            ),
        )

    async def _flush(self) -> None:
        """Write the series that are due and remove those that have ended, as client-go does."""
        now = asyncio.get_running_loop().time()
        for series in list(self._dirty.values()):
            if now - series.flushed >= _SERIES_FLUSH_SECONDS and self._allowed():
                await self._write_series(series, now)
        while self._series:  # the series with the oldest last Event is first
            key, series = next(iter(self._series.items()))
            if now - series.last < _SERIES_IDLE_SECONDS:
                break
            del self._series[key]
            self._dirty.pop(series.name, None)

    def _next_flush(self) -> float | None:
        """Return the seconds until a series must be written; `None` if there is none."""
        if not self._dirty:
            return None
        due = min(series.flushed for series in self._dirty.values()) + _SERIES_FLUSH_SECONDS
        return max(0.01, due - asyncio.get_running_loop().time())

    async def _send(self, verb: str, request: Any) -> bool:
        try:
            await request
        except NotFound:
            EVENTS_DROPPED.labels("gone").inc()  # the series' object has expired, or its namespace is gone
            return False
        except ApiError as problem:
            EVENTS_DROPPED.labels("refused").inc()
            _log.warning("event_rejected", error=str(problem))
            return False
        except ClientError as problem:
            EVENTS_DROPPED.labels("unreachable").inc()
            _log.warning("event_write_failed", error=str(problem))
            return False
        EVENTS_WRITTEN.labels(verb).inc()
        return True


def cut(text: str, limit: int) -> str:
    """Return `text` shortened to at most `limit` bytes of UTF-8, with an ellipsis if it was longer."""
    data = text.encode()
    if len(data) <= limit:
        return text
    return data[: limit - 3].decode(errors="ignore") + "…"


def _reference(obj: Any) -> _Reference:
    api_version, kind = group_version_kind(obj)
    m = obj.metadata
    return _Reference(api_version, kind, m.namespace, m.name, m.uid, m.resource_version)


def _object_reference(reference: _Reference) -> Any:
    from steersman.k8s.core_v1 import ObjectReference

    return ObjectReference(
        api_version=reference.api_version,
        kind=reference.kind,
        namespace=reference.namespace or None,
        name=reference.name,
        uid=reference.uid or None,
        resource_version=reference.resource_version or None,
    )
