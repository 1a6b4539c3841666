"""Gauges of a cluster, which are removed with the cluster."""

from __future__ import annotations

from collections.abc import Collection

from prometheus_client import Gauge
from steersman import Key

__all__ = ["GAUGES", "ClusterGauges"]


class ClusterGauges:
    """Remembers which gauges have a value for a cluster."""

    def __init__(self) -> None:
        """Start without a gauge."""
        self._known: dict[Key, set[tuple[Gauge, tuple[str, ...]]]] = {}

    def set(self, key: Key, gauge: Gauge, value: float, *labels: str) -> None:
        """Set a gauge whose first labels are namespace and name of the cluster."""
        gauge.labels(key.namespace, key.name, *labels).set(value)
        self._known.setdefault(key, set()).add((gauge, labels))

    def forget(self, key: Key, *gauges: Gauge) -> None:
        """Remove these gauges of a cluster, or all its gauges if none is given."""
        known = self._known.get(key, set())
        for each in [each for each in known if not gauges or each[0] in gauges]:
            gauge, labels = each
            gauge.remove(key.namespace, key.name, *labels)
            known.discard(each)
        if not known:
            self._known.pop(key, None)

    def keep(self, keys: Collection[Key]) -> tuple[Key, ...]:
        """Remove the gauges of all clusters except `keys`, and return the removed clusters."""
        gone = tuple(key for key in self._known if key not in keys)
        for key in gone:
            self.forget(key)
        return gone


GAUGES = ClusterGauges()
"""The gauges of this process."""
