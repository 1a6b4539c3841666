"""The metrics that Steersman measures: plain numbers, which become metric families at each scrape.

Names and labels are those of controller-runtime and client-go if they have them, so that existing dashboards work.
Hot paths call `.labels(…)` once and keep the result.

An increment is one addition; that of prometheus-client needs four calls and a lock. The package is loaded only for
metrics that an operator declares itself, because it takes a tenth of the memory of an idle operator (`registry`). The
values are not thread-safe: one thread writes each of them, and a scrape may miss one increment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from steersman.telemetry.families import Family, Kind, Source
from steersman.telemetry.histogram import Histogram

__all__ = [
    "DEFAULT_BUCKETS",
    "Metric",
    "Number",
    "collect",
    "counter",
    "gauge",
    "histogram",
    "register",
    "subscribe",
]

DEFAULT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)

V = TypeVar("V")


class Number:
    """The value of a counter or gauge for one combination of labels; counters only add to it."""

    __slots__ = ("read", "value")

    def __init__(self) -> None:
        self.value: float = 0
        self.read: Callable[[], float] | None = None

    def inc(self, amount: float = 1) -> None:
        """Add an amount."""
        self.value += amount

    def dec(self, amount: float = 1) -> None:
        """Subtract an amount."""
        self.value -= amount

    def set(self, value: float) -> None:
        """Replace the value."""
        self.value = value

    def set_function(self, read: Callable[[], float]) -> None:
        """Call `read` for the value at each scrape."""
        self.read = read

    def current(self) -> float:
        """Return the value for a scrape."""
        return self.value if self.read is None else self.read()


class Metric(Generic[V]):
    """The values of a metric by labels; `counter`, `gauge` and `histogram` declare one."""

    def __init__(self, kind: Kind, name: str, doc: str, labels: Sequence[str], make: Callable[[], V]) -> None:
        self.kind: Kind = kind
        self._name = name.removesuffix("_total") if kind == "counter" else name
        self._doc = doc
        self._labels = tuple(labels)
        self._make = make
        self._values: dict[tuple[str, ...], V] = {} if labels else {(): make()}

    def labels(self, *values: str) -> V:
        """Return the value for these labels. Raises `ValueError` for a wrong number of labels."""
        found = self._values.get(values)
        if found is None:
            if len(values) != len(self._labels):
                raise ValueError(f"{self._name} has the labels {', '.join(self._labels)}, not {len(values)} of them")
            found = self._values.setdefault(values, self._make())
        return found

    def remove(self, *values: str) -> None:
        """Forget the value for these labels."""
        self._values.pop(values, None)

    def describe(self) -> Sequence[Family]:
        """Return the family without values; the registry reserves its name."""
        return [Family(self.kind, self._name, self._doc, self._labels)]

    def collect(self) -> Sequence[Family]:
        """Return the family with its values."""
        (family,) = self.describe()
        # Copied in one step, because a scrape may run in another thread.
        for labels, value in list(self._values.items()):
            if isinstance(value, Number):
                family.add(labels, value.current())
            elif isinstance(value, Histogram):
                family.add_histogram(labels, value.buckets(), value.total)
        return [family]


_declared: dict[str, Metric[Any]] = {}
_sources: list[Source] = []
_subscribers: list[Callable[[Source], None]] = []


def register(source: Source) -> None:
    """Add a source of metrics to every scrape."""
    _sources.append(source)
    for tell in _subscribers:
        tell(source)


def subscribe(tell: Callable[[Source], None]) -> None:
    """Call a function with every registered source, those of the future included."""
    for source in _sources:
        tell(source)
    _subscribers.append(tell)


def collect() -> list[Family]:
    """Return the families of all sources with their values."""
    return [family for source in list(_sources) for family in source.collect()]


def _once(kind: Kind, name: str, doc: str, labels: Sequence[str], make: Callable[[], V]) -> Metric[V]:
    known = _declared.get(name)
    if known is None:
        known = _declared[name] = Metric(kind, name, doc, labels, make)
        register(known)
    elif known.kind != kind:
        raise ValueError(f"metric {name!r} is already declared as a {known.kind}")
    return known


def counter(name: str, doc: str, labels: Sequence[str] = ()) -> Metric[Number]:
    """Return a counter; a repeated name returns the same counter. Without labels its value is `labels()`."""
    return _once("counter", name, doc, labels, Number)


def gauge(name: str, doc: str, labels: Sequence[str] = ()) -> Metric[Number]:
    """Return a gauge; a repeated name returns the same gauge. Without labels its value is `labels()`."""
    return _once("gauge", name, doc, labels, Number)


def histogram(
    name: str, doc: str, labels: Sequence[str] = (), buckets: Sequence[float] = DEFAULT_BUCKETS
) -> Metric[Histogram]:
    """Return a histogram, in seconds unless its name has another unit; a repeated name returns the same histogram."""
    return _once("histogram", name, doc, labels, lambda: Histogram(buckets))
