"""The costs of Kubernetes' functions and CEL's extensions, from the sizes of their arguments.

Follows apiserver's `cel/library/cost.go`, and the estimates of cel-go's sets and lists.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from steersman_cluster.cel.declarations import Overload
from steersman_cluster.cel.spans import MAX_UINT64, UNKNOWN, Span, fixed, plus, scaled, times
from steersman_cluster.cel.syntax import Const, Node
from steersman_cluster.cel.types import Type

__all__ = ["NOMINAL", "Argument", "Cost", "library_cost", "selector_cost"]

_TEXT: Final = 0.1
_REGEX: Final = 0.25
_FORMAT_REGEX: Final = 128
_FORMAT_SIZE: Final = 64
_ADDRESS: Final = 16
NOMINAL: Final = frozenset({
    "serviceAccount", "path", "group", "resource", "subresource", "namespace", "name", "allowed", "reason", "error",
    "errored", "masked", "prefixLength", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast",
    "isLinkLocalUnicast", "isGlobalUnicast", "format.named", "sign", "asInteger", "isInteger", "asApproximateFloat",
    "isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major", "minor", "patch", "getScheme", "getHostname",
    "getHost", "getPort", "getEscapedPath", "getQuery",
})  # fmt: skip
_PARSED: Final = frozenset({"cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver"})
Sized = Callable[[Sequence[str]], Span | None]


@dataclass(frozen=True, slots=True)
class Argument:
    """A receiver or an argument: its type, its path from the root, and its size as far as it is known."""

    kind: Type
    path: tuple[str, ...]
    size: Span | None
    node: Node

    @property
    def span(self) -> Span:
        """Return the size, or the widest span if the size is unknown."""
        return UNKNOWN if self.size is None else self.size


class Cost(NamedTuple):
    """The estimated cost of a call and the size of its result."""

    cost: int
    size: Span | None = None


def library_cost(  # noqa: C901 - one case per family of functions
    name: str, overload: Overload, target: Argument | None, args: Sequence[Argument], sized: Sized
) -> Cost | None:
    """The cost of a call without that of its arguments; `None` for the functions of CEL's standard."""
    if (found := _extension(name, overload, target, args)) is not None:
        return found
    match name:
        case _ if name in NOMINAL:
            return Cost(1)
        case "check":
            return Cost(350_000)
        case "fieldSelector" | "labelSelector":
            return Cost(selector_cost(args[0].span.most))
        case "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" if target is not None:
            return Cost(_traversal(target, sized))
        case "url":
            return Cost(scaled(args[0].span.most, _TEXT), args[0].span)
        case "lowerAscii" | "upperAscii" | "substring" | "trim" if target is not None:
            return Cost(scaled(target.span.most, _TEXT), target.span)
        case "replace" if target is not None:
            return Cost(scaled(target.span.most, 2 * _TEXT), _replaced(target.span, args[0].span, args[1].span))
        case "split" if target is not None:
            most = _literal(args[1], target.span.most) if len(args) > 1 else target.span.most
            return Cost(scaled(target.span.most, 2 * _TEXT), Span(0, most))
        case "join" if target is not None:
            size = _joined(target, args, sized)
            return Cost(scaled(size.most, _TEXT), size)
        case "find" | "findAll" if target is not None:
            text = scaled(plus(target.span.most, 1), _TEXT)
            return Cost(times(text, scaled(args[0].span.most, _REGEX)), Span(0, target.span.most))
        case "validate":
            text = scaled(args[0].span.most, _TEXT)
            return Cost(scaled(text, _FORMAT_REGEX * _REGEX))
        case "_==_":
            return _equality(args)
        case _:
            return _addresses(name, target, args)


