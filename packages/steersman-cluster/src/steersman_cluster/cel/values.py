"""Values of expressions: which Python objects stand for them, how they compare, and how JSON becomes them.

int, float, str, bytes, bool, None, list and dict stand for themselves; the classes here for the rest. A dict of an
object has JSON's own field names; escaping is the compiler's business. Values are never changed.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final, cast

from steersman_cluster.cel.formats import parse_duration
from steersman_cluster.cel.gotext import go_float
from steersman_cluster.cel.meter import grow
from steersman_cluster.cel.syntax import UInt
from steersman_cluster.cel.types import Type

__all__ = [
    "NONE", "CelError", "CostLimitError", "Duration", "MapList", "Members", "Optional", "SetList", "Timestamp",
    "TypeValue", "converter", "equal", "shown", "type_name",
]  # fmt: skip

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class CelError(ValueError):
    """An evaluation failed; the text is CEL's."""


class CostLimitError(CelError):
    """An expression was stopped because it spent too much; the text is CEL's."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A span of time in nanoseconds."""

    nanoseconds: int

    def __str__(self) -> str:
        seconds, rest = divmod(abs(self.nanoseconds), 10**9)
        sign = "-" if self.nanoseconds < 0 else ""
        fraction = f".{rest:09d}".rstrip("0") if rest else ""
        return f"{sign}{seconds}{fraction}s"


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A point in time: nanoseconds since 1970, UTC."""

    nanoseconds: int

    @property
    def moment(self) -> datetime:
        """The time with microseconds; nanoseconds below one microsecond are cut off."""
        return _EPOCH + timedelta(microseconds=self.nanoseconds // 1000)

    @classmethod
    def parse(cls, text: str) -> Timestamp:
        """From RFC 3339, with up to nine digits of a second; raises CelError."""
        found = _TIME.fullmatch(text)
        if found is None:
            raise CelError(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse')
        try:
            zone = "+00:00" if found[4] in "Zz" else found[4]
            moment = datetime.fromisoformat(f"{found[1]}T{found[2]}{zone}")
        except ValueError as error:
            raise CelError(f'parsing time "{text}": out of range') from error
        fraction = int((found[3] or ".0")[1:10].ljust(9, "0"))
        return cls(int((moment - _EPOCH).total_seconds()) * 10**9 + fraction)

    def __str__(self) -> str:
        seconds, rest = divmod(self.nanoseconds, 10**9)
        fraction = f".{rest:09d}".rstrip("0") if rest else ""
        return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S") + f"{fraction}Z"


@dataclass(frozen=True, slots=True)
class TypeValue:
    """The result of `type(x)`, which CEL compares like any other value."""

    name: str


class Optional:
    """A value that may be missing."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


NONE: Final = Optional(None)
"""The optional without a value; compared by identity."""


class SetList(list[Any]):
    """A list of type `set`: equal in any order."""

    __slots__ = ()


