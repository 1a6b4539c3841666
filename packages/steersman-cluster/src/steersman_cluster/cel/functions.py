"""The functions of CEL's standard library; those of Kubernetes are in `libraries`.

Each takes values of whatever types and raises CelError where none of its overloads fits, as evaluation must say it.
"""

from __future__ import annotations

# The values of expressions have whatever types they have; tables of functions over them cannot say more.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final, cast
from zoneinfo import ZoneInfo

from steersman.regex import Regex, compile_pattern
from steersman_cluster.cel.formats import parse_duration
from steersman_cluster.cel.gotext import go_quote
from steersman_cluster.cel.meter import grow
from steersman_cluster.cel.syntax import UInt
from steersman_cluster.cel.values import (
    NONE,
    CelError,
    Duration,
    MapList,
    Members,
    Optional,
    SetList,
    Timestamp,
    TypeValue,
    equal,
    shown,
    type_name,
)

__all__ = ["STANDARD", "compare", "no_overload", "pattern"]

_INT = (-(2**63), 2**63 - 1)
_UINT_MAX = 2**64 - 1


def no_overload(name: str, *args: Any) -> CelError:
    """The error of a call that no overload takes."""
    if name[0] in "_-!@":
        return CelError("no such overload")
    return CelError(f"no such overload: {name}({', '.join(map(type_name, args))})")


def integer(value: int) -> int:
    """An int within 64 bits."""
    if not _INT[0] <= value <= _INT[1]:
        raise CelError("integer overflow")
    return value


def unsigned(value: int) -> UInt:
    """A uint within 64 bits."""
    if not 0 <= value <= _UINT_MAX:
        raise CelError("unsigned integer overflow")
    return UInt(value)


def _add(left: Any, right: Any) -> Any:
    kinds = (type(left), type(right))
    match kinds:
        case (a, b) if a is int and b is int:
            return integer(left + right)
        case (a, b) if a is b and a in (float, str, bytes):
            return left + right
        case (a, b) if a is UInt and b is UInt:
            return unsigned(int(left) + int(right))
        case (a, b) if a is Duration and b is Duration:
            return Duration(left.nanoseconds + right.nanoseconds)
        case (a, b) if {a, b} == {Timestamp, Duration}:
            return Timestamp(left.nanoseconds + right.nanoseconds)
        case _ if isinstance(left, list) and isinstance(right, list):
            return _add_lists(cast("list[Any]", left), cast("list[Any]", right))
        case _:
            raise no_overload("_+_", left, right)


def _add_lists(left: list[Any], right: list[Any]) -> list[Any]:
    grow(len(left) + len(right))
    if isinstance(left, SetList):
        known = Members(left)
        return SetList([*left, *(item for item in right if item not in known)])
    if isinstance(left, MapList):
        merged = {left.identity(item): item for item in left}
        merged.update({left.identity(item): item for item in right})
        return MapList(list(merged.values()), left.keys)
    return [*left, *right]


def _subtract(left: Any, right: Any) -> Any:
    match type(left), type(right):
        case (a, b) if a is int and b is int:
            return integer(left - right)
        case (a, b) if a is float and b is float:
            return left - right
        case (a, b) if a is UInt and b is UInt:
            return unsigned(int(left) - int(right))
        case (a, b) if a is Timestamp and b is Timestamp:
            return Duration(left.nanoseconds - right.nanoseconds)
        case (a, b) if a is Timestamp and b is Duration:
            return Timestamp(left.nanoseconds - right.nanoseconds)
        case (a, b) if a is Duration and b is Duration:
            return Duration(left.nanoseconds - right.nanoseconds)
        case _:
            raise no_overload("_-_", left, right)


def _multiply(left: Any, right: Any) -> Any:
    if type(left) is type(right) and type(left) in (int, float, UInt):
        if type(left) is float:
            return left * right
        return integer(left * right) if type(left) is int else unsigned(int(left) * int(right))
    raise no_overload("_*_", left, right)


def _divide(left: Any, right: Any) -> Any:
    if type(left) is not type(right) or type(left) not in (int, float, UInt):
        raise no_overload("_/_", left, right)
    if type(left) is float:
        if right == 0:
            return (
                math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1, right)
            )
        return left / right
    if right == 0:
        raise CelError("division by zero")
    quotient = abs(int(left)) // abs(int(right))
    whole = quotient if (left < 0) == (right < 0) else -quotient
    return integer(whole) if type(left) is int else UInt(whole)


def _modulo(left: Any, right: Any) -> Any:
    if type(left) is not type(right) or type(left) not in (int, UInt):
        raise no_overload("_%_", left, right)
    if right == 0:
        raise CelError("modulus by zero")
    rest = abs(int(left)) % abs(int(right))
    return (-rest if left < 0 else rest) if type(left) is int else UInt(rest)


