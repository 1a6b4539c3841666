"""The process's metrics registry and factories that declare a metric once.

Names and labels are controller-runtime's and client-go's where they have them, so that existing dashboards work.
Hot paths call `.labels(…)` once and keep the child.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

__all__ = ["REGISTRY", "counter", "gauge", "histogram"]

REGISTRY = CollectorRegistry(auto_describe=False)
"""Everything Steersman measures, and what `/metrics` serves; operators add their own metrics to it."""

_declared: dict[str, Any] = {}
M = TypeVar("M", Counter, Gauge, Histogram)


def _once(kind: type[M], name: str, doc: str, labels: Sequence[str], **options: Any) -> M:
    known = _declared.get(name)
    if known is None:
        known = _declared[name] = kind(name, doc, tuple(labels), registry=REGISTRY, **options)
    elif not isinstance(known, kind):
        raise ValueError(f"metric {name!r} is already declared as a {type(known).__name__.lower()}")
    return known


def counter(name: str, doc: str, labels: Sequence[str] = ()) -> Counter:
    """A counter; declaring the same name again returns the first."""
    return _once(Counter, name, doc, labels)


def gauge(name: str, doc: str, labels: Sequence[str] = ()) -> Gauge:
    """A gauge; declaring the same name again returns the first."""
    return _once(Gauge, name, doc, labels)


def histogram(name: str, doc: str, labels: Sequence[str] = (), buckets: Sequence[float] | None = None) -> Histogram:
    """A histogram in seconds unless its name says otherwise; declaring the same name again returns the first."""
    options: dict[str, Any] = {} if buckets is None else {"buckets": tuple(buckets)}
    return _once(Histogram, name, doc, labels, **options)
