"""`IntOrString`: a number or a string, usually an absolute count or a percentage.

It is an `int` or a `str` in JSON and in Python; the functions here interpret it.
"""

from __future__ import annotations

import math
import re
from typing import TypeAlias

__all__ = ["IntOrString", "scaled_value"]

IntOrString: TypeAlias = int | str
"""An `int`, or a `str` such as `"25%"` or a port's name."""

_PERCENT = re.compile(r"(\+|-)?[0-9]+%")


def scaled_value(value: IntOrString, total: int, *, round_up: bool) -> int:
    """Return an absolute number, or a percentage of `total` rounded up or down.

    Raises `ValueError` for strings that are not a percentage, such as `"5"`, like Kubernetes.
    """
    if isinstance(value, int):
        return value
    if not _PERCENT.fullmatch(value):
        raise ValueError(f"{value!r} is neither a number nor a percentage such as '25%'")
    share = int(value[:-1]) * total
    return -(-share // 100) if round_up else math.floor(share / 100) if abs(share) < 1 << 50 else share // 100
