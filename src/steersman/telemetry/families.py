"""Metric families: the values of a scrape before they are written in a format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

__all__ = ["Family", "Kind", "Sample", "Source"]

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]


class Sample(NamedTuple):
    """One line of a scrape."""

    name: str
    labels: dict[str, str]
    value: float


class Family:
    """One metric with its samples. The name of a counter is given without `_total`, which its samples have."""

    __slots__ = ("documentation", "kind", "labels", "name", "samples")

    def __init__(self, kind: Kind, name: str, documentation: str, labels: Sequence[str] = ()) -> None:
        self.kind: Kind = kind
        self.name = name
        self.documentation = documentation
        self.labels = tuple(labels)
        self.samples: list[Sample] = []

    def add(self, labels: Sequence[str], value: float) -> None:
        """Add the value of a counter or gauge for some values of the labels."""
        name = f"{self.name}_total" if self.kind == "counter" else self.name
        self.samples.append(Sample(name, self._labels(labels), value))

    def add_histogram(self, labels: Sequence[str], buckets: Sequence[tuple[str, float]], total: float) -> None:
        """Add a histogram for some values of the labels.

        Args:
            labels: The values of the labels.
            buckets: The upper bounds and the cumulative counts; the last bound is `+Inf`.
            total: The sum of the observed values.
        """
        own = self._labels(labels)
        for bound, count in buckets:
            self.samples.append(Sample(f"{self.name}_bucket", {**own, "le": bound}, count))
        self.samples.append(Sample(f"{self.name}_count", own, buckets[-1][1]))
        self.samples.append(Sample(f"{self.name}_sum", own, total))

    def _labels(self, values: Sequence[str]) -> dict[str, str]:
        return dict(zip(self.labels, values, strict=True))


class Source(Protocol):
    """A group of metrics whose values are read at each scrape, possibly in another thread."""

    def describe(self) -> Sequence[Family]:
        """Return the families without values; the registry reserves their names."""
        ...

    def collect(self) -> Sequence[Family]:
        """Return the families with their values."""
        ...
