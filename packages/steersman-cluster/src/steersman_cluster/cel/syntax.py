"""Expressions as trees: parsed, with macros expanded, by Google's CEL parser.

The parser (cel-expr-python, the C++ implementation) hands its tree out as a serialized `cel.expr.ParsedExpr`; the few
fields that matter are read here, without a protobuf runtime. Its own checker and evaluator stay unused: they know
neither Kubernetes' object types nor its opaque ones (quantities, addresses), and word their errors differently.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, TypeAlias, cast

__all__ = [
    "Call",
    "CelSyntaxError",
    "Comprehension",
    "Const",
    "Ident",
    "ListOf",
    "MapOf",
    "Node",
    "Parsed",
    "Select",
    "UInt",
    "parse",
]  # fmt: skip


_WIDE_DOT, _WIDE_CARET = "\uff0e", "\uff3e"


class CelSyntaxError(ValueError):
    """The expression cannot be parsed; the text points at the place, as the API server prints it."""


class UInt(int):
    """An unsigned integer, a type of its own in CEL."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Const:
    """A literal: number, string, bytes, bool or null."""

    id: int
    value: Any


@dataclass(frozen=True, slots=True)
class Ident:
    """A variable, a type or the root of a qualified name."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """The selection of a field, or the test whether it is set."""

    id: int
    operand: Node
    field: str
    test: bool
    """`has(…)`."""


@dataclass(frozen=True, slots=True)
class Call:
    """The call of a function, a method (with `target`) or an operator."""

    id: int
    function: str
    target: Node | None
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list literal `[a, b]`."""

    id: int
    elements: tuple[Node, ...]
    optional: frozenset[int]
    """Indexes of elements that are left out where they are none."""


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map expression, or the construction of a message of type `message`."""

    id: int
    entries: tuple[tuple[Node, Node, bool], ...]
    """Key, value, whether the entry is left out where the value is none."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Comprehension:
    """A fold over a list or map, to which macros such as `all` expand."""

    id: int
    item: str
    second: str
    source: Node
    accumulator: str
    initial: Node
    condition: Node
    step: Node
    result: Node


Node: TypeAlias = Const | Ident | Select | Call | ListOf | MapOf | Comprehension


@dataclass(frozen=True, slots=True)
class Parsed:
    """A tree and where its nodes stand in the text."""

    text: str
    root: Node
    positions: dict[int, int] = field(default_factory=dict[int, int])

    def point(self, node_id: int, message: str) -> str:
        """An error message with the line and a caret below it."""
        offset = min(self.positions.get(node_id, 0), len(self.text))
        before = self.text[:offset]
        line, column = before.count("\n"), offset - (before.rfind("\n") + 1)
        shown = self.text.split("\n")[line]
        dots = "".join(_WIDE_DOT if ord(char) > 0x7F else "." for char in shown[:column])
        wide = column < len(shown) and ord(shown[column]) > 0x7F
        return f"ERROR: <input>:{line + 1}:{column + 1}: {message}\n | {shown}\n | {dots}{_WIDE_CARET if wide else '^'}"


@cache
def _environment() -> Any:
    # Ten megabytes that a cluster without rules does not need.
    from cel_expr_python import cel  # pyright: ignore[reportMissingTypeStubs]
    from cel_expr_python.ext import ext_optional  # pyright: ignore[reportMissingTypeStubs]

    return cel.NewEnv(variables={}, extensions=[ext_optional.ExtOptional()])


