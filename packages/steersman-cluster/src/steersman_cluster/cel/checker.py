"""Type checking of expressions before they are evaluated.

It finds unknown variables, fields and functions, and calls without a matching overload; errors have the API server's
message, position and caret. A dynamic type is checked at evaluation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from steersman.regex import compile_pattern
from steersman_cluster.cel.declarations import Overload, functions, type_names
from steersman_cluster.cel.formats import parse_duration
from steersman_cluster.cel.patches import field_of, is_message, message
from steersman_cluster.cel.syntax import (
    Call,
    Comprehension,
    Const,
    Ident,
    ListOf,
    MapOf,
    Node,
    Parsed,
    Select,
    UInt,
)
from steersman_cluster.cel.types import (
    ANY,
    BOOL,
    BYTES,
    DOUBLE,
    INT,
    NULL,
    STRING,
    UINT,
    Type,
    list_of,
    map_of,
    optional_of,
    parameters,
    same,
    substitute,
    unify,
)

__all__ = ["Checked", "check"]

_CONSTANTS: Sequence[tuple[type, Type]] = (
    (bool, BOOL), (UInt, UINT), (int, INT), (float, DOUBLE), (str, STRING), (bytes, BYTES),
)  # fmt: skip
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_OPTIONAL_FIELD = Overload((ANY, STRING), ANY, member=False)
_NAMESPACES = frozenset({"sets", "strings", "lists", "optional", "format", "ip", "math", "cel", "jsonpatch"})


@dataclass(slots=True)
class Checked:
    """The result of the checker: types and qualified functions by node, used variables, errors."""

    parsed: Parsed
    types: dict[int, Type] = field(default_factory=dict[int, Type])
    qualified: dict[int, str] = field(default_factory=dict[int, str])
    """Calls with a namespace (`sets.contains`) as the receiver."""
    overloads: dict[int, tuple[Overload, ...]] = field(default_factory=dict[int, tuple[Overload, ...]])
    """The signatures that each call may mean; several, where an argument is dynamic."""
    used: set[str] = field(default_factory=set[str])
    errors: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    @property
    def result(self) -> Type:
        """The type of the whole expression; elements of an empty list or map are dynamic."""
        return substitute(self.types.get(self.parsed.root.id, ANY), {})

    @property
    def report(self) -> str:
        """All errors, by position, each with its line."""
        ordered = sorted(self.errors, key=lambda error: self.parsed.positions.get(error[0], 0))
        return "\n".join(self.parsed.point(node_id, message) for node_id, message in ordered)


def check(parsed: Parsed, variables: Mapping[str, Type], *, patches: bool = False) -> Checked:
    """Check an expression against the types of its variables; `patches` adds the types of patch expressions."""
    checker = _Checker(Checked(parsed), dict(variables), patches=patches)
    checker.visit(parsed.root)
    return checker.found


class _Checker:
    def __init__(self, found: Checked, scope: dict[str, Type], *, patches: bool) -> None:
        self.patches = patches
        self.found = found
        self.scope = scope
        self.functions = functions()

    def fail(self, node: Node, message: str) -> Type:
        self.found.errors.append((node.id, message))
        return ANY

    def visit(self, node: Node) -> Type:
        kind = self._visit(node)
        self.found.types[node.id] = kind
        return kind

    def _visit(self, node: Node) -> Type:
        match node:
            case Const():
                return _constant(node.value)
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListOf():
                return self._list(node)
            case MapOf():
                return self._map(node)
            case Comprehension():
                return self._comprehension(node)

    def _ident(self, node: Ident) -> Type:
        if node.name in self.scope:
            self.found.used.add(node.name)
            return self.scope[node.name]
        if node.name in type_names():
            return type_names()[node.name]
        return self.fail(node, f"undeclared reference to '{node.name}' (in container '')")

    def _select(self, node: Select) -> Type:
        operand = self.visit(node.operand)
        result = self._field(node, operand, node.field)
        return BOOL if node.test else result

    def _field(self, node: Node, operand: Type, name: str) -> Type:
        match operand.kind:
            case "object":
                if name in operand.fields:
                    return operand.fields[name][1]
                return self.fail(node, f"undefined field '{name}'")
            case "map":
                return operand.params[1]
            case "optional":
                return optional_of(self._field(node, operand.params[0], name))
            case "dyn":
                return ANY
            case "message":
                return field_of(operand, name) or self.fail(node, f"undefined field '{name}'")
            case _:
                return self.fail(node, f"type '{operand}' does not support field selection")

    def _call(self, node: Call) -> Type:
        if node.function == "_?._":
            operand = self.visit(node.args[0])
            name = node.args[1]
            self.visit(name)
            inner = operand.params[0] if operand.kind == "optional" else operand
            chosen = self._field(node, inner, str(name.value)) if isinstance(name, Const) else ANY
            self.found.overloads[node.id] = (_OPTIONAL_FIELD,)
            return chosen if chosen.kind == "optional" else optional_of(chosen)
        name, target = node.function, node.target
        if isinstance(target, Ident) and target.name not in self.scope and target.name in _NAMESPACES:
            full = f"{target.name}.{name}"
            if full in self.functions and (self.patches or target.name != "jsonpatch"):
                self.found.qualified[node.id] = full
                return self._resolve(node, full, [self.visit(arg) for arg in node.args], member=False)
        if name not in self.functions:
            for arg in (*((target,) if target else ()), *node.args):
                self.visit(arg)
            return self.fail(node, f"undeclared reference to '{name}' (in container '')")
        given = [self.visit(target)] if target is not None else []
        given += [self._mixed(arg) if name == "format" else self.visit(arg) for arg in node.args]
        self._literals(node)
        return self._resolve(node, name, given, member=target is not None)

    def _resolve(self, node: Call, name: str, given: list[Type], *, member: bool) -> Type:
        results: list[Type] = []
        taken: list[Overload] = []
        for overload in self.functions[name]:
            result = _apply(overload, given, member=member)
            if result is not None:
                results.append(result)
                taken.append(overload)
        self.found.overloads[node.id] = tuple(taken)
        if not results:
            shown = f"{given[0]}.{parameters(given[1:])}" if member else parameters(given)
            return self.fail(node, f"found no matching overload for '{name}' applied to '{shown}'")
        first = results[0]
        return first if all(same(first, other) for other in results[1:]) else ANY

    def _literals(self, node: Call) -> None:
        """Durations, times and expressions that are literals must be good ones."""
        args = node.args
        if node.function == "matches" and args and isinstance(args[-1], Const) and isinstance(args[-1].value, str):
            try:
                compile_pattern(args[-1].value)
            except ValueError:
                self.fail(args[-1], "invalid matches argument")
        if not args or not isinstance(args[0], Const) or not isinstance(args[0].value, str):
            return
        text = args[0].value
        if node.function == "duration" and (not re.search(r"[a-zµ]", text) or parse_duration(text) is None):
            self.fail(args[0], "invalid duration argument")
        if node.function == "timestamp" and not _TIMESTAMP.fullmatch(text):
            self.fail(args[0], "invalid timestamp argument")

    def _list(self, node: ListOf) -> Type:
        element: Type | None = None
        for index, each in enumerate(node.elements):
            kind = self.visit(each)
            if index in node.optional and kind.kind == "optional":
                kind = kind.params[0]
            element = self._join(each, element, kind)
        return list_of(element or Type("param", (), "@element"))

    def _mixed(self, node: Node) -> Type:
        """The values to format, which may be of any types."""
        if not isinstance(node, ListOf):
            return self.visit(node)
        for each in node.elements:
            self.visit(each)
        self.found.types[node.id] = list_of(ANY)
        return list_of(ANY)

    def _map(self, node: MapOf) -> Type:
        if node.message and self.patches and is_message(node.message):
            return self._message(node)
        if node.message:
            positions = self.found.parsed.positions
            positions[node.id] = self.found.parsed.text.find("{", positions.get(node.id, 0))  # where cel-go places it
            return self.fail(node, f"undeclared reference to '{node.message}' (in container '')")
        key: Type | None = None
        value: Type | None = None
        for entry_key, entry_value, optional in node.entries:
            key = self._join(entry_key, key, self.visit(entry_key))
            kind = self.visit(entry_value)
            value = self._join(entry_value, value, kind.params[0] if optional and kind.kind == "optional" else kind)
        free = Type("param", (), "@element")
        return map_of(key or free, value or free)

    def _message(self, node: MapOf) -> Type:
        kind = message(node.message)
        for key, entry, optional in node.entries:
            name = str(key.value) if isinstance(key, Const) else ""
            given = self.visit(entry)
            if optional and given.kind == "optional":
                given = given.params[0]
            wanted = field_of(kind, name)
            if wanted is None:
                self.fail(key, f"undefined field '{name}'")
            elif not unify(wanted, given, {}):
                self.fail(key, f"expected type of field '{name}' is '{wanted}' but provided type is '{given}'")
        return kind

    def _join(self, node: Node, known: Type | None, kind: Type) -> Type:
        """Literals hold values of one type, unless some are dynamic."""
        if known is None or same(known, kind):
            return kind
        if unify(known, kind, {}):
            return known
        if unify(kind, known, {}):
            return kind
        self.fail(node, f"expected type '{known}' but found '{kind}'")
        return ANY

    def _comprehension(self, node: Comprehension) -> Type:
        source = self.visit(node.source)
        first, second = self._items(node, source)
        initial = self.visit(node.initial)
        before = dict(self.scope)
        self.scope[node.accumulator] = initial
        self.scope[node.item] = first
        if node.second:
            self.scope[node.second] = second
        self.visit(node.condition)
        step = self.visit(node.step)
        self.scope = {**before, node.accumulator: _wider(initial, step)}
        result = self.visit(node.result)
        self.scope = before
        return result

    def _items(self, node: Comprehension, source: Type) -> tuple[Type, Type]:
        match source.kind:
            case "list":
                element = source.params[0]
                return (INT, element) if node.second else (element, ANY)
            case "map":
                return source.params[0], source.params[1]
            case "dyn":
                return ANY, ANY
            case _:
                text = (
                    f"expression of type '{source}' cannot be range of a comprehension (must be list, map, or dynamic)"
                )
                self.fail(node.source, text)
                return ANY, ANY


def _wider(initial: Type, step: Type) -> Type:
    """The type of an accumulator that began empty."""
    return step if any(param.kind == "param" for param in initial.params) else initial


def _constant(value: Any) -> Type:
    for cls, kind in _CONSTANTS:
        if isinstance(value, cls):
            return kind
    return NULL


def _apply(overload: Overload, given: Sequence[Type], *, member: bool) -> Type | None:
    """The result of an overload for these arguments; `None` where it does not take them."""
    if overload.member != member or len(overload.params) != len(given):
        return None
    bound: dict[str, Type] = {}
    for formal, actual in zip(overload.params, given, strict=True):
        if not unify(formal, actual, bound):
            return None
    return substitute(overload.result, bound)
