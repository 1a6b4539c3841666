"""Functions beyond CEL's standard: lists, sets, optionals, authorization, and the tables of `text` and `opaque`."""

from __future__ import annotations

# The values of expressions have whatever types they have; tables of functions over them cannot say more.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false
from collections.abc import Callable, Mapping
from functools import cmp_to_key, reduce
from itertools import pairwise
from typing import Any, Final, cast

from steersman_cluster.cel.functions import STANDARD, compare
from steersman_cluster.cel.meter import grow
from steersman_cluster.cel.opaque import OPAQUE
from steersman_cluster.cel.text import TEXT, index_of, last_index_of
from steersman_cluster.cel.values import NONE, CelError, Members, Optional, equal

__all__ = ["LIBRARIES"]


def _index_of(value: Any, wanted: Any, start: int = 0) -> int:
    if isinstance(value, str):
        return index_of(value, wanted, start)
    return next((index for index, item in enumerate(value) if equal(item, wanted)), -1)


def _last_index_of(value: Any, wanted: Any, start: int | None = None) -> int:
    if isinstance(value, str):
        return last_index_of(value, wanted, start)
    return next((index for index in range(len(value) - 1, -1, -1) if equal(value[index], wanted)), -1)


def _is_sorted(items: list[Any]) -> bool:
    return all(compare("isSorted", left, right) <= 0 for left, right in pairwise(items))


def _extreme(name: str, sign: int) -> Callable[[list[Any]], Any]:
    def call(items: list[Any]) -> Any:
        if not items:
            raise CelError(f"{name} called on empty list")
        return reduce(lambda best, item: item if compare(name, item, best) * sign > 0 else best, items)

    return call


def _sum(items: list[Any]) -> Any:
    if not items:
        return 0
    total = items[0]
    for item in items[1:]:
        total = STANDARD["_+_"](total, item)
    return total


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    grow(len(items))
    found: list[Any] = []
    for item in items:
        if isinstance(item, list) and depth > 0:
            found += _flatten(cast("list[Any]", item), depth - 1)
        else:
            found.append(item)
    return found


def _range(count: int) -> list[int]:
    grow(max(count, 0))
    return list(range(count))


def _distinct(items: list[Any]) -> list[Any]:
    found: list[Any] = []
    known = Members()
    for item in items:
        if item not in known:
            known.add(item)
            found.append(item)
    return found


def _sort(items: list[Any]) -> list[Any]:
    return sorted(items, key=cmp_to_key(lambda left, right: compare("sort", left, right)))


def _holds(items: list[Any], wanted: list[Any]) -> bool:
    known = Members(items)
    return all(item in known for item in wanted)


def _intersects(left: list[Any], right: list[Any]) -> bool:
    known = Members(left)
    return any(item in known for item in right)


def _value(optional: Optional) -> Any:
    if optional is NONE:
        raise CelError("optional.none() dereference")
    return optional.value


def _zero(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, int | float | str | bytes | list | dict) and not value)


def _call(name: str) -> Callable[..., Any]:
    """Call a method of the authorizer that the evaluation provides."""

    def call(receiver: Any, *args: Any) -> Any:
        return getattr(receiver, name)(*args)

    return call


LIBRARIES: Final[Mapping[str, Callable[..., Any]]] = {
    **TEXT,
    **OPAQUE,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "isSorted": _is_sorted,
    "min": _extreme("min", -1),
    "max": _extreme("max", 1),
    "sum": _sum,
    "slice": _slice,
    "flatten": _flatten,
    "distinct": _distinct,
    "sort": _sort,
    "reverse": lambda items: items[::-1],
    "first": lambda items: Optional(items[0]) if items else NONE,
    "last": lambda items: Optional(items[-1]) if items else NONE,
    "lists.range": _range,
    "sets.contains": _holds,
    "sets.equivalent": lambda left, right: _holds(left, right) and _holds(right, left),
    "sets.intersects": _intersects,
    "jsonpatch.escapeKey": lambda key: key.replace("~", "~0").replace("/", "~1"),
    "optional.of": Optional,
    "optional.ofNonZeroValue": lambda value: NONE if _zero(value) else Optional(value),
    "optional.none": lambda: NONE,
    "optional.unwrap": lambda items: [item.value for item in items if item is not NONE],
    "unwrapOpt": lambda items: [item.value for item in items if item is not NONE],
    "hasValue": lambda optional: optional is not NONE,
    "value": _value,
    "or": lambda optional, other: other if optional is NONE else optional,
    "orValue": lambda optional, other: other if optional is NONE else optional.value,
    "path": _call("path"),
    "group": _call("group"),
    "serviceAccount": _call("service_account"),
    "resource": _call("resource"),
    "subresource": _call("subresource"),
    "namespace": _call("namespace"),
    "name": _call("name"),
    "fieldSelector": _call("field_selector"),
    "labelSelector": _call("label_selector"),
    "check": _call("check"),
    "allowed": _call("allowed"),
    "reason": _call("reason"),
    "errored": _call("errored"),
    "error": _call("error"),
}
