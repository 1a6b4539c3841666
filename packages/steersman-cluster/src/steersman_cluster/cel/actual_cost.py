"""The costs of calls from the values of arguments and results.

Follows cel-go's `interpreter/runtimecost.go`, the trackers of its sets and lists, and apiserver's
`cel/library/cost.go`, each with its own rounding. Sizes are characters, bytes, elements and entries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

from steersman_cluster.cel.declarations import Overload
from steersman_cluster.cel.library_cost import NOMINAL, selector_cost
from steersman_cluster.cel.meter import grow
from steersman_cluster.cel.opaque import Cidr, Ip, NamedFormat
from steersman_cluster.cel.syntax import UInt
from steersman_cluster.cel.values import NONE, OpaqueValue, Optional

__all__ = ["FAILED", "ByResult", "CallCost", "call_cost"]


class ByResult(NamedTuple):
    """A cost that depends on what the call returns."""

    of: Callable[[Any], int]


CallCost: TypeAlias = int | Callable[[Sequence[Any]], int] | ByResult
"""A constant, a function of the arguments (the receiver first), or one of the result."""
FAILED: Final = object()
"""Stands for an argument or a result that is an error."""

_TEXT: Final = 0.1
_REGEX: Final = 0.25
_LIST: Final = 11
"""The cost of a call that makes a list, without its elements."""
_FORMAT_REGEX: Final = {
    "dns1123Label": 30, "dns1123Subdomain": 60, "dns1035Label": 30, "qualifiedName": 60, "dns1123LabelPrefix": 30,
    "dns1123SubdomainPrefix": 60, "dns1035LabelPrefix": 30, "labelValue": 40, "uri": 1103, "uuid": 70, "byte": 84,
    "date": 71, "datetime": 71,
}  # fmt: skip
"""The lengths of formats' expressions, as they are estimated."""
_FIXED_WIDTH: Final = frozenset({"bool", "int", "uint", "double", "timestamp", "duration"})
_UNSIZED: Final = frozenset({bool, int, float, UInt, type(None)})
_ORDERS: Final = frozenset({"_<_", "_<=_", "_>_", "_>=_"})


def call_cost(name: str, overloads: Sequence[Overload], kinds: Sequence[str]) -> CallCost:
    """Return what a call costs.

    Args:
        name: The function.
        overloads: Those that it may mean; several, where an argument is dynamic.
        kinds: The kinds of types of its arguments.
    """
    if name in ("_==_", "_!=_") and _FIXED_WIDTH.issuperset(kinds):
        return 1
    only = overloads[0] if len(overloads) == 1 else None
    found = _extension(name, only)
    if found is None:
        found = _library(name, only)
    if found is None:
        found = _standard(name, only)
    return found


def _extension(name: str, only: Overload | None) -> CallCost | None:
    match name:
        case "sets.contains" | "sets.intersects":
            return lambda args: 1 + _size(args[0]) * _size(args[1])
        case "sets.equivalent":
            return lambda args: 1 + 2 * _size(args[0]) * _size(args[1])
        case "slice" | "reverse" | "lists.range":
            return ByResult(_made)
        case "flatten":
            return lambda args: int(float(_size(args[0])) * float(args[1] if len(args) > 1 else 1)) + _LIST
        case "distinct":
            return _compared_with_itself
        case "sort" if only is not None:
            return _compared_with_itself
        case _:
            return None


def _compared_with_itself(args: Sequence[Any]) -> int:
    items = args[0]
    if not isinstance(items, list) or not items:
        return _LIST
    texts = isinstance(items[0], str | bytes)
    return int(float(len(cast("list[Any]", items)) ** 2) * (2.0 + _TEXT if texts else 2.0)) + _LIST


def _library(name: str, only: Overload | None) -> CallCost | None:  # noqa: C901 - one case per family of functions
    match name:
        case "check":
            return 350_000
        case _ if name in NOMINAL:
            return 1
        case "fieldSelector" | "labelSelector":
            return lambda args: selector_cost(_plain_size(args[1]))
        case "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf":
            return lambda args: _traversal(args[0])
        case "url" | "lowerAscii" | "upperAscii" | "substring" | "trim":
            return _read_once
        case "replace" | "split" | "ip.isCanonical":
            return lambda args: math.ceil(_plain_size(args[0]) * 2 * _TEXT)
        case "join":
            return ByResult(_joined)
        case "find" | "findAll":
            return lambda args: _searched(_plain_size(args[0]), _plain_size(args[1]))
        case "ip" if only is not None and only.params[0].kind == "opaque":
            return 1
        case "ip" | "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver":
            return _read_once
        case "containsIP" | "containsCIDR":
            parses = only is not None and only.params[1].kind == "string"
            return lambda args: _contained(name, args, parses=parses)
        case "validate":
            return _validated
        case "_==_":
            return _equal
        case _:
            return None


