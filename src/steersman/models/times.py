"""Times and durations in the notation of Kubernetes: RFC 3339, with microseconds for `MicroTime`, and `1h30m`.

Plain `datetime` fields are `metav1.Time`. `MicroTime` and `Duration` have JSON forms of their own.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Final

__all__ = ["Duration", "MicroTime", "format_duration", "format_time", "parse_duration", "parse_time"]

_RFC3339: Final = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:[.,](\d+))?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def parse_time(text: str) -> datetime:
    """Parse an RFC 3339 time as UTC; digits beyond microseconds are dropped. Raises `ValueError`."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an RFC 3339 time such as '2026-01-31T12:00:00Z'")
    day, clock, fraction, zone = match.groups()
    offset = "+00:00" if zone in "Zz" else zone
    try:
        return datetime.fromisoformat(f"{day}T{clock}.{(fraction or '0')[:6]:<06}{offset}").astimezone(UTC)
    except (ValueError, OverflowError) as problem:
        raise ValueError(f"{text!r} is not a time: {problem}") from None


def _in_utc(when: datetime) -> datetime:
    if when.tzinfo is None:
        raise ValueError(f"{when!r} has no time zone: pass an aware datetime, for example datetime.now(UTC)")
    return when.astimezone(UTC)


def format_time(when: datetime) -> str:
    """Format as RFC 3339 in UTC with whole seconds, like `metav1.Time`. Raises `ValueError` for naive times."""
    return _in_utc(when).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


class MicroTime(datetime):
    """A time that is always written with six decimals, because Go's `MicroTime` parses no other format."""

    @classmethod
    def of(cls, when: datetime) -> MicroTime:
        """Return the same time as a `MicroTime`. Raises `ValueError` for naive times."""
        utc = _in_utc(when)
        return cls(utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second, utc.microsecond, UTC)

    def __to_wire__(self) -> str:
        utc = _in_utc(self)
        return f"{utc.strftime('%Y-%m-%dT%H:%M:%S').rjust(19, '0')}.{utc.microsecond:06d}Z"

    @classmethod
    def __from_wire__(cls, value: object) -> MicroTime:
        if not isinstance(value, str):
            raise ValueError(f"a time is a string, not {value!r}")
        return cls.of(parse_time(value))


_UNITS: Final = {
    "ns": Fraction(1, 1000), "us": Fraction(1), "µs": Fraction(1), "μs": Fraction(1), "ms": Fraction(1000),
    "s": Fraction(1_000_000), "m": Fraction(60_000_000), "h": Fraction(3_600_000_000),
}  # fmt: skip
_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_DURATION: Final = re.compile(rf"[+-]?(?:0|(?:{_PART.pattern})+)", re.ASCII)
_LIMIT: Final = timedelta(microseconds=(2**63 - 1) // 1000)


def parse_duration(text: str) -> timedelta:
    """Parse Go's notation (`1h30m`, `1.5s`, `-2ms`); nanoseconds are rounded to microseconds towards zero.

    Raises `ValueError` for invalid text, and beyond Go's range of about 292 years.
    """
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration such as '90s', '1h30m' or '500ms'")
    total = sum((Fraction(n.rstrip(".")) * _UNITS[unit] for n, unit in _PART.findall(text)), Fraction(0))
    if total > Fraction(2**63 - 1, 1000):
        raise ValueError(f"{text!r} is longer than Go's longest duration (about 292 years)")
    micros = int(total)
    return timedelta(microseconds=-micros if text.startswith("-") else micros)


def format_duration(value: timedelta) -> str:
    """Format in Go's notation: `1h30m0s`, `1.5s`, `250ms`, `0s`."""
    micros = value // timedelta(microseconds=1)
    sign, micros = ("-" if micros < 0 else ""), abs(micros)
    if micros == 0:
        return "0s"
    if micros < 1000:
        return f"{sign}{micros}µs"
    if micros < 1_000_000:
        return f"{sign}{_decimal(micros, 1000)}ms"
    minutes, rest = divmod(micros, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_decimal(rest, 1_000_000)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    if not rest:
        return str(whole)
    return f"{whole}.{str(rest).rjust(len(str(unit)) - 1, '0').rstrip('0')}"


class Duration(timedelta):
    """A `timedelta` in Go's notation: `Duration("1h30m")`, `Duration(seconds=90)`."""

    def __new__(cls, text: str | None = None, **parts: float) -> Duration:
        """Parse a text such as `"1h30m"`, or build the duration from the arguments of `timedelta`."""
        if text is None:
            return super().__new__(cls, **parts)
        return cls.of(parse_duration(text))

    @classmethod
    def of(cls, value: timedelta) -> Duration:
        """Return the same duration as a `Duration`."""
        return super().__new__(cls, value.days, value.seconds, value.microseconds)

    def __str__(self) -> str:
        return format_duration(self)

    def __repr__(self) -> str:
        return f"Duration({format_duration(self)!r})"

    def __reduce__(self) -> tuple[type[Duration], tuple[str]]:
        return Duration, (str(self),)

    def __to_wire__(self) -> str:
        return format_duration(self)

    @classmethod
    def __from_wire__(cls, value: object) -> Duration:
        if not isinstance(value, str):
            raise ValueError(f"a duration is a string such as '90s', not {value!r}")
        return cls(value)
