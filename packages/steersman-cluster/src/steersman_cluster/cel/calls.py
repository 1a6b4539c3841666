"""Calls of functions as closures that charge the cost of each call.

cel-go charges a call after its evaluation; here a call whose cost follows from its arguments is charged first, so that
an expensive one is not evaluated. A call with failed arguments is charged, too, if it has at most two arguments,
because those are always evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from steersman_cluster.cel.actual_cost import FAILED, ByResult, CallCost
from steersman_cluster.cel.attributes import Run, Scope
from steersman_cluster.cel.meter import METER
from steersman_cluster.cel.values import CelError

__all__ = ["call"]


def call(function: Callable[..., Any], args: Sequence[Run], cost: CallCost) -> Run:
    """A call of `function` with the values of `args`."""
    if isinstance(cost, ByResult):
        return _by_result(function, args, cost)
    if isinstance(cost, int):
        if len(args) == 1:
            return _one(function, args[0], cost)
        if len(args) == 2:
            return _two(function, args[0], args[1], cost)
        return _several(function, args, lambda _: cost)
    if len(args) == 2:
        return _two_by_size(function, args[0], args[1], cost)
    return _several(function, args, cost)


def _one(function: Callable[..., Any], only: Run, cost: int) -> Run:
    def run(scope: Scope) -> Any:
        scope[METER].spent += cost
        return function(only(scope))

    return run


def _two(function: Callable[..., Any], left: Run, right: Run, cost: int) -> Run:
    def run(scope: Scope) -> Any:
        scope[METER].spent += cost
        try:
            first = left(scope)
        except CelError:
            _spent(right, scope)
            raise
        return function(first, right(scope))

    return run


def _spent(run: Run, scope: Scope) -> Any:
    """Evaluate for the cost alone, as the first error counts."""
    try:
        return run(scope)
    except CelError:
        return FAILED


def _two_by_size(function: Callable[..., Any], left: Run, right: Run, cost: Callable[[Sequence[Any]], int]) -> Run:
    def run(scope: Scope) -> Any:
        first = FAILED
        try:
            first = left(scope)
            second = right(scope)
        except CelError:
            second = FAILED if first is not FAILED else _spent(right, scope)
            scope[METER].charge(cost((first, second)))
            raise
        scope[METER].charge(cost((first, second)))
        return function(first, second)

    return run


def _several(function: Callable[..., Any], args: Sequence[Run], cost: Callable[[Sequence[Any]], int]) -> Run:
    def run(scope: Scope) -> Any:
        try:
            given = [arg(scope) for arg in args]
        except CelError:
            if len(args) == 1:
                scope[METER].charge(cost((FAILED,)))
            raise
        scope[METER].charge(cost(given))
        return function(*given)

    return run


def _by_result(function: Callable[..., Any], args: Sequence[Run], cost: ByResult) -> Run:
    def run(scope: Scope) -> Any:
        try:
            result = function(*[arg(scope) for arg in args])
        except CelError:
            scope[METER].charge(cost.of(FAILED))
            raise
        scope[METER].charge(cost.of(result))
        return result

    return run
