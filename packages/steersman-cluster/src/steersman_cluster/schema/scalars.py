"""Scalars as Go decodes and encodes them: quantities in canonical form, times to the second, checked base64.

Every function takes a decoded JSON value and gives the value that Go would write back, or raises `MismatchError`.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, cast

from steersman.models.quantity import Quantity
from steersman_cluster.schema.literals import Literal, finite, text_of, written

__all__ = ["SCALARS", "MismatchError"]

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z", re.ASCII)
_ANY_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)\Z", re.ASCII)
_MICRO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z\Z", re.ASCII)
_QUANTITY = re.compile(r"[+-]?[0-9.]+[eEinumkKMGTP]*[-+]?[0-9]*\Z", re.ASCII)
_PATTERN = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_LIMITS = {"int32": 1 << 31, "int64": 1 << 63, "integer": 1 << 63}


class MismatchError(Exception):
    """Go cannot decode the value into its type; `struct` and `path` are set when they are known.

    `kind` is the kind of Go's type: string, int32, bool, struct, slice, map; "" where the type decodes itself.
    """

    def __init__(self, value: str = "", type: str = "", text: str = "", kind: str = "", source: str = "") -> None:
        super().__init__(value, type, text)
        self.value = value
        self.type = type
        self.text = text
        self.kind = kind
        self.source = source
        self.struct = ""
        self.path: list[str] = []

    @property
    def message(self) -> str:
        """The text of Go's decoder."""
        if self.text:
            return self.text
        path = ".".join(reversed(self.path))
        where = f"Go struct field {self.struct}.{path}" if self.struct else "Go value"
        return f"json: cannot unmarshal {self.value} into {where} of type {self.type}"

    @property
    def converted(self) -> str:
        """The text of Go's converter from unstructured objects, which strategic patches and apply go through."""
        if self.text:
            return self.text
        if not self.kind:
            return f"json: cannot unmarshal {self.value} into Go value of type {self.type}"
        source = self.source or {"object": "map", "array": "slice", "number": "int64"}.get(self.value, self.value)
        # Go converts numbers to numbers, and integers (but no floats) to strings; other values are mismatches.
        if self.kind == "struct":
            return f"cannot restore struct from: {source}"
        if self.kind in ("map", "slice"):
            return f"cannot restore {self.kind} from {source}"
        if (source == "int64" and self.kind == "string") or (source == "float64" and self.kind != "string"):
            return f"cannot convert {source} to {self.type}"
        return f"unrecognized type: {self.kind}"


def described(value: Any) -> str:
    """Return the name of an unexpected value in errors of Go's decoder."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    return "array" if isinstance(value, list) else "object"


def _source(value: Any) -> str:
    """Go's kind of a decoded number; "" for all else."""
    if isinstance(value, bool):
        return ""
    return "float64" if isinstance(value, float) else "int64" if isinstance(value, int) else ""


def _string(value: Any, shown: str) -> Any:
    if value.__class__ is not str:
        raise MismatchError(described(value), shown, kind="string", source=_source(value))
    return value


def _boolean(value: Any, shown: str) -> Any:
    if value.__class__ is not bool:
        raise MismatchError(described(value), shown, kind="bool")
    return value


def _integer(kind: str, limit: int) -> Callable[[Any, str], Any]:
    def check(value: Any, shown: str) -> Any:
        if value.__class__ is int and -limit <= value < limit:
            return value
        what = described(value)
        shape = f"number {text_of(value)}" if what == "number" else what
        raise MismatchError(shape, shown, kind=kind, source=_source(value))

    return check


def _number(value: Any, shown: str) -> Any:
    if value.__class__ is int:
        return value
    if value.__class__ is float:
        return written(value)
    if value.__class__ is Literal:
        try:
            return written(finite(value.text))
        except ValueError:
            raise MismatchError(f"number {value.text}", shown, kind="float64") from None
    raise MismatchError(described(value), shown, kind="float64")


def _int_or_string(value: Any, shown: str) -> Any:
    if value.__class__ is str or (value.__class__ is int and -(1 << 31) <= value < 1 << 31):
        return value
    what = described(value)
    raise MismatchError(f"number {text_of(value)}" if what == "number" else what, "int32")


def _bytes(value: Any, shown: str) -> Any:
    if value.__class__ is not str:
        raise MismatchError(described(value), shown, kind="slice")
    try:
        binascii.a2b_base64(value, strict_mode=True)
    except (binascii.Error, ValueError):
        return _loose_bytes(value)
    return value


def _loose_bytes(value: str) -> str:
    """Return base64 without line breaks. Raises the error of Go's decoder with the position."""
    bare = value.replace("\r", "").replace("\n", "")
    try:
        raw = binascii.a2b_base64(bare, strict_mode=True)
    except (binascii.Error, ValueError):
        raise MismatchError(text=f"illegal base64 data at input byte {_bad_base64(value)}") from None
    return binascii.b2a_base64(raw, newline=False).decode()


