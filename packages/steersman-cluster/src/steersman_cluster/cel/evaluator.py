"""A checked expression as one closure: what runs on every write.

Each node becomes a function of the variables; what the checker knows (fields' real names, types to convert from JSON,
which calls have which costs) is decided once. Among the variables is the meter that each closure charges.
"""

from __future__ import annotations

from typing import Any, Final

from steersman_cluster.cel.actual_cost import call_cost
from steersman_cluster.cel.attributes import (
    NamedValue,
    Run,
    Scope,
    chain,
    field,
    index,
    named_variable,
    optional_field,
    optional_index,
    present,
    variable,
)
from steersman_cluster.cel.calls import call
from steersman_cluster.cel.checker import Checked
from steersman_cluster.cel.declarations import type_names
from steersman_cluster.cel.functions import STANDARD
from steersman_cluster.cel.libraries import LIBRARIES
from steersman_cluster.cel.logic import (
    choice,
    collect,
    decide,
    either,
    invert,
    iterable,
    not_strictly_false,
    or_else,
)
from steersman_cluster.cel.meter import METER
from steersman_cluster.cel.patches import Message
from steersman_cluster.cel.syntax import Call, Comprehension, Const, Ident, ListOf, MapOf, Node, Select
from steersman_cluster.cel.types import ANY, Type
from steersman_cluster.cel.values import NONE, CelError, TypeValue, converter

__all__ = ["evaluator"]

_CONVERSIONS: Final = frozenset({
    "bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint",
})  # fmt: skip
_ATTRIBUTES: Final = frozenset({"_[_]", "_[?_]", "_?._", "_?_:_"})
_LIST_COST: Final = 10
_MAP_COST: Final = 30
_MESSAGE_COST: Final = 40


def evaluator(checked: Checked, raw: frozenset[str]) -> Run:
    """The closure of an expression; `raw` are the variables that hold JSON, to be converted by their type."""
    return _Builder(checked, set(raw)).build(checked.parsed.root)