def _negate(value: Any) -> Any:
    if type(value) is int:
        return integer(-value)
    if type(value) is float:
        return -value
    raise no_overload("-_", value)


_NUMBERS = (int, float, UInt)
_ORDERED = (str, bytes, bool, Timestamp, Duration)


def compare(name: str, left: Any, right: Any) -> int:
    """-1, 0 or 1; numbers across types."""
    comparable = type(left) is type(right) and type(left) in _ORDERED
    if not comparable and not (type(left) in _NUMBERS and type(right) in _NUMBERS):
        raise no_overload(name, left, right)
    if left == right:
        return 0
    return -1 if left < right else 1


def _ordering(name: str, wanted: Callable[[int], bool]) -> Callable[[Any, Any], bool]:
    def function(left: Any, right: Any) -> bool:
        if (isinstance(left, float) and math.isnan(left)) or (isinstance(right, float) and math.isnan(right)):
            return False
        return wanted(compare(name, left, right))

    return function


def _in(value: Any, container: Any) -> bool:
    if isinstance(container, dict):
        items = cast("dict[Any, Any]", container)
        return value in items if isinstance(value, str) else any(equal(value, key) for key in items)
    if isinstance(container, list):
        return any(equal(value, item) for item in cast("list[Any]", container))
    raise no_overload("@in", value, container)


def _index(container: Any, key: Any) -> Any:  # noqa: C901
    if isinstance(container, Optional):
        return _optional_index(container, key)
    if isinstance(container, list):
        values = cast("list[Any]", container)
        if type(key) is float and key.is_integer():
            key = int(key)
        if type(key) not in (int, UInt):
            raise CelError(f"unsupported index type '{type_name(key)}' in list")
        if not 0 <= key < len(values):
            raise CelError(f"index out of bounds: {key}")
        return values[int(key)]
    if isinstance(container, dict):
        items = cast("dict[Any, Any]", container)
        if isinstance(key, str):
            if key in items:
                return items[key]
        else:
            for each, value in items.items():
                if equal(each, key):
                    return value
        raise CelError(f"no such key: {shown(key)}")
    raise no_overload("_[_]", container, key)


def _optional_index(container: Any, key: Any) -> Optional:
    if isinstance(container, Optional):
        if container is NONE:
            return NONE
        container = container.value
    try:
        return Optional(_index(container, key))
    except CelError as error:
        if str(error).startswith(("no such key", "index out")):
            return NONE
        raise


def _size(value: Any) -> int:
    if isinstance(value, str | bytes | list | dict):
        return len(cast("list[Any]", value))
    raise no_overload("size", value)


def _to_int(value: Any) -> int:
    match value:
        case bool():
            raise no_overload("int", value)
        case int():
            return integer(int(value))
        case float():
            if math.isnan(value) or not -(2.0**63) < value < 2.0**63:
                raise CelError("integer overflow")
            return int(value)
        case str():
            if not re.fullmatch(r"[+-]?[0-9]+", value) or not _INT[0] <= int(value) <= _INT[1]:
                problem = "value out of range" if re.fullmatch(r"[+-]?[0-9]+", value) else "invalid syntax"
                raise CelError(f"strconv.ParseInt: parsing {go_quote(value)}: {problem}")
            return int(value)
        case Timestamp():
            return value.nanoseconds // 10**9
        case Duration():
            return value.nanoseconds
        case _:
            raise no_overload("int", value)


def _to_uint(value: Any) -> UInt:
    match value:
        case bool():
            raise no_overload("uint", value)
        case int():
            return unsigned(int(value))
        case float():
            if math.isnan(value) or not 0 <= value < 2.0**64:
                raise CelError("unsigned integer overflow")
            return UInt(int(value))
        case str() if re.fullmatch(r"[0-9]+", value):
            return unsigned(int(value))
        case str():
            raise CelError(f"strconv.ParseUint: parsing {go_quote(value)}: invalid syntax")
        case _:
            raise no_overload("uint", value)


def _to_double(value: Any) -> float:
    match value:
        case bool():
            raise no_overload("double", value)
        case int() | float():
            return float(value)
        case str():
            try:
                return float(value.strip("_ ") if value == value.strip() and "_" not in value else "x")
            except ValueError:
                raise CelError(f"strconv.ParseFloat: parsing {go_quote(value)}: invalid syntax") from None
        case _:
            raise no_overload("double", value)


def _to_string(value: Any) -> str:
    if isinstance(value, str | bool | int | float | bytes | Timestamp | Duration):
        return shown(value)
    if type_name(value) in ("net.IP", "net.CIDR"):
        return str(value)
    raise no_overload("string", value)


