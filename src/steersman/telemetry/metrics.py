"""The metrics registry of the process, and functions that declare metrics.

Names and labels are those of controller-runtime and client-go if they have them, so that existing dashboards work.
Hot paths call `.labels(…)` once and keep the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

__all__ = ["REGISTRY", "counter", "gauge", "histogram"]

REGISTRY = CollectorRegistry(auto_describe=False)
"""All metrics of Steersman and of operators; `/metrics` serves them."""

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
    """Return a counter; a repeated name returns the same counter."""
    return _once(Counter, name, doc, labels)


def gauge(name: str, doc: str, labels: Sequence[str] = ()) -> Gauge:
    """Return a gauge; a repeated name returns the same gauge."""
    return _once(Gauge, name, doc, labels)


def histogram(name: str, doc: str, labels: Sequence[str] = (), buckets: Sequence[float] | None = None) -> Histogram:
    """Return a histogram, in seconds unless its name has another unit; a repeated name returns the same histogram."""
    options: dict[str, Any] = {} if buckets is None else {"buckets": tuple(buckets)}
    return _once(Histogram, name, doc, labels, **options)