class _Builder:
    def __init__(self, checked: Checked, raw: set[str]) -> None:
        self.checked = checked
        self.raw = raw
        self.named: frozenset[str] = frozenset()
        """The variables that hold values to be evaluated when they are read."""

    def type_of(self, node: Node) -> Type:
        return self.checked.types.get(node.id, ANY)

    def build(self, node: Node) -> Run:
        """The node's value, with all that it costs."""
        if self.is_attribute(node):
            return self.attribute(node, 0 if _begins_with_choice(node) else 1)
        match node:
            case Const():
                value = node.value
                return lambda scope: value
            case Ident():
                found = TypeValue(node.name)
                return lambda scope: found
            case Call():
                return self._call(node)
            case ListOf():
                return self._list(node)
            case MapOf():
                return self._map(node)
            case Comprehension():
                return self._comprehension(node)
            case Select():
                raise AssertionError("a selection is an attribute")

    def is_attribute(self, node: Node) -> bool:
        """Return whether cel-go reads the node as a variable with steps after it, or as a choice of such."""
        match node:
            case Ident():
                return node.name not in type_names() or node.name in self.checked.used
            case Select():
                return True
            case Call():
                return node.function in _ATTRIBUTES and node.id not in self.checked.qualified
            case _:
                return False

    def is_constant(self, node: Node) -> bool:
        """Return whether cel-go computes the node when it plans the expression, so that it costs nothing later."""
        match node:
            case Const():
                return True
            case Ident():
                return not self.is_attribute(node)
            case ListOf():
                return not node.optional and all(map(self.is_constant, node.elements))
            case MapOf():
                return not node.message and all(
                    not optional and self.is_constant(key) and self.is_constant(value)
                    for key, value, optional in node.entries
                )
            case Call(function="@in", args=(_, ListOf(elements=()))):
                return True
            case Call():
                return (
                    node.function in _CONVERSIONS
                    and node.target is None
                    and len(node.args) == 1
                    and self.is_constant(node.args[0])
                )
            case _:
                return False

    def attribute(self, node: Node, own: int) -> Run:
        """The value of an attribute; `own` is its cost beyond that of its steps."""
        run = self.path(node, own)
        if run is None:
            return self._attribute(node, own)
        convert = converter(self.type_of(node))
        if convert is None:
            return run

        def converted(scope: Scope) -> Any:
            value = run(scope)
            return None if value is None else convert(value)

        return converted

    def path(self, node: Node, own: int) -> Run | None:
        """The JSON at a path of fields and indexes into a raw variable; `None` where the node is none."""
        match node:
            case Ident() if node.name in self.raw:
                return variable(node.name, own)
            case Select() if not node.test:
                if (names := self._names(node)) is not None and names[0] in self.raw:
                    return chain(names[0], names[1:], own)
                inner = self.path(node.operand, 0)
                return None if inner is None else field(inner, self._name(node.operand, node.field), own)
            case Call(function="_[_]") if len(node.args) == 2 and self.type_of(node.args[0]).kind in ("list", "map"):
                inner = self.path(node.args[0], 0)
                return None if inner is None else index(inner, self._operand(node.args[1]), own)
            case _:
                return None

    def _names(self, node: Node) -> tuple[str, ...] | None:
        """The variable and the fields of a chain of nothing else."""
        match node:
            case Ident() if self.is_attribute(node) and node.name not in self.named:
                return (node.name,)
            case Select() if not node.test:
                before = self._names(node.operand)
                return None if before is None else (*before, self._name(node.operand, node.field))
            case _:
                return None

    def _attribute(self, node: Node, own: int) -> Run:
        match node:
            case Ident():
                return (named_variable if node.name in self.named else variable)(node.name, own)
            case Select() if node.test:
                return present(self.path(node.operand, 0) or self._operand(node.operand), self._name_of(node))
            case Select():
                if (names := self._names(node)) is not None and names[0] not in self.raw:
                    return chain(names[0], names[1:], own)
                return field(self._operand(node.operand), self._name_of(node), own)
            case Call(function="_?_:_"):
                condition, yes, no = node.args
                return choice(self.build(condition), self._operand(yes), self._operand(no))
            case Call(function="_?._"):
                return self._optional_field(node, own)
            case Call(function="_[?_]"):
                return optional_index(self._operand(node.args[0]), self._operand(node.args[1]), own)
            case Call():
                return index(self._operand(node.args[0]), self._operand(node.args[1]), own)
            case _:
                raise AssertionError(f"{node} is no attribute")

    def _operand(self, node: Node) -> Run:
        """Return the start of a longer attribute."""
        return self.attribute(node, 0) if self.is_attribute(node) else self.build(node)

    def _name_of(self, node: Select) -> str:
        return self._name(node.operand, node.field)

    def _name(self, operand: Node, name: str) -> str:
        """The field's name in JSON."""
        kind = self.type_of(operand)
        if kind.kind == "optional":
            kind = kind.params[0]
        return kind.fields[name][0] if kind.kind == "object" and name in kind.fields else name

    def _call(self, node: Call) -> Run:
        qualified = self.checked.qualified.get(node.id)
        if qualified is not None:
            return self._function(node, qualified, list(node.args))
        args = ([node.target] if node.target is not None else []) + list(node.args)
        match node.function:
            case "@in" if self.is_constant(node):
                return lambda scope: False
            case "_&&_":
                return either(self.build(args[0]), self.build(args[1]), "_&&_", decisive=False)
            case "_||_":
                return either(self.build(args[0]), self.build(args[1]), "_||_", decisive=True)
            case "!_":
                return invert(self.build(args[0]))
            case "@not_strictly_false":
                return not_strictly_false(self.build(args[0]))
            case "or" | "orValue" if len(args) == 2:
                return or_else(self.build(args[0]), self.build(args[1]), unwrap=node.function == "orValue")
            case _:
                return self._function(node, node.function, args)

    def _function(self, node: Call, name: str, nodes: list[Node]) -> Run:
        function = LIBRARIES.get(name) or STANDARD[name]
        overloads = self.checked.overloads.get(node.id, ())
        free = self.is_constant(node) or self._is_lookup(node)
        cost = 0 if free else call_cost(name, overloads, [self.type_of(each).kind for each in nodes])
        return call(function, [self.build(each) for each in nodes], cost)

    def _is_lookup(self, node: Call) -> bool:
        """Return whether a call is an `in` on a constant list, which cel-go makes into a set."""
        overloads = self.checked.overloads.get(node.id, ())
        if node.function != "@in" or len(overloads) != 1 or overloads[0].params[1].kind != "list":
            return False
        items = node.args[1]
        return isinstance(items, ListOf) and not items.optional and all(map(_is_scalar, items.elements))

    def _optional_field(self, node: Call, own: int) -> Run:
        operand, name = node.args
        assert isinstance(name, Const)
        path = self.path(operand, 0)
        kind = self.type_of(node)
        convert = converter(kind.params[0]) if path is not None and kind.kind == "optional" else None
        shown = self._name(operand, str(name.value))
        return optional_field(path or self._operand(operand), shown, convert, own)

    def _list(self, node: ListOf) -> Run:
        parts = [(self.build(each), index in node.optional) for index, each in enumerate(node.elements)]
        cost = 0 if self.is_constant(node) else _LIST_COST
        if not node.optional:
            plain = [part for part, _ in parts]

            def literal(scope: Scope) -> Any:
                scope[METER].spent += cost
                return [part(scope) for part in plain]

            return literal

        def run(scope: Scope) -> Any:
            scope[METER].spent += cost
            found: list[Any] = []
            for part, optional in parts:
                value = part(scope)
                if not optional:
                    found.append(value)
                elif value is not NONE:
                    found.append(value.value)
            return found

        return run

    def _map(self, node: MapOf) -> Run:
        parts = [(self.build(key), self.build(value), optional) for key, value, optional in node.entries]
        cost = 0 if self.is_constant(node) else _MESSAGE_COST if node.message else _MAP_COST
        kind = node.message

        def run(scope: Scope) -> Any:
            scope[METER].spent += cost
            found: dict[Any, Any] = {}
            for key, value, optional in parts:
                name, item = key(scope), value(scope)
                if name in found:
                    raise CelError(f"Failed with repeated key {name}")
                if not optional:
                    found[name] = item
                elif item is not NONE:
                    found[name] = item.value
            return Message(kind, found) if kind else found

        return run

    def _comprehension(self, node: Comprehension) -> Run:
        if _names_a_value(node):
            return self._named(node)
        # A loop reads its range as a value: the unit that an attribute costs at its end is paid here.
        path = self.path(node.source, 1)
        source = path or self.build(node.source)
        value_name = node.second or node.item
        added = path is not None and self.type_of(node.source).kind == "list" and value_name not in self.raw
        if added:
            self.raw.add(value_name)
        named = self.named
        self.named = named - {node.item, node.second, node.accumulator}
        try:
            return self._loop(node, source)
        finally:
            self.named = named
            if added:
                self.raw.discard(value_name)

    def _named(self, node: Comprehension) -> Run:
        """A value with a name, evaluated where it is first read."""
        name, value = node.accumulator, self.build(node.initial)
        before = self.named
        self.named = before | {name}
        result = self.build(node.result)
        self.named = before

        def run(scope: Scope) -> Any:
            return result({**scope, name: NamedValue(value, scope)})

        return run

    def _loop(self, node: Comprehension, source: Run) -> Run:
        step = node.step
        initial = node.initial
        if isinstance(initial, Const) and isinstance(step, Call) and not node.second and len(step.args) == 2:
            accumulated = step.args[0]
            if isinstance(accumulated, Ident) and accumulated.name == node.accumulator:
                if step.function == "_&&_" and initial.value is True:
                    return decide(node.item, source, self.build(step.args[1]), until=False)
                if step.function == "_||_" and initial.value is False:
                    return decide(node.item, source, self.build(step.args[1]), until=True)
        if (collected := self._collected(node)) is not None:
            return collect(node.item, source, *collected)
        start, condition = self.build(initial), self.build(node.condition)
        advance, result = self.build(step), self.build(node.result)
        item_name, second, accumulator = node.item, node.second, node.accumulator

        def run(scope: Scope) -> Any:
            values = iterable(source(scope))
            meter = scope[METER]
            inner = dict(scope)
            inner[accumulator] = start(scope)
            for at, value in enumerate(values):
                if second:
                    inner[item_name], inner[second] = (
                        (value, values[value]) if isinstance(values, dict) else (at, value)
                    )
                else:
                    inner[item_name] = value
                if condition(inner) is False:
                    break
                inner[accumulator] = advance(inner)
                meter.charge(0)
            return result(inner)

        return run

    def _collected(self, node: Comprehension) -> tuple[Run | None, Run, int] | None:
        """Return the parts of `map` and `filter`: the condition if any, the element, the cost of appending."""
        initial, step = node.initial, node.step
        if node.second or not isinstance(initial, ListOf) or initial.elements:
            return None
        condition: Node | None = None
        if isinstance(step, Call) and step.function == "_?_:_":
            condition, step = step.args[0], step.args[1]
        if not isinstance(step, Call) or step.function != "_+_" or not isinstance(step.args[1], ListOf):
            return None
        accumulated, added = step.args
        if not isinstance(accumulated, Ident) or accumulated.name != node.accumulator:
            return None
        if not isinstance(added, ListOf) or len(added.elements) != 1 or added.optional:
            return None
        cost = 2 + (0 if self.is_constant(added) else _LIST_COST)
        return None if condition is None else self.build(condition), self.build(added.elements[0]), cost


def _names_a_value(node: Comprehension) -> bool:
    """Return whether a comprehension runs over nothing, to name a value (`optMap`)."""
    return (
        isinstance(node.source, ListOf)
        and not node.source.elements
        and isinstance(node.condition, Const)
        and node.condition.value is False
    )


def _begins_with_choice(node: Node) -> bool:
    """Return whether the steps of an attribute begin at a condition, which does not cost what a variable costs."""
    match node:
        case Select(operand=operand):
            return _begins_with_choice(operand)
        case Call(function="_[_]" | "_[?_]" | "_?._", args=(operand, _)):
            return _begins_with_choice(operand)
        case Call(function=function):
            return function == "_?_:_"
        case _:
            return False


def _is_scalar(node: Node) -> bool:
    return isinstance(node, Const) and isinstance(node.value, bool | int | float | str)