def _to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if value in ("true", "1", "t", "T", "TRUE", "True"):
            return True
        if value in ("false", "0", "f", "F", "FALSE", "False"):
            return False
        raise CelError(f"strconv.ParseBool: parsing {go_quote(value)}: invalid syntax")
    raise no_overload("bool", value)


def _to_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise no_overload("bytes", value)


def _to_timestamp(value: Any) -> Timestamp:
    match value:
        case Timestamp():
            return value
        case str():
            return Timestamp.parse(value)
        case int() if not isinstance(value, bool):
            return Timestamp(int(value) * 10**9)
        case _:
            raise no_overload("timestamp", value)


def _to_duration(value: Any) -> Duration:
    match value:
        case Duration():
            return value
        case str():
            found = parse_duration(value) if re.fullmatch(r"[-+]?[0-9.a-zµμ]+", value) else None
            if found is None:
                raise CelError(f"time: invalid duration {go_quote(value)}")
            return Duration(found)
        case int() if not isinstance(value, bool):
            return Duration(int(value))
        case _:
            raise no_overload("duration", value)


def pattern(text: str) -> Regex:
    """A compiled expression; raises CelError as Go's compiler would."""
    try:
        return compile_pattern(text)
    except ValueError as error:
        raise CelError(f"error parsing regexp: {error}") from None


def _strings(name: str, function: Callable[[str, str], Any]) -> Callable[[Any, Any], Any]:
    def call(left: Any, right: Any) -> Any:
        if isinstance(left, str) and isinstance(right, str):
            return function(left, right)
        raise no_overload(name, left, right)

    return call


def _zone(name: str) -> Any:
    if found := re.fullmatch(r"([+-]?)(\d\d):(\d\d)", name):
        span = timedelta(hours=int(found[2]), minutes=int(found[3]))
        return timezone(-span if found[1] == "-" else span)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise CelError(f"unknown time zone {name}") from None


def _part(name: str, read: Callable[[datetime], int], span: int = 0) -> Callable[..., int]:
    """A part of a time, in UTC or a zone, or of a duration: all of it in units of `span` nanoseconds."""

    def call(value: Any, zone: Any = None) -> int:
        if isinstance(value, Duration) and span and zone is None:
            whole = abs(value.nanoseconds) // span
            return -whole if value.nanoseconds < 0 else whole
        if isinstance(value, Timestamp):
            return read(value.moment.astimezone(_zone(zone) if zone is not None else UTC))
        raise no_overload(name, value)

    return call


STANDARD: Final[Mapping[str, Callable[..., Any]]] = {
    "_==_": equal,
    "_!=_": lambda left, right: not equal(left, right),
    "_+_": _add,
    "_-_": _subtract,
    "_*_": _multiply,
    "_/_": _divide,
    "_%_": _modulo,
    "-_": _negate,
    "_<_": _ordering("_<_", lambda order: order < 0),
    "_<=_": _ordering("_<=_", lambda order: order <= 0),
    "_>_": _ordering("_>_", lambda order: order > 0),
    "_>=_": _ordering("_>=_", lambda order: order >= 0),
    "@in": _in,
    "_[_]": _index,
    "_[?_]": _optional_index,
    "size": _size,
    "type": lambda value: TypeValue(type_name(value)),
    "dyn": lambda value: value,
    "int": _to_int,
    "uint": _to_uint,
    "double": _to_double,
    "string": _to_string,
    "bool": _to_bool,
    "bytes": _to_bytes,
    "timestamp": _to_timestamp,
    "duration": _to_duration,
    "matches": _strings("matches", lambda text, wanted: pattern(wanted).search(text) is not None),
    "contains": _strings("contains", lambda text, part: part in text),
    "startsWith": _strings("startsWith", str.startswith),
    "endsWith": _strings("endsWith", str.endswith),
    "getFullYear": _part("getFullYear", lambda moment: moment.year),
    "getMonth": _part("getMonth", lambda moment: moment.month - 1),
    "getDayOfYear": _part("getDayOfYear", lambda moment: moment.timetuple().tm_yday - 1),
    "getDayOfMonth": _part("getDayOfMonth", lambda moment: moment.day - 1),
    "getDate": _part("getDate", lambda moment: moment.day),
    "getDayOfWeek": _part("getDayOfWeek", lambda moment: (moment.weekday() + 1) % 7),
    "getHours": _part("getHours", lambda moment: moment.hour, 3600 * 10**9),
    "getMinutes": _part("getMinutes", lambda moment: moment.minute, 60 * 10**9),
    "getSeconds": _part("getSeconds", lambda moment: moment.second, 10**9),
    "getMilliseconds": _part("getMilliseconds", lambda moment: moment.microsecond // 1000, 10**6),
}
