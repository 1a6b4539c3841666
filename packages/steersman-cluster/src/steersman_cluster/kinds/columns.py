"""Cells of `kubectl get` tables: ages, empty values, references; words and widths as kubectl's users know them.

Pure functions of an object's parts and of the time. They never raise for odd objects: a cell that cannot be said is
`<unknown>` or `<none>`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from steersman_cluster.objects import Object, meta
from steersman_cluster.strategy import Column

__all__ = [
    "AGE",
    "NAME",
    "NONE",
    "UNKNOWN",
    "UNSET",
    "age",
    "duration",
    "join",
    "label_selector",
    "labels",
    "name",
    "seconds_of",
    "short_duration",
    "since",
]

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"

_NAME_TEXT = "Name must be unique within a namespace."
AGE_TEXT = "CreationTimestamp is a timestamp representing the server time when this object was created."
NAME = Column("Name", format="name", description=_NAME_TEXT)
AGE = Column("Age", description=AGE_TEXT)


def duration(seconds: float) -> str:
    """`5s`, `2m`, `2m5s`, `3h`, `2d3h`, `1y40d`: two or three significant figures, as kubectl's ages."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 120:
        return f"{max(whole, 0)}s"
    minutes, hours = whole // 60, whole // 3600
    if minutes < 10:
        return _pair(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return _pair(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return _pair(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def short_duration(seconds: float) -> str:
    """One figure only, as in the columns of older kinds."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 60:
        return f"{max(whole, 0)}s"
    for size, limit, unit in ((60, 60, "m"), (3600, 24, "h"), (86400, 365, "d")):
        if whole // size < limit:
            return f"{whole // size}{unit}"
    return f"{whole // (86400 * 365)}y"


def _pair(major: int, major_unit: str, minor: int, minor_unit: str) -> str:
    return f"{major}{major_unit}{minor}{minor_unit}" if minor else f"{major}{major_unit}"


def seconds_of(timestamp: Any) -> float | None:
    """Seconds since the epoch of an RFC 3339 time; `None` where there is no time."""
    if not isinstance(timestamp, str) or not timestamp:
        return None
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return None


def since(timestamp: Any, now: float) -> str:
    """The age of a time, `<unknown>` where there is none."""
    then = seconds_of(timestamp)
    return UNKNOWN if then is None else duration(now - then)


def age(obj: Object, now: float) -> str:
    """Return the time since the creation as kubectl prints it: `5m`, `3d`."""
    return since(meta(obj).get("creationTimestamp"), now)


def name(obj: Object) -> str:
    """Return `metadata.name`, the first cell of most tables."""
    return meta(obj).get("name") or ""


def labels(values: Mapping[str, str] | None) -> str:
    """`a=1,b=2` in the order of keys; `<none>` for no labels."""
    return ",".join(f"{key}={value}" for key, value in sorted(values.items())) if values else NONE


def join(items: Iterable[str], empty: str = NONE) -> str:
    """Return the items separated by commas, or `empty` if there are none."""
    return ",".join(items) or empty


_OPERATORS = {"In": "in", "NotIn": "notin"}


def label_selector(selector: Object | None) -> str:
    """A label selector as `kubectl -l` takes it; `<none>` for a missing or empty one."""
    if selector is None:
        return NONE
    match: Mapping[str, str] = selector.get("matchLabels") or {}
    terms = [(key, f"{key}={value}") for key, value in match.items()]
    terms += [(item.get("key") or "", _requirement(item)) for item in selector.get("matchExpressions") or ()]
    return ",".join(text for _, text in sorted(terms, key=lambda term: term[0])) or NONE


def _requirement(item: Object) -> str:
    key, operator = item.get("key") or "", item.get("operator")
    values: Sequence[str] = item.get("values") or ()
    if operator == "Exists":
        return key
    if operator == "DoesNotExist":
        return f"!{key}"
    return f"{key} {_OPERATORS.get(str(operator), '?')} ({','.join(sorted(values))})"