class MapList(list[Any]):
    """A list of type `map`: equal in any order, added to by keys."""

    __slots__ = ("keys",)

    def __init__(self, items: list[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys

    def identity(self, item: Any) -> tuple[Any, ...]:
        """Return the values of the keys, by which two items are the same."""
        return (
            tuple(str(cast("dict[str, Any]", item).get(key)) for key in self.keys)
            if isinstance(item, dict)
            else (str(item),)
        )


class OpaqueValue:
    """Base class of values of Kubernetes' opaque types."""

    __slots__ = ()

    cel_type: ClassVar[str]
    """CEL's name of the type."""


_NAMES: Mapping[type, str] = {
    type(None): "null_type", bool: "bool", UInt: "uint", int: "int", float: "double", str: "string", bytes: "bytes",
    list: "list", SetList: "list", MapList: "list", dict: "map", Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp", TypeValue: "type", Optional: "optional_type",
}  # fmt: skip


def type_name(value: Any) -> str:
    """CEL's name of a value's type."""
    cls = cast("type[Any]", type(value))
    return _NAMES.get(cls) or (value.cel_type if isinstance(value, OpaqueValue) else "dyn")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float, UInt)


def equal(left: Any, right: Any) -> bool:
    """CEL's equality: numbers across types, lists and maps by their members, all else within one type."""
    kind = cast("type[Any]", type(left))
    if kind is type(right) and kind not in (list, dict, SetList, MapList, Optional):
        return left == right
    if _is_number(left) and _is_number(right):
        return left == right
    if isinstance(left, MapList | SetList) and isinstance(right, list):
        return _same_members(left, cast("list[Any]", right))
    if isinstance(left, list) and isinstance(right, list):
        mine, other = cast("list[Any]", left), cast("list[Any]", right)
        grow(2 * len(mine))
        return len(mine) == len(other) and all(map(equal, mine, other))
    if isinstance(left, dict) and isinstance(right, dict):
        first, second = cast("dict[Any, Any]", left), cast("dict[Any, Any]", right)
        grow(2 * len(first))
        return len(first) == len(second) and all(
            key in second and equal(item, second[key]) for key, item in first.items()
        )
    if isinstance(left, Optional) and isinstance(right, Optional):
        if left is NONE or right is NONE:
            return left is right
        return equal(left.value, right.value)
    return False


def _same_members(left: SetList | MapList, right: list[Any]) -> bool:
    if len(left) != len(right):
        return False
    if isinstance(left, MapList):
        others = {left.identity(item): item for item in right}
        return all((key := left.identity(item)) in others and equal(item, others[key]) for item in left)
    others = Members(right)
    return all(item in others for item in left)


class Members:
    """The items of a list for the question whether a value is among them; scalars are found by their hash."""

    __slots__ = ("_others", "_scalars")

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self._scalars: set[Any] = set()
        self._others: list[Any] = []
        for item in items:
            self.add(item)

    def add(self, item: Any) -> None:
        """Add a value."""
        if type(item) in _HASHED:
            self._scalars.add((type(item) is bool, item))
        else:
            self._others.append(item)

    def __contains__(self, item: object) -> bool:
        if type(item) in _HASHED and (type(item) is bool, item) in self._scalars:
            return item == item
        grow(len(self._others))
        return any(equal(item, other) for other in self._others)


_HASHED: Final = frozenset({str, bytes, bool, int, float, UInt})
"""Types for which Python's hash and equality are those of CEL, once booleans are kept apart from numbers."""


def shown(value: Any) -> str:
    """A scalar as `string()` prints it."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return go_float(value)
        case bytes():
            return value.decode(errors="replace")
        case TypeValue():
            return value.name
        case _:
            return str(value)


def converter(kind: Type) -> Callable[[Any], Any] | None:
    """Return the function that makes a value of this type from decoded JSON; `None` if none is needed."""
    match kind.kind:
        case "double":
            return _double
        case "bytes":
            return _bytes
        case "timestamp":
            return _timestamp
        case "duration":
            return _duration
        case "list":
            return _list(converter(kind.params[0]), kind.name)
        case "map":
            each = converter(kind.params[1])
            return None if each is None else lambda value: {key: each(item) for key, item in value.items()}
        case "object":
            made = {real: found for real, inner in kind.fields.values() if (found := converter(inner)) is not None}
            return _object(made) if made else None
        case _:
            return None


def _list(each: Callable[[Any], Any] | None, list_type: str) -> Callable[[Any], Any] | None:
    if not list_type:
        return None if each is None else lambda value: [each(item) for item in value]
    keys = tuple(list_type.removeprefix("map:").split(",")) if list_type != "set" else ()

    def convert(value: Any) -> Any:
        items = [each(item) for item in value] if each is not None else list(value)
        return MapList(items, keys) if keys else SetList(items)

    return convert


def _object(made: Mapping[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        result = dict(value)
        for name, each in made.items():
            if result.get(name) is not None:
                result[name] = each(result[name])
        return result

    return convert


def _double(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _bytes(value: Any) -> Any:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise CelError(f"byte formatted string is not valid base64: {value}") from None


def _timestamp(value: Any) -> Any:
    text = str(value)
    return Timestamp.parse(text if "T" in text.upper() else f"{text}T00:00:00Z")


def _duration(value: Any) -> Any:
    found = parse_duration(str(value))
    if found is None:
        raise CelError(f"unable to parse {value} as duration")
    return Duration(found)
