"""Reading variables and their parts, as closures: what an expression costs and converts most.

cel-go calls a variable with the fields and indexes after it an attribute. It costs one unit for each step and one for
the value; `own` is that last one, which the outermost closure pays: 0 inside of a longer attribute and in the branches
of a condition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

from steersman_cluster.cel.functions import STANDARD
from steersman_cluster.cel.meter import METER
from steersman_cluster.cel.values import NONE, CelError, Optional, type_name

__all__ = [
    "NamedValue",
    "Run",
    "Scope",
    "chain",
    "field",
    "index",
    "named_variable",
    "optional_field",
    "optional_index",
    "present",
    "variable",
]

Scope: TypeAlias = dict[str, Any]
Run: TypeAlias = Callable[[Scope], Any]

_index = STANDARD["_[_]"]
_optional_index = STANDARD["_[?_]"]


def variable(name: str, own: int) -> Run:
    """Compile the read of a variable; `own` is its cost. The function raises `CelError` for an unknown one."""

    def run(scope: Scope) -> Any:
        scope[METER].spent += own
        try:
            return scope[name]
        except KeyError:
            raise CelError(f"no such attribute(s): {name}") from None

    return run


class NamedValue:
    """The value of a variable of `optMap`, evaluated once at its first use."""

    __slots__ = ("_found", "_run", "_scope")

    def __init__(self, run: Run, scope: Scope) -> None:
        self._run = run
        self._scope = scope
        self._found: tuple[Any, CelError | None] | None = None

    def get(self) -> Any:
        """The value; raises the error that it failed with."""
        if self._found is None:
            try:
                self._found = self._run(self._scope), None
            except CelError as error:
                self._found = None, error
        value, error = self._found
        if error is not None:
            raise error
        return value


def named_variable(name: str, own: int) -> Run:
    """The value of a variable that holds a `NamedValue`."""

    def run(scope: Scope) -> Any:
        scope[METER].spent += own
        return scope[name].get()

    return run


def chain(name: str, fields: tuple[str, ...], own: int) -> Run:
    """Fields of fields of a variable (`self.spec.size`), in one closure."""
    all_of_them = own + len(fields)

    def run(scope: Scope) -> Any:
        try:
            value = scope[name]
        except KeyError:
            scope[METER].spent += own
            raise CelError(f"no such attribute(s): {name}") from None
        try:
            for each in fields:
                value = value[each]
        except (KeyError, TypeError):
            return slowly(scope)
        scope[METER].spent += all_of_them
        return value

    def slowly(scope: Scope) -> Any:
        meter, value = scope[METER], scope[name]
        meter.spent += own
        for each in fields:
            value = _step(meter, value, each)
        return value

    return run


def field(inner: Run, name: str, own: int) -> Run:
    """Compile the selection of a field of a map or object; `own` is its cost."""

    def run(scope: Scope) -> Any:
        meter = scope[METER]
        meter.spent += own
        return _step(meter, inner(scope), name)

    return run


def _step(meter: Any, value: Any, name: str) -> Any:
    meter.spent += 1
    try:
        return value[name]
    except KeyError:
        raise CelError(f"no such key: {name}") from None
    except TypeError:
        pass
    if not isinstance(value, Optional):
        raise CelError(f"no such overload: {type_name(value)}.{name}")
    if value is not NONE and _has(value.value, name):
        return Optional(value.value[name])
    meter.spent -= 1  # an absent value is not visited
    return NONE


def _has(value: Any, name: str) -> bool:
    return isinstance(value, dict) and name in value


def present(inner: Run, name: str) -> Run:
    """`has(value.name)`."""

    def run(scope: Scope) -> Any:
        value = inner(scope)
        scope[METER].spent += 1
        if isinstance(value, dict):
            return name in value
        if isinstance(value, Optional):
            return value is not NONE and _has(value.value, name)
        raise CelError(f"no such overload: {type_name(value)}.{name}")

    return run


def index(inner: Run, key: Run, own: int) -> Run:
    """An element of a list or map; the key's own unit is that of the step."""

    def run(scope: Scope) -> Any:
        meter = scope[METER]
        meter.spent += own
        value, at = inner(scope), key(scope)
        meter.spent += 1
        return _index(value, at)

    return run


def optional_index(inner: Run, key: Run, own: int) -> Run:
    """`value[?key]`."""

    def run(scope: Scope) -> Any:
        meter = scope[METER]
        meter.spent += own
        found = _optional_index(inner(scope), key(scope))
        if found is not NONE:
            meter.spent += 1
        return found

    return run


def optional_field(inner: Run, name: str, convert: Callable[[Any], Any] | None, own: int) -> Run:
    """`value.?name`; `convert` makes a CEL value of the JSON found."""

    def run(scope: Scope) -> Any:
        meter = scope[METER]
        meter.spent += own
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
        meter.spent += 1
        found = items[name]
        return Optional(convert(found) if convert is not None and found is not None else found)

    return run