@lru_cache(maxsize=4096)
def parse(text: str) -> Parsed:
    """Parse an expression; raises CelSyntaxError."""
    try:
        wire = _environment().compile(text, disable_check=True).serialize()
    except RuntimeError as error:
        message = str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
        raise CelSyntaxError(message) from None
    parsed = _last(_fields(wire), 2, b"")
    tree, positions = b"", dict[int, int]()
    for number, value in _fields(parsed):
        if number == 2:
            tree = cast(bytes, value)
        elif number == 3:
            for inner, entry in _fields(cast(bytes, value)):
                if inner == 4:
                    pair = dict(_fields(cast(bytes, entry)))
                    positions[cast(int, pair.get(1, 0))] = cast(int, pair.get(2, 0))
    return Parsed(text, _node(tree), positions)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
            case 1:
                yield tag >> 3, data[at : at + 8]
                at += 8
            case 2:
                size, at = _varint(data, at)
                yield tag >> 3, data[at : at + size]
                at += size
            case _:
                yield tag >> 3, data[at : at + 4]
                at += 4


def _last(fields: Iterator[tuple[int, int | bytes]], number: int, default: Any) -> Any:
    found = default
    for each, value in fields:
        if each == number:
            found = value
    return found


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _text(value: Any) -> str:
    return cast(bytes, value).decode()


def _node(data: bytes) -> Node:  # noqa: C901
    node_id, kind, body = 0, 0, b""
    for number, value in _fields(data):
        if number == 2:
            node_id = cast(int, value)
        elif isinstance(value, bytes):
            kind, body = number, value
    match kind:
        case 3:
            return Const(node_id, _constant(body))
        case 4:
            return Ident(node_id, _text(_last(_fields(body), 1, b"")))
        case 5:
            parts = dict(_fields(body))
            return Select(node_id, _node(cast(bytes, parts[1])), _text(parts[2]), bool(parts.get(3)))
        case 6:
            return _call(node_id, body)
        case 7:
            return _list(node_id, body)
        case 8:
            return _map(node_id, body)
        case 9:
            return _comprehension(node_id, body)
        case _:
            return Const(node_id, None)


def _constant(body: bytes) -> Any:
    for number, value in _fields(body):
        match number:
            case 2:
                return bool(value)
            case 3:
                return _signed(cast(int, value))
            case 4:
                return UInt(cast(int, value))
            case 5:
                return struct.unpack("<d", cast(bytes, value))[0]
            case 6:
                return _text(value)
            case 7:
                return cast(bytes, value)
            case _:
                return None
    return None


def _call(node_id: int, body: bytes) -> Call:
    target: Node | None = None
    name, args = "", list[Node]()
    for number, value in _fields(body):
        match number:
            case 1:
                target = _node(cast(bytes, value))
            case 2:
                name = _text(value)
            case _:
                args.append(_node(cast(bytes, value)))
    return Call(node_id, name, target, tuple(args))


def _list(node_id: int, body: bytes) -> ListOf:
    elements, optional = list[Node](), set[int]()
    for number, value in _fields(body):
        if number == 1:
            elements.append(_node(cast(bytes, value)))
        elif isinstance(value, int):
            optional.add(value)
        else:
            at = 0
            while at < len(value):
                index, at = _varint(value, at)
                optional.add(index)
    return ListOf(node_id, tuple(elements), frozenset(optional))


def _map(node_id: int, body: bytes) -> MapOf:
    message, entries = "", list[tuple[Node, Node, bool]]()
    for number, value in _fields(body):
        if number == 1:
            message = _text(value)
            continue
        parts = dict(_fields(cast(bytes, value)))
        key = (
            _node(cast(bytes, parts[3])) if 3 in parts else Const(cast(int, parts.get(1, 0)), _text(parts.get(2, b"")))
        )
        entries.append((key, _node(cast(bytes, parts[4])), bool(parts.get(5))))
    return MapOf(node_id, tuple(entries), message)


def _comprehension(node_id: int, body: bytes) -> Comprehension:
    parts = dict(_fields(body))

    def node(number: int) -> Node:
        return _node(cast(bytes, parts[number]))

    return Comprehension(
        node_id,
        item=_text(parts.get(1, b"")),
        second=_text(parts.get(8, b"")),
        source=node(2),
        accumulator=_text(parts.get(3, b"")),
        initial=node(4),
        condition=node(5),
        step=node(6),
        result=node(7),
    )
