"""The metrics of informers, by kind and scope. Gauges are computed at each scrape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from steersman.telemetry.metrics import counter, gauge

__all__ = ["InformerMetrics"]

_LABELS: Final = ("kind", "scope")

_objects = gauge("steersman_informer_objects", "Objects in the store", _LABELS)
_bytes = gauge("steersman_informer_stored_bytes", "Bytes of all stored records, compressed", _LABELS)
_last = gauge("steersman_informer_last_event_timestamp_seconds", "Time of the last bytes from the server", _LABELS)
_lag = gauge("steersman_informer_lag_seconds", "Seconds since the last bytes from the server", _LABELS)
_events = counter("steersman_informer_events_total", "Watch events received, bookmarks included", _LABELS)
_relists = counter("steersman_informer_relists_total", "Lists received, the first included", _LABELS)
_failures = counter("steersman_informer_failures_total", "Lists and watches that failed", (*_LABELS, "failure"))
_undecodable = counter("steersman_informer_undecodable_total", "Object versions that do not fit their type", _LABELS)
_handler_errors = counter("steersman_informer_handler_errors_total", "Errors of handlers and index functions", _LABELS)
_waits = counter("steersman_informer_own_write_waits_total", "Reads that waited for an own write", _LABELS)
_waits_lost = counter(
    "steersman_informer_own_write_timeouts_total", "Reads whose wait for an own write timed out", _LABELS
)


class InformerMetrics:
    """The metrics of one informer; `kind` is `Kind.group`, `scope` is empty for all objects of a cluster."""

    __slots__ = (
        "_gauges",
        "_labels",
        "events",
        "handler_errors",
        "own_write_timeouts",
        "own_write_waits",
        "relists",
        "undecodable",
    )

    def __init__(self, kind: str, scope: str) -> None:
        self._labels = labels = (kind, scope)
        self._gauges = False
        self.events = _events.labels(*labels)
        self.relists = _relists.labels(*labels)
        self.undecodable = _undecodable.labels(*labels)
        self.handler_errors = _handler_errors.labels(*labels)
        self.own_write_waits = _waits.labels(*labels)
        self.own_write_timeouts = _waits_lost.labels(*labels)

    def observe(
        self,
        *,
        objects: Callable[[], float],
        stored: Callable[[], float],
        last: Callable[[], float],
        lag: Callable[[], float],
    ) -> None:
        """Register functions that return the gauges at each scrape, until `forget`."""
        self._gauges = True
        for metric, read in ((_objects, objects), (_bytes, stored), (_last, last), (_lag, lag)):
            metric.labels(*self._labels).set_function(read)

    def forget(self) -> None:
        """Remove the gauges of a closed informer."""
        if self._gauges:
            self._gauges = False
            for metric in (_objects, _bytes, _last, _lag):
                metric.remove(*self._labels)

    def failed(self, failure: str) -> None:
        """Count a failed list or watch."""
        _failures.labels(*self._labels, failure).inc()
