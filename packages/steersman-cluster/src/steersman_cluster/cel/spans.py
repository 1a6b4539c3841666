"""Saturating arithmetic: results above 64 bits are the maximum."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

__all__ = ["MAX_UINT64", "UNKNOWN", "Span", "fixed", "plus", "scaled", "times"]

MAX_UINT64: Final = 2**64 - 1


class Span(NamedTuple):
    """A size between two bounds."""

    least: int
    most: int

    def union(self, other: Span) -> Span:
        """Return the smallest span that contains both."""
        return Span(min(self.least, other.least), max(self.most, other.most))

    def add(self, other: Span) -> Span:
        """Return the range of the sums of values of two ranges."""
        return Span(plus(self.least, other.least), plus(self.most, other.most))

    def multiply(self, other: Span) -> Span:
        """Return the range of the products of values of two ranges."""
        return Span(times(self.least, other.least), times(self.most, other.most))


UNKNOWN: Final = Span(0, MAX_UINT64)


def fixed(size: int) -> Span:
    """Return the span of a known size."""
    return Span(size, size)


def plus(left: int, right: int) -> int:
    """Return the sum, at most `MAX_UINT64`."""
    return min(left + right, MAX_UINT64)


def times(left: int, right: int) -> int:
    """Return the product, at most `MAX_UINT64`."""
    return min(left * right, MAX_UINT64)


def scaled(size: int, factor: float) -> int:
    """`size * factor` as a float, rounded up."""
    product = float(size) * factor
    return MAX_UINT64 if product >= 2.0**64 else math.ceil(product)