def _standard(name: str, only: Overload | None) -> CallCost:
    kinds = () if only is None else tuple(param.kind for param in only.params)
    match name:
        case "_!=_":
            return _compared
        case "startsWith" | "endsWith" | "strings.quote" | "format":
            return _text_read_once
        case "bytes" if kinds == ("string",):
            return _text_read_once
        case "string" if kinds == ("bytes",):
            return _text_read_once
        case "@in" if kinds[1:] == ("list",):
            return lambda args: _size(args[1])
        case "_+_" if kinds[:1] in (("string",), ("bytes",)):
            return lambda args: math.ceil((_size(args[0]) + _size(args[1])) * _TEXT)
        case "matches" if only is not None and only.member:
            return lambda args: _searched(_size(args[0]), _size(args[1]))
        case "contains":
            return lambda args: math.ceil(_size(args[0]) * _TEXT) * math.ceil(_size(args[1]) * _TEXT)
        case _ if name in _ORDERS and kinds[:1] in (("string",), ("bytes",)):
            return _compared
        case _:
            return 1


def _plain_size(value: Any) -> int:
    """Return the size of a value; 1 for a value without a size."""
    kind = cast("type[Any]", type(value))
    if kind is str:
        return len(value)
    if kind in _UNSIZED:
        return 1
    match value:
        case bytes() | list() | dict():
            return len(cast("list[Any]", value))
        case Ip():
            return value.value.max_prefixlen // 8
        case Cidr():
            return math.ceil(value.value.network.prefixlen / 8)
        case _:
            return 1


def _size(value: Any) -> int:
    """Return the size of a value in cel-go, which unwraps optionals."""
    if type(value) is str:
        return len(value)
    if isinstance(value, Optional) and value is not NONE:
        return _size(value.value)
    return _plain_size(value)


def _made(result: Any) -> int:
    return _size(result) + _LIST


def _joined(result: Any) -> int:
    return math.ceil(_plain_size(result) * 2 * _TEXT)


def _read_once(args: Sequence[Any]) -> int:
    return math.ceil(_plain_size(args[0]) * _TEXT)


def _text_read_once(args: Sequence[Any]) -> int:
    return math.ceil(_size(args[0]) * _TEXT)


def _searched(text: int, expression: int) -> int:
    return math.ceil((1.0 + text) * _TEXT) * math.ceil(expression * _REGEX)


def _compared(args: Sequence[Any]) -> int:
    return math.ceil(min(_size(args[0]), _size(args[1])) * _TEXT)


def _equal(args: Sequence[Any]) -> int:
    left, right = args
    if type(left) is str and type(right) is str:
        return math.ceil(min(len(left), len(right)) * _TEXT)
    return 1 if isinstance(args[0], OpaqueValue) else _compared(args)


def _traversal(value: Any) -> int:
    match value:
        case str():
            return int(len(value.encode(errors="surrogatepass")) * _TEXT)
        case bytes():
            return int(len(value) * _TEXT)
        case list():
            items = cast("list[Any]", value)
            grow(len(items))
            return sum(map(_traversal, items))
        case dict():
            entries = cast("dict[Any, Any]", value).items()
            grow(len(entries))
            return sum(_traversal(key) + _traversal(item) for key, item in entries)
        case _:
            return 1


def _contained(name: str, args: Sequence[Any], *, parses: bool) -> int:
    base = _plain_size(args[0])
    cost = math.ceil((base + base) * _TEXT)
    if name == "containsCIDR":
        cost += math.ceil(base * _TEXT) + 1
    return cost + (math.ceil(_plain_size(args[1]) * _TEXT) if parses else 0)


def _validated(args: Sequence[Any]) -> int:
    shape = args[0]
    if not isinstance(shape, NamedFormat):
        return 1
    return math.ceil((1.0 + _plain_size(args[1])) * _TEXT) * math.ceil(_FORMAT_REGEX[shape.name] * _REGEX)
