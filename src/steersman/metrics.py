"""Metrics of an operator, beside those that Steersman measures; `/metrics` serves both.

    from steersman.metrics import counter

    BACKUPS = counter("shop_backups_total", "Backups that have been completed.", ["shop"])
    BACKUPS.labels("north").inc()

A metric is declared once, at the top level of a module. To declare it again in the same way returns the same metric.

Names follow the conventions of Prometheus: snake_case with a prefix of the application and, for a quantity, the unit in
the plural (`shop_backup_duration_seconds`). The name of a counter ends in `_total`, other names do not. The names of
Steersman's own metrics are reserved. Labels are snake_case and have few values: never the name of each object.

Source: Prometheus documentation, "Metric and label naming".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final, NamedTuple, TypeVar

from prometheus_client import Counter, Gauge, Histogram

from steersman.telemetry.registry import REGISTRY

__all__ = ["REGISTRY", "MetricError", "counter", "gauge", "histogram"]

M = TypeVar("M", Counter, Gauge, Histogram)

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")
_LABEL: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_RESERVED_LABELS: Final = {"le", "quantile"}
_HISTOGRAM_SUFFIXES: Final = ("_bucket", "_count", "_created", "_info", "_sum", "_total")


class MetricError(ValueError):
    """A metric cannot be declared; the message names it and the rule."""


class _Declaration(NamedTuple):
    kind: type
    description: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] | None


_declared: dict[str, tuple[_Declaration, Any]] = {}


def counter(name: str, description: str, labels: Sequence[str] = ()) -> Counter:
    """Declare a counter: a number that only grows.

    Args:
        name: The name, which ends in `_total`.
        description: The meaning of the counter, in one sentence.
        labels: The names of the labels.

    Raises:
        MetricError: A name breaks a rule, or the metric is declared in another way already.
    """
    return _declare(Counter, name, description, labels)


def gauge(name: str, description: str, labels: Sequence[str] = ()) -> Gauge:
    """Declare a gauge: a number that grows and shrinks. Arguments and errors are those of `counter`."""
    return _declare(Gauge, name, description, labels)


def histogram(
    name: str, description: str, labels: Sequence[str] = (), *, buckets: Sequence[float] | None = None
) -> Histogram:
    """Declare a histogram: the distribution of observed values. Errors are those of `counter`.

    Args:
        name: The name, which ends in the unit, such as `_seconds`.
        description: The meaning of the observed values, in one sentence.
        labels: The names of the labels.
        buckets: The upper bounds of the buckets, ascending; by default those of prometheus-client, for seconds.
    """
    return _declare(Histogram, name, description, labels, tuple(buckets) if buckets is not None else None)


def _declare(
    kind: type[M], name: str, description: str, labels: Sequence[str], buckets: tuple[float, ...] | None = None
) -> M:
    declaration = _Declaration(kind, description, tuple(labels), buckets)
    if (known := _declared.get(name)) is not None:
        if known[0] == declaration and isinstance(known[1], kind):
            return known[1]
        raise MetricError(f"metric {name!r} is declared already, in another way: declare it once and import it")
    _check(kind, name, declaration.labels)
    options: dict[str, Any] = {} if buckets is None else {"buckets": buckets}
    try:
        metric = kind(name, description, declaration.labels, registry=None, **options)
    except ValueError as problem:
        raise MetricError(f"metric {name!r}: {problem}") from None
    _framework_modules()
    try:
        REGISTRY.register(metric)
    except ValueError:
        raise MetricError(
            f"metric {name!r}: Steersman has a metric of this name, or another module has registered one; use the "
            "prefix of the application"
        ) from None
    _declared[name] = (declaration, metric)
    return metric


def _framework_modules() -> tuple[ModuleType, ...]:
    """Return the modules whose import registers Steersman's metrics; the registry then refuses their names."""
    from steersman.cache import metrics as cache
    from steersman.client import metrics as client
    from steersman.controller import metrics as controller
    from steersman.operator import metrics as operator
    from steersman.webhook import metrics as webhook

    return cache, client, controller, operator, webhook


def _check(kind: type, name: str, labels: tuple[str, ...]) -> None:
    if not _NAME.fullmatch(name):
        raise MetricError(
            f"metric {name!r}: write snake_case with a prefix of the application, such as shop_backups_total"
        )
    if kind is Counter and not name.endswith("_total"):
        raise MetricError(f"metric {name!r}: the name of a counter ends in _total")
    if kind is not Counter and name.endswith(_HISTOGRAM_SUFFIXES):
        raise MetricError(
            f"metric {name!r}: only counters end in _total, and the format reserves _sum, _count and others"
        )
    for label in labels:
        if not _LABEL.fullmatch(label) or label in _RESERVED_LABELS:
            raise MetricError(f"metric {name!r}: label {label!r}: write snake_case; le and quantile are reserved")
    if len(set(labels)) != len(labels):
        raise MetricError(f"metric {name!r}: a label is repeated: {', '.join(labels)}")