def _bad_base64(value: str) -> int:
    """The offset that Go's decoder reports: of the first bad byte, or of the group that is not complete."""
    count, start = 0, 0
    for position, char in enumerate(value):
        if char in "\r\n":
            continue
        if count % 4 == 0:
            start = position
        if char == "=":
            return _bad_padding(value, position, count % 4)
        if not (char.isascii() and (char.isalnum() or char in "+/")):
            return position
        count += 1
    return start if count % 4 else len(value)


def _bad_padding(value: str, position: int, before: int) -> int:
    """Return the position of invalid padding that starts at `position` after `before` characters."""
    if before < 2:
        return position
    rest = value[position + 1 :].lstrip("\r\n")
    if before == 2:
        if not rest:
            return len(value)
        if rest[0] != "=":
            return len(value) - len(rest) - 1
        rest = rest[1:].lstrip("\r\n")
    return len(value) - len(rest)


def _moment(value: str, *, micro: bool = False) -> tuple[datetime, str]:
    """The second in UTC and the digits of its fraction."""
    match = _ANY_TIME.match(value)
    if match is None or (micro and len(match[7] or "") != 6):
        raise MismatchError(text=_time_error(value, micro=micro))
    *parts, fraction, zone = match.groups()
    try:
        moment = datetime(*map(int, parts), tzinfo=UTC)  # type: ignore[misc, arg-type]
    except ValueError:
        raise MismatchError(text=f'parsing time "{value}": {_out_of_range(parts)} out of range') from None
    if zone != "Z":
        offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
        moment = moment - offset if zone[0] == "+" else moment + offset
    return moment, fraction or ""


def _out_of_range(parts: list[str]) -> str:
    month, _, hour, minute = (int(part) for part in parts[1:5])
    if not 1 <= month <= 12:
        return "month"
    if hour > 23:
        return "hour"
    if minute > 59:
        return "minute"
    return "second" if int(parts[5]) > 59 else "day"


_LAYOUT = (
    (r"\d{4}", "2006"), ("-", "-"), (r"\d\d", "01"), ("-", "-"), (r"\d\d", "02"), ("T", "T"), (r"\d\d", "15"),
    (":", ":"), (r"\d\d", "04"), (":", ":"), (r"\d\d", "05"),
)  # fmt: skip
_ZONE = (r"Z|[+-]\d\d:\d\d", "Z07:00")


def _time_error(value: str, *, micro: bool) -> str:
    """Go's text for a time that does not fit the layout: the rest, and the part of the layout it fails at."""
    fraction = (r"[.,]\d{6}", ".000000") if micro else (r"(?:[.,]\d+)?", "")
    layout = f"2006-01-02T15:04:05{fraction[1]}Z07:00"
    rest = value
    for pattern, shown in (*_LAYOUT, fraction, _ZONE):
        match = re.match(pattern, rest, re.ASCII)
        if match is None:
            return f'parsing time "{value}" as "{layout}": cannot parse "{rest}" as "{shown}"'
        rest = rest[match.end() :]
    return f'parsing time "{value}": extra text: "{rest}"'


def _time(value: Any, shown: str) -> Any:
    if value.__class__ is not str:
        raise MismatchError(described(value), "string")
    if _TIME.match(value) and value[5:7] < "13" and value[8:10] < "29" and value[11:13] < "24":
        return value
    moment, _ = _moment(value)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def _micro_time(value: Any, shown: str) -> Any:
    if value.__class__ is not str:
        raise MismatchError(described(value), "string")
    if _MICRO.match(value) and value[5:7] < "13" and value[8:10] < "29" and value[11:13] < "24":
        return value
    moment, fraction = _moment(value, micro=True)
    return f"{moment.strftime('%Y-%m-%dT%H:%M:%S').rjust(19, '0')}.{fraction}Z"


@lru_cache(maxsize=4096)
def _canonical(text: str) -> str:
    if not _QUANTITY.match(text):
        raise MismatchError(text=f"quantities must match the regular expression '{_PATTERN}'")
    try:
        return str(Quantity(text))
    except ValueError:
        raise MismatchError(text="unable to parse quantity's suffix") from None


def _quantity(value: Any, shown: str) -> Any:
    if value.__class__ is str:
        return _canonical(cast(str, value).strip())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _canonical(text_of(value))
    raise MismatchError(text=f"quantities must match the regular expression '{_PATTERN}'")


SCALARS: dict[str, Callable[[Any, str], Any]] = {
    "string": _string,
    "boolean": _boolean,
    "number": _number,
    "bytes": _bytes,
    "time": _time,
    "micro-time": _micro_time,
    "quantity": _quantity,
    "int-or-string": _int_or_string,
    **{name: _integer("int64" if name == "integer" else name, limit) for name, limit in _LIMITS.items()},
}
"""By the name of `Type.scalar`: `check(value, shown) -> value`; `shown` is Go's name of the type."""
