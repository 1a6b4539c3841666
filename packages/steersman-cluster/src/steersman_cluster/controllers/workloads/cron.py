"""Cron schedules: when a line such as `*/5 9-17 * * mon-fri` is due, in any time zone.

Five fields (minute, hour, day of month, month, day of week) with lists, ranges, steps and names, words such as
`@daily`, and `@every 1h30m`, as the standard parser of robfig/cron reads them, which Kubernetes uses. Sunday is 0 and
not 7. Day of month and day of week are alternatives when both are restricted: a field with `*` or `?` is not, but one
with a step such as `*/2` is. Times that a clock skips when daylight saving begins are not due; those it passes twice
are due once.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from steersman.operator.settings import parse_duration

__all__ = ["Schedule", "ScheduleError", "parse", "zone_of"]

_WORDS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS: Final = {
    "jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6,
    "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
}  # fmt: skip
_DAYS: Final = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_FIELDS: Final[tuple[tuple[str, int, int, dict[str, int]], ...]] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 6, _DAYS),
)
_MAX_SEARCH_DAYS: Final = 366 * 5


class ScheduleError(ValueError):
    """The schedule is invalid; the message names the field."""


def zone_of(name: str | None) -> tzinfo:
    """Return the time zone of a name, UTC without one. Raises `ScheduleError` for an unknown name."""
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ScheduleError(f"unknown time zone {name}") from None


class Schedule:
    """A parsed line; `next(after)` is the first time that is due after another."""

    def __init__(
        self, fields: tuple[frozenset[int], ...], restricted: tuple[bool, bool], zone: tzinfo, every: timedelta | None
    ) -> None:
        self._minutes, self._hours, self._days, self._months, self._weekdays = fields
        self._restricted = restricted
        self._zone = zone
        self._every = every

    def next(self, after: datetime) -> datetime | None:
        """The first due time after `after`, in UTC; `None` when there is none in the next five years."""
        if self._every is not None:
            return after.replace(microsecond=0) + self._every
        for due in self._from(after.astimezone(self._zone)):
            if due > after:
                return due
        return None

    def latest(self, after: datetime, until: datetime) -> tuple[datetime | None, int]:
        """The last due time after `after` and not later than `until`, and how many there were (101 is "many")."""
        if self._every is not None:
            missed = int((until - after) / self._every)
            return (after + missed * self._every if missed > 0 else None), min(missed, 101)
        latest: datetime | None = None
        count = 0
        at = after
        while (following := self.next(at)) is not None and following <= until:
            latest, at, count = following, following, count + 1
            if count > 100:  # far behind: only the last one matters
                at = max(at, until - timedelta(days=1))
        return latest, min(count, 101)

    def _from(self, start: datetime) -> Iterator[datetime]:
        day = start.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        for _ in range(_MAX_SEARCH_DAYS):
            if day.month in self._months and self._due_on(day):
                for hour in sorted(self._hours):
                    for minute in sorted(self._minutes):
                        local = day.replace(hour=hour, minute=minute)
                        moment = local.astimezone(UTC)
                        skipped = moment.astimezone(self._zone).replace(tzinfo=None) != local.replace(tzinfo=None)
                        if not skipped:
                            yield moment
            day = (day.replace(tzinfo=None) + timedelta(days=1)).replace(tzinfo=self._zone)

    def _due_on(self, day: datetime) -> bool:
        of_month, of_week = day.day in self._days, (day.weekday() + 1) % 7 in self._weekdays
        return of_month or of_week if all(self._restricted) else of_month and of_week


def parse(line: str, zone: tzinfo = UTC) -> Schedule:
    """Read a schedule; raises `ScheduleError`."""
    line = line.strip()
    for prefix in ("TZ=", "CRON_TZ="):
        if line.startswith(prefix):
            name, _, line = line.removeprefix(prefix).partition(" ")
            zone = zone_of(name)
            line = line.strip()
    if line.startswith("@every "):
        try:
            seconds = int(parse_duration(line.removeprefix("@every ")))
        except ValueError as problem:
            raise ScheduleError(str(problem)) from None
        every = timedelta(seconds=max(1, seconds))
        nothing: frozenset[int] = frozenset()
        return Schedule((nothing,) * 5, (False, False), zone, every)
    parts = _WORDS.get(line, line).split()
    if len(parts) != 5:
        raise ScheduleError(f"expected exactly 5 fields, found {len(parts)}: {line!r}")
    found = [_field(text, *field) for text, field in zip(parts, _FIELDS, strict=True)]
    restricted = (not found[2][1], not found[4][1])
    return Schedule(tuple(values for values, _ in found), restricted, zone, None)


def _field(text: str, name: str, low: int, high: int, words: dict[str, int]) -> tuple[frozenset[int], bool]:
    """Return the values of a field, and whether it is unrestricted."""
    found: set[int] = set()
    unrestricted = False
    for part in filter(None, text.split(",")):
        span, slash, step_text = part.partition("/")
        step = _number(step_text, name, {}) if slash else 1
        if step == 0:
            raise ScheduleError(f"{name}: step of {part!r} must be more than 0")
        start, dash, end = span.partition("-")
        if start in ("*", "?"):
            first, last = low, high
            unrestricted = unrestricted or step == 1
        else:
            first = _number(start, name, words)
            last = _number(end, name, words) if dash else (high if slash else first)
        if first < low or last > high or first > last:
            raise ScheduleError(f"{name}: {part!r} is not within {low}-{high}")
        found.update(range(first, last + 1, step))
    return frozenset(found), unrestricted


def _number(text: str, name: str, words: dict[str, int]) -> int:
    value = words.get(text.lower())
    if value is not None:
        return value
    if not text.removeprefix("+").isdecimal():
        raise ScheduleError(f"{name}: {text!r} is not a number")
    return int(text)
