"""Validation of cron schedules: five fields or a descriptor, with the error texts of the Go parser."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo

__all__ = ["schedule_error", "time_zone_error"]

_DESCRIPTORS = frozenset(("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"))
_MONTHS: dict[str, int] = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), start=1
    )
}
_DAYS: dict[str, int] = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_NO_NAMES: dict[str, int] = {}
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, _NO_NAMES),
    (0, 23, _NO_NAMES),
    (1, 31, _NO_NAMES),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_DURATION = re.compile(r"[+-]?(\d+(\.\d*)?(ns|us|µs|ms|s|m|h))+")
_ZONE_PART = re.compile(r"[A-Za-z0-9._+-]*")


class _ScheduleError(Exception):
    pass


def schedule_error(schedule: str) -> str:
    """Return why a schedule cannot be parsed; "" where it can."""
    text = schedule
    if text.startswith(("TZ=", "CRON_TZ=")):
        zone, _, text = text.partition(" ")
        name = zone.partition("=")[2]
        if not _is_zone(name):
            return f"provided bad location {name}: unknown time zone {name}"
        text = text.strip()
    if text.startswith("@"):
        return _descriptor_error(text)
    fields = text.split()
    if len(fields) != 5:
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    try:
        for field, bounds in zip(fields, _FIELDS, strict=True):
            for part in field.split(","):
                if part:
                    _range(part, *bounds)
    except _ScheduleError as error:
        return str(error)
    return ""


def _descriptor_error(text: str) -> str:
    if text in _DESCRIPTORS:
        return ""
    if text.startswith("@every "):
        duration = text.removeprefix("@every ")
        if _DURATION.fullmatch(duration) or duration == "0":
            return ""
        unit = re.fullmatch(r"[+-]?[0-9.]+([a-z]+)", duration)
        if unit:
            return f'failed to parse duration {text}: time: unknown unit "{unit[1]}" in duration "{duration}"'
        return f'failed to parse duration {text}: time: invalid duration "{duration}"'
    return f"unrecognized descriptor: {text}"


def _range(text: str, low: int, high: int, names: dict[str, int]) -> None:  # noqa: C901
    parts = text.split("/")
    ends = parts[0].split("-")
    if ends[0] in ("*", "?"):
        start, end = low, high
    else:
        start = end = _number(ends[0], names)
        if len(ends) == 2:
            end = _number(ends[1], names)
        elif len(ends) > 2:
            raise _ScheduleError(f"too many hyphens: {text}")
    step = 1
    if len(parts) == 2:
        step = _integer(parts[1])
        if len(ends) == 1:
            end = high
    elif len(parts) > 2:
        raise _ScheduleError(f"too many slashes: {text}")
    if start < low:
        raise _ScheduleError(f"beginning of range ({start}) below minimum ({low}): {text}")
    if end > high:
        raise _ScheduleError(f"end of range ({end}) above maximum ({high}): {text}")
    if start > end:
        raise _ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise _ScheduleError(f"step of range should be a positive number: {text}")


def _number(text: str, names: dict[str, int]) -> int:
    return names[text.lower()] if text.lower() in names else _integer(text)


def _integer(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise _ScheduleError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if int(text) < 0:
        raise _ScheduleError(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)


def time_zone_error(zone: str) -> str:
    """Return why a time zone is none; "" where it is one."""
    if not zone:
        return "timeZone must be nil or non-empty string"
    for part in zone.split("/"):
        if part in (".", "..") or part.startswith("-") or not _ZONE_PART.fullmatch(part):
            return f"unknown time zone {zone}"
    return "" if _is_zone(zone) else f"unknown time zone {zone}"


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        return name == "UTC"
    return True
