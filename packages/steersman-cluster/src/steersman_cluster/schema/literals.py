"""Numbers of JSON with the text that they were written in, which refusals quote and quantities keep."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, cast

from steersman_cluster.objects import Object

__all__ = ["Literal", "converted", "exact", "finite", "from_yaml", "plain", "text_of", "whole", "written"]

_INT64: Final = 1 << 63
_EXPONENT_FROM: Final = 1e21
"""From here on Go writes floats with an exponent."""


class Literal(float):
    """A number with a fraction or an exponent, as it was written."""

    __slots__ = ("text",)
    text: str


def exact(text: str) -> Literal:
    """The number with its text; infinite where no float can hold it."""
    value = Literal(text)
    value.text = text
    return value


def finite(text: str) -> float:
    """The number. Raises ValueError, with the text of Go's decoder, where no float can hold it."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"json: cannot unmarshal number {text} into Go value of type float64")
    return value


def whole(text: str) -> int | float:
    """The integer; a float where 64 bits cannot hold it, as in Go's unstructured objects. Raises as `finite` does."""
    value = int(text) if len(text) < 32 else _INT64
    return value if -_INT64 <= value < _INT64 else finite(text)


def from_yaml(value: Any) -> Any:
    """Numbers of YAML as they are after its conversion to JSON: Go writes 1.0 as 1, and 1e18 with all digits."""
    return _replaced(value, written)


def written(value: float) -> int | float:
    """The number as Go writes it: an integer where it is one and needs no exponent."""
    return int(Decimal(repr(value))) if value.is_integer() and abs(value) < _EXPONENT_FROM else value


def converted(value: Any) -> Any:
    """Numbers of an unstructured object as Go converts them to integers: without a fraction, they fit."""
    return _replaced(value, _converted)


def _converted(value: float) -> int | float:
    if not value.is_integer():
        return value
    return int(value) if -_INT64 <= value < _INT64 else -_INT64  # what processors make of an overflow


def text_of(value: float) -> str:
    """The text of a number: as it was written, or as it would be."""
    return value.text if isinstance(value, Literal) else repr(value)


def plain(value: Any) -> Any:
    """A decoded value without literals, in place where it can be. Raises ValueError as `finite` does."""
    return _replaced(value, lambda number: finite(number.text) if isinstance(number, Literal) else number)


def _replaced(value: Any, replace: Callable[[float], int | float]) -> Any:
    """The value with each float replaced, in place where it can be."""
    if isinstance(value, float):
        return replace(value)
    if isinstance(value, dict):
        found = cast(Object, value)
        for key, item in found.items():
            if isinstance(item, dict | list | float):
                found[key] = _replaced(item, replace)
        return found
    if isinstance(value, list):
        items = cast("list[Any]", value)
        for index, item in enumerate(items):
            if isinstance(item, dict | list | float):
                items[index] = _replaced(item, replace)
        return items
    return value