def _extension(name: str, overload: Overload, target: Argument | None, args: Sequence[Argument]) -> Cost | None:
    match name:
        case "sets.contains" | "sets.intersects" | "sets.equivalent":
            both = times(args[0].span.most, args[1].span.most)
            return Cost(plus(scaled(both, 2.0 if name == "sets.equivalent" else 1.0), 1))
        case "lists.range":
            return _allocating(1.0, fixed(_literal(args[0], MAX_UINT64)))
        case "slice" if target is not None:
            return _allocating(
                1.0, fixed((_literal(args[1], target.span.most) - _literal(args[0], 0)) % (MAX_UINT64 + 1))
            )
        case "reverse" if target is not None:
            return _allocating(1.0, target.span)
        case "flatten" if target is not None:
            return _allocating(float(_literal(args[0], MAX_UINT64)) if args else 1.0, target.span)
        case "distinct" if target is not None:
            return _allocating(2.0, target.span.multiply(target.span))
        case "sort" if target is not None:
            texts = overload.params[0].params[0].kind in ("string", "bytes")
            return _allocating(2.0 + _TEXT if texts else 2.0, target.span.multiply(target.span))
        case _:
            return None


def _allocating(factor: float, size: Span) -> Cost:
    return Cost(plus(scaled(size.most, factor), 11), size)


def _literal(argument: Argument, default: int) -> int:
    """A number as it is written; negative ones count as none."""
    value = argument.node.value if isinstance(argument.node, Const) else None
    return max(value, 0) if type(value) is int else default


def selector_cost(length: int) -> int:
    """Return the cost of parsing a selector of `length` characters."""
    requirements = scaled(scaled(length, 0.5), 50.0)
    return plus(plus(10, scaled(length, _TEXT)), requirements)


def _element(target: Argument, sized: Sized) -> tuple[Type, Span] | None:
    """The type and size of a list's items."""
    if not target.kind.params:
        return None
    found = sized((*target.path, "@items")) if target.path else None
    return target.kind.params[0], UNKNOWN if found is None else found


def _traversal(target: Argument, sized: Sized) -> int:
    element = _element(target, sized)
    if element is None:
        return scaled(target.span.most, _TEXT)
    kind, size = element
    each = plus(1, scaled(size.most, _TEXT)) if kind.kind in ("string", "bytes") else 1
    return times(target.span.most, each)


def _replaced(size: Span, old: Span, new: Span) -> Span:
    """The size of a text after replacements, as few and as many as there can be."""
    most_count, most_kept = _replacements(size.most, old.least, shrinks=new.most <= old.least)
    least_count, least_kept = _replacements(size.least, old.most, shrinks=old.most <= new.least)
    return Span(
        plus(times(least_count, new.least), least_kept),
        plus(times(most_count, new.most), most_kept),
    )


def _replacements(size: int, old: int, *, shrinks: bool) -> tuple[int, int]:
    if old == 0:  # between all characters
        return plus(size, 1), size
    if shrinks:
        return 0, size
    return math.ceil(float(size) / float(old)), 0


def _joined(target: Argument, args: Sequence[Argument], sized: Sized) -> Span:
    count = target.span
    element = _element(target, sized)
    size = Span(0, 0) if element is None else count.multiply(element[1])
    if args:
        size = size.add(args[0].span.multiply(Span(max(count.least - 1, 0), max(count.most - 1, 0))))
    return size


def _addresses(name: str, target: Argument | None, args: Sequence[Argument]) -> Cost | None:
    match name:
        case "ip" if target is not None and not args:
            return Cost(1)
        case "ip.isCanonical":
            return Cost(scaled(args[0].span.most, 2 * _TEXT))
        case "containsIP":
            parsed = scaled(args[0].span.most, _TEXT) if args[0].kind.kind != "opaque" else 0
            return Cost(plus(scaled(2 * _ADDRESS, _TEXT), parsed))
        case "containsCIDR":
            parsed = scaled(args[0].span.most, _TEXT) if args[0].kind.kind != "opaque" else 0
            return Cost(plus(scaled(2 * _ADDRESS, _TEXT) + scaled(_ADDRESS, _TEXT) + 1, parsed))
        case _ if name in _PARSED and args:
            return Cost(scaled(args[0].span.most, _TEXT))
        case _:
            return None


def _equality(args: Sequence[Argument]) -> Cost | None:
    left, right = args
    if left.kind.kind != "opaque" or left.kind.name != right.kind.name:
        return None
    match left.kind.name:
        case "kubernetes.NamedFormat":
            return Cost(scaled(_FORMAT_SIZE, _TEXT))
        case "kubernetes.URL":
            return Cost(scaled(1 if right.size is None else right.size.most, _TEXT))
        case _:
            return Cost(1)
