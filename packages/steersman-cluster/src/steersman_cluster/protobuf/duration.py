"""Go's durations as text ("1h0m0s"), the JSON form of `metav1.Duration`."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

__all__ = ["nanoseconds", "text"]

_UNITS: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")


def nanoseconds(duration: str) -> int:
    """Return the length of a duration; 0 for an invalid text."""
    sign = -1 if duration.startswith("-") else 1
    return sign * int(sum(Decimal(number) * _UNITS[unit] for number, unit in _PART.findall(duration)))


def text(length: int) -> str:
    """Go's text of a duration."""
    if length == 0:
        return "0s"
    sign, length = ("-", -length) if length < 0 else ("", length)
    if length < 10**9:
        unit = next(unit for unit in ("ms", "µs", "ns") if length >= _UNITS[unit])
        return f"{sign}{_plain(length, _UNITS[unit])}{unit}"
    minutes, rest = divmod(length, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_plain(rest, 10**9)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def _plain(length: int, unit: int) -> str:
    text = f"{Decimal(length) / unit:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
