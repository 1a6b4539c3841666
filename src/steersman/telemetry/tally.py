"""A counter of plain integers: counting is one addition, rendering happens at scrape time.

prometheus-client's own `inc` is four calls and a lock, which a watch's every chunk would pay. Not thread-safe: one loop
writes, and a scrape may be one addition behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from steersman.telemetry.metrics import REGISTRY

__all__ = ["Count", "Tally"]


class Count:
    """One number of a tally: add to `value`."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Tally(Collector):
    """A counter with labels, served by the registry from its construction on."""

    def __init__(
        self, name: str, doc: str, labels: Sequence[str] = (), *, registry: CollectorRegistry = REGISTRY
    ) -> None:
        self._name = name
        self._doc = doc
        self._labels = tuple(labels)
        self._counts: dict[tuple[str, ...], Count] = {}
        registry.register(self)

    def labels(self, *values: str) -> Count:
        """The number for these values of the labels; raises `ValueError` when they are too many or too few."""
        if len(values) != len(self._labels):
            raise ValueError(f"{self._name} has the labels {', '.join(self._labels)}, not {len(values)} of them")
        return self._counts.setdefault(values, Count())

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(self._name, self._doc, labels=self._labels)
        for values, count in list(self._counts.items()):  # in one step: a scrape may come from another thread
            family.add_metric(values, count.value)
        yield family
