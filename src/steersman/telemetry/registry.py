"""The registry of prometheus-client: the metrics of Steersman and those that an operator declares.

A process that declares no metrics of its own does not load this module.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from steersman.telemetry import metrics
from steersman.telemetry.families import Family, Source

__all__ = ["REGISTRY"]

REGISTRY = CollectorRegistry(auto_describe=False)
"""All metrics of Steersman and of operators; `/metrics` serves them."""


class _Collector(Collector):
    """Converts the families of a source."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def describe(self) -> Iterable[Metric]:
        return [_metric(family) for family in self._source.describe()]

    def collect(self) -> Iterable[Metric]:
        return [_metric(family) for family in self._source.collect()]


def _metric(family: Family) -> Metric:
    metric = Metric(family.name, family.documentation, family.kind)
    for sample in family.samples:
        metric.add_sample(sample.name, sample.labels, sample.value)
    return metric


metrics.subscribe(lambda source: REGISTRY.register(_Collector(source)))
