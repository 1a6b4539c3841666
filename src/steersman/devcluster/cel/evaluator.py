"""A checked expression as one closure: what runs on every write.

Each node becomes a function of the variables; what the checker knows (fields' real names, types to convert from JSON)
is decided once. `&&`, `||`, `all` and `exists` forgive errors that the other side makes irrelevant, as CEL demands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

from steersman.devcluster.cel.checker import Checked
from steersman.devcluster.cel.declarations import type_names
from steersman.devcluster.cel.functions import STANDARD, no_overload
from steersman.devcluster.cel.libraries import LIBRARIES
from steersman.devcluster.cel.syntax import Call, Comprehension, Const, Ident, ListOf, MapOf, Node, Select
from steersman.devcluster.cel.types import ANY, Type
from steersman.devcluster.cel.values import NONE, CelError, Optional, TypeValue, converter, type_name

__all__ = ["Scope", "evaluator"]

Scope: TypeAlias = dict[str, Any]
Run: TypeAlias = Callable[[Scope], Any]


def evaluator(checked: Checked, raw: frozenset[str]) -> Run:
    """The closure of an expression; `raw` are the variables that hold JSON, to be converted by their type."""
    return _Builder(checked, set(raw)).build(checked.parsed.root)


class _Builder:
    def __init__(self, checked: Checked, raw: set[str]) -> None:
        self.checked = checked
        self.raw = raw

    def type_of(self, node: Node) -> Type:
        return self.checked.types.get(node.id, ANY)

    def build(self, node: Node) -> Run:
        """The node's value."""
        run = self.path(node)
        if run is None:
            return self._build(node)
        convert = converter(self.type_of(node))
        if convert is None:
            return run

        def converted(scope: Scope) -> Any:
            value = run(scope)
            return None if value is None else convert(value)

        return converted

    def path(self, node: Node) -> Run | None:
        """The JSON at a path of fields and indexes into a raw variable; `None` where the node is none."""
        match node:
            case Ident() if node.name in self.raw:
                return _variable(node.name)
            case Select() if not node.test:
                inner = self.path(node.operand)
                return None if inner is None else self._field(node, inner)
            case Call(function="_[_]") if len(node.args) == 2 and self.type_of(node.args[0]).kind in ("list", "map"):
                inner = self.path(node.args[0])
                return None if inner is None else _apply2(STANDARD["_[_]"], inner, self.build(node.args[1]))
            case _:
                return None

    def _build(self, node: Node) -> Run:
        match node:
            case Const():
                value = node.value
                return lambda scope: value
            case Ident():
                if node.name in type_names() and node.name not in self.checked.used:
                    found = TypeValue(node.name)
                    return lambda scope: found
                return _variable(node.name)
            case Select():
                inner = self.path(node.operand) or self.build(node.operand)
                return self._present(node, inner) if node.test else self._field(node, inner)
            case Call():
                return self._call(node)
            case ListOf():
                return self._list(node)
            case MapOf():
                return self._map(node)
            case Comprehension():
                return self._comprehension(node)

    def _name(self, operand: Node, name: str) -> str:
        """The field's name in JSON."""
        kind = self.type_of(operand)
        if kind.kind == "optional":
            kind = kind.params[0]
        return kind.fields[name][0] if kind.kind == "object" and name in kind.fields else name

    def _field(self, node: Select, inner: Run) -> Run:
        name = self._name(node.operand, node.field)

        def run(scope: Scope) -> Any:
            value = inner(scope)
            try:
                return value[name]
            except KeyError:
                raise CelError(f"no such key: {name}") from None
            except TypeError:
                return _select(value, name)

        return run

    def _present(self, node: Select, inner: Run) -> Run:
        name = self._name(node.operand, node.field)

        def run(scope: Scope) -> Any:
            value = inner(scope)
            if isinstance(value, dict):
                return name in value
            if isinstance(value, Optional):
                return value is not NONE and _has(value.value, name)
            raise CelError(f"no such overload: {type_name(value)}.{name}")

        return run

    def _call(self, node: Call) -> Run:
        if node.id in self.checked.qualified:
            return self._function(self.checked.qualified[node.id], list(node.args))
        match node.function:
            case "_&&_":
                return _and(self.build(node.args[0]), self.build(node.args[1]))
            case "_||_":
                return _or(self.build(node.args[0]), self.build(node.args[1]))
            case "!_":
                return _not(self.build(node.args[0]))
            case "_?_:_":
                return _choice(*(self.build(arg) for arg in node.args))
            case "@not_strictly_false":
                return _not_false(self.build(node.args[0]))
            case "_?._":
                return self._optional_field(node)
            case _:
                args = ([node.target] if node.target is not None else []) + list(node.args)
                return self._function(node.function, args)

    def _function(self, name: str, nodes: list[Node]) -> Run:
        function = LIBRARIES.get(name) or STANDARD[name]
        args = [self.build(node) for node in nodes]
        if len(args) == 1:
            only = args[0]
            return lambda scope: function(only(scope))
        if len(args) == 2:
            return _apply2(function, args[0], args[1])
        return lambda scope: function(*(arg(scope) for arg in args))

    def _optional_field(self, node: Call) -> Run:
        operand, field = node.args
        path = self.path(operand)
        inner = path or self.build(operand)
        name = self._name(operand, str(cast(Const, field).value))
        kind = self.type_of(node)
        convert = converter(kind.params[0]) if path is not None and kind.kind == "optional" else None

        def run(scope: Scope) -> Any:
            value = inner(scope)
            if isinstance(value, Optional):
                if value is NONE:
                    return NONE
                value = value.value
            if not isinstance(value, dict):
                raise CelError(f"no such overload: {type_name(value)}.{name}")
            items = cast("dict[str, Any]", value)
            if name not in items:
                return NONE
            found = items[name]
            return Optional(convert(found) if convert is not None and found is not None else found)

        return run

    def _list(self, node: ListOf) -> Run:
        parts = [(self.build(each), index in node.optional) for index, each in enumerate(node.elements)]
        if not node.optional:
            plain = [part for part, _ in parts]
            return lambda scope: [part(scope) for part in plain]

        def run(scope: Scope) -> Any:
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

        def run(scope: Scope) -> Any:
            found: dict[Any, Any] = {}
            for key, value, optional in parts:
                name, item = key(scope), value(scope)
                if name in found:
                    raise CelError(f"Failed with repeated key {name}")
                if not optional:
                    found[name] = item
                elif item is not NONE:
                    found[name] = item.value
            return found

        return run

    def _comprehension(self, node: Comprehension) -> Run:
        path = self.path(node.source)
        source = path or self.build(node.source)
        value_name = node.second or node.item
        added = path is not None and self.type_of(node.source).kind == "list" and value_name not in self.raw
        if added:
            self.raw.add(value_name)
        try:
            return self._loop(node, source)
        finally:
            if added:
                self.raw.discard(value_name)

    def _loop(self, node: Comprehension, source: Run) -> Run:
        step = node.step
        initial = node.initial
        if isinstance(initial, Const) and isinstance(step, Call) and not node.second and len(step.args) == 2:
            accumulated = step.args[0]
            if isinstance(accumulated, Ident) and accumulated.name == node.accumulator:
                if step.function == "_&&_" and initial.value is True:
                    return _decide(node.item, source, self.build(step.args[1]), until=False)
                if step.function == "_||_" and initial.value is False:
                    return _decide(node.item, source, self.build(step.args[1]), until=True)
        start, condition = self.build(initial), self.build(node.condition)
        advance, result = self.build(step), self.build(node.result)
        item_name, second, accumulator = node.item, node.second, node.accumulator

        def run(scope: Scope) -> Any:
            values = _iterable(source(scope))
            inner = dict(scope)
            inner[accumulator] = start(scope)
            for index, value in enumerate(values):
                if second:
                    inner[item_name], inner[second] = (
                        (value, values[value]) if isinstance(values, dict) else (index, value)
                    )
                else:
                    inner[item_name] = value
                if condition(inner) is False:
                    break
                inner[accumulator] = advance(inner)
            return result(inner)

        return run


