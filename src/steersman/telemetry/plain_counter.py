"""A counter of plain integers: an increment is one addition, and scrapes render it.

The `inc` method of prometheus-client needs four calls and a lock, which every chunk of a watch would need. It is not
thread-safe: one event loop writes, and a scrape may miss one increment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from steersman.telemetry.metrics import REGISTRY

__all__ = ["CounterValue", "PlainCounter"]


class CounterValue:
    """One value of a counter: add to `value`."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class PlainCounter(Collector):
    """A counter with labels; its constructor registers it."""

    def __init__(
        self, name: str, doc: str, labels: Sequence[str] = (), *, registry: CollectorRegistry = REGISTRY
    ) -> None:
        self._name = name
        self._doc = doc
        self._labels = tuple(labels)
        self._counts: dict[tuple[str, ...], CounterValue] = {}
        registry.register(self)

    def labels(self, *values: str) -> CounterValue:
        """Return the value for these labels. Raises `ValueError` for a wrong number of labels."""
        if len(values) != len(self._labels):
            raise ValueError(f"{self._name} has the labels {', '.join(self._labels)}, not {len(values)} of them")
        return self._counts.setdefault(values, CounterValue())

    def describe(self) -> Iterable[Metric]:
        """Return the metric family without values; the registry reserves its name."""
        return [self._family()]

    def collect(self) -> Iterable[Metric]:
        """Yield the metric family for a scrape."""
        family = self._family()
        for values, count in list(
            self._counts.items()
        ):  # copied in one step, because a scrape may run in another thread
            family.add_metric(values, count.value)
        yield family

    def _family(self) -> CounterMetricFamily:
        return CounterMetricFamily(self._name, self._doc, labels=self._labels)
