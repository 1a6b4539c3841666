"""Logical operators as closures: `&&`, `||`, `!`, `?:`, `all`, `exists`, and `or` of optionals.

The first four and the optionals' cost nothing by themselves, and run no more than they need. An error counts only where
no other side decides.
"""

from __future__ import annotations

from typing import Any

from steersman_cluster.cel.attributes import Run, Scope
from steersman_cluster.cel.functions import no_overload
from steersman_cluster.cel.meter import METER, EvaluationCancelledError
from steersman_cluster.cel.values import NONE, CelError, Optional, type_name

__all__ = ["choice", "collect", "decide", "either", "invert", "iterable", "not_strictly_false", "or_else"]


def iterable(value: Any) -> Any:
    """A list or map to run over."""
    if isinstance(value, list | dict):
        return value  # pyright: ignore[reportUnknownVariableType]
    raise CelError(f"no such overload: {type_name(value)}")


def either(left: Run, right: Run, name: str, *, decisive: bool) -> Run:
    """`&&`, where false is decisive, and `||`."""

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


def invert(inner: Run) -> Run:
    """Compile the operator `!`; a value that is not boolean is a `CelError`."""

    def run(scope: Scope) -> Any:
        scope[METER].spent += 1
        value = inner(scope)
        if value is True or value is False:
            return not value
        raise no_overload("!_", value)

    return run


def choice(condition: Run, yes: Run, no: Run) -> Run:
    """`condition ? yes : no`."""

    def run(scope: Scope) -> Any:
        chosen = condition(scope)
        if chosen is True:
            return yes(scope)
        if chosen is False:
            return no(scope)
        raise CelError("no such overload")

    return run


def not_strictly_false(inner: Run) -> Run:
    """Return whether a loop goes on: an error does not end it."""

    def run(scope: Scope) -> Any:
        scope[METER].spent += 1
        try:
            return inner(scope) is not False
        except CelError:
            return True

    return run


def or_else(left: Run, right: Run, *, unwrap: bool) -> Run:
    """`or` and, with `unwrap`, `orValue`: the other side is evaluated only where the first is none."""

    def run(scope: Scope) -> Any:
        found = left(scope)
        if not isinstance(found, Optional):
            raise no_overload("orValue" if unwrap else "or", found)
        if found is NONE:
            return right(scope)
        return found.value if unwrap else found

    return run


def decide(name: str, source: Run, predicate: Run, *, until: bool) -> Run:
    """`all` and `exists`: the first decisive item decides, an error only where none does.

    The costs are those of the loops that the macros stand for: their condition, accumulator and result.
    """
    condition = 3 if until else 2
    around = condition + 1

    def run(scope: Scope) -> Any:
        failed: CelError | None = None
        meter = scope[METER]
        decided = False
        inner = dict(scope)
        for item in iterable(source(scope)):
            if decided:
                meter.spent += condition
                break
            meter.spent += around
            inner[name] = item
            try:
                found = predicate(inner)
            except CelError as error:
                failed = failed or error
                continue
            if meter.spent > meter.limit:
                raise EvaluationCancelledError
            if found is until:
                decided = True
            elif found is not (not until):
                failed = failed or CelError("no such overload")
        meter.spent += 1
        if decided:
            return until
        if failed is not None:
            raise failed
        return not until

    return run


def collect(name: str, source: Run, condition: Run | None, element: Run, cost: int) -> Run:
    """`map` and `filter`: the elements of those items for which the condition holds."""

    def run(scope: Scope) -> Any:
        meter = scope[METER]
        inner = dict(scope)
        found: list[Any] = []
        failed: CelError | None = None
        for item in iterable(source(scope)):
            inner[name] = item
            try:
                if condition is not None and not _holds(condition(inner)):
                    meter.charge(0)
                    continue
                meter.charge(cost)
                found.append(element(inner))
            except CelError as error:
                failed = failed or error  # the loop goes on, as no error ends one
        meter.spent += 1
        if failed is not None:
            raise failed
        return found

    return run


def _holds(value: Any) -> bool:
    if value is True or value is False:
        return value
    raise CelError("no such overload")