def _variable(name: str) -> Run:
    def run(scope: Scope) -> Any:
        try:
            return scope[name]
        except KeyError:
            raise CelError(f"no such attribute(s): {name}") from None

    return run


def _select(value: Any, name: str) -> Any:
    if isinstance(value, Optional):
        if value is NONE:
            return NONE
        if _has(value.value, name):
            return Optional(cast("dict[str, Any]", value.value)[name])
        return NONE
    raise CelError(f"no such overload: {type_name(value)}.{name}")


def _has(value: Any, name: str) -> bool:
    return isinstance(value, dict) and name in value


def _iterable(value: Any) -> Any:
    if isinstance(value, list | dict):
        return cast(Any, value)
    raise CelError(f"no such overload: {type_name(value)}")


def _apply2(function: Callable[..., Any], left: Run, right: Run) -> Run:
    return lambda scope: function(left(scope), right(scope))


def _and(left: Run, right: Run) -> Run:
    return _either(left, right, "_&&_", decisive=False)


def _or(left: Run, right: Run) -> Run:
    return _either(left, right, "_||_", decisive=True)


def _either(left: Run, right: Run, name: str, *, decisive: bool) -> Run:
    def run(scope: Scope) -> Any:
        failed: CelError | None = None
        first: Any = None
        try:
            first = left(scope)
            if first is decisive:
                return decisive
        except CelError as error:
            failed = error
        second = right(scope) if failed is None else _ignoring(right, scope, failed)
        if second is decisive:
            return decisive
        if failed is not None:
            raise failed
        if first is (not decisive) and second is (not decisive):
            return not decisive
        raise no_overload(name, first, second)

    return run


def _ignoring(run: Run, scope: Scope, failed: CelError) -> Any:
    try:
        return run(scope)
    except CelError:
        raise failed from None


def _not(inner: Run) -> Run:
    def run(scope: Scope) -> Any:
        value = inner(scope)
        if value is True or value is False:
            return not value
        raise no_overload("!_", value)

    return run


def _choice(condition: Run, yes: Run, no: Run) -> Run:
    def run(scope: Scope) -> Any:
        chosen = condition(scope)
        if chosen is True:
            return yes(scope)
        if chosen is False:
            return no(scope)
        raise CelError("no such overload")

    return run


def _not_false(inner: Run) -> Run:
    def run(scope: Scope) -> Any:
        try:
            return inner(scope) is not False
        except CelError:
            return True

    return run


def _decide(name: str, source: Run, predicate: Run, *, until: bool) -> Run:
    """`all` and `exists`: the first decisive item decides, an error only where none does."""

    def run(scope: Scope) -> Any:
        failed: CelError | None = None
        inner = dict(scope)
        for item in _iterable(source(scope)):
            inner[name] = item
            try:
                found = predicate(inner)
            except CelError as error:
                failed = failed or error
                continue
            if found is until:
                return until
            if found is not (not until):
                failed = failed or CelError("no such overload")
        if failed is not None:
            raise failed
        return not until

    return run
