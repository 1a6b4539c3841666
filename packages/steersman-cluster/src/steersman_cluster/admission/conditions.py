"""CEL expressions on a request and its objects, and `matchConditions` of webhooks and policies.

The conditions of a webhook or policy are evaluated only if its rules and selectors match the write. The expressions of
one webhook or policy share a cost budget, as on the API server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from steersman_cluster.objects import Object

if TYPE_CHECKING:
    from steersman_cluster.cel.meter import Budget

__all__ = ["ConditionError", "Expressions", "conditions_match"]

_OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


class ConditionError(Exception):
    """Expressions that could not be evaluated; the text is the API server's."""


class Expressions:
    """Evaluates expressions that share their variables and a budget.

    Args:
        bound: The variables.
        variables: A policy's own ones, named and given by expressions; each is evaluated where it is first read.
        budget: What the expressions may spend together.
    """

    def __init__(self, bound: Mapping[str, Any], budget: Budget, variables: Sequence[Object] | None = None) -> None:
        self._bound = dict(bound)
        self._budget = budget
        self._composed: _Variables | None = None
        if variables is not None:
            self._composed = self._bound["variables"] = _Variables(variables, self._bound, budget)

    def evaluate(self, expression: str, *, patches: bool = False) -> Any:
        """Return the value of an expression; `patches` adds the types of patch expressions.

        Raises:
            ValueError: It failed; the text is the evaluator's.
            ConditionError: It and those before it spent more than the budget.
        """
        # Late, for CEL is large and most clusters have no condition.
        from steersman_cluster import cel

        meter = cel.Meter(self._budget)
        failed: ValueError | None = None
        value: Any = None
        try:
            value = cel.evaluate(expression, self._bound, meter, patches=patches)
        except ValueError as error:
            failed = error
        composed = 0 if self._composed is None else self._composed.take_spent()
        if not self._budget.spend(composed) or not self._budget.spend(meter.spent):
            raise ConditionError(_OUT_OF_BUDGET)
        if failed is not None:
            raise failed
        return value


class _Variables(dict[str, Any]):
    """The variables of a policy: a map that evaluates each entry when it is first read."""

    def __init__(self, variables: Iterable[Object], bound: Mapping[str, Any], budget: Budget) -> None:
        super().__init__()
        self._expressions = {each.get("name") or "": each.get("expression") or "" for each in variables}
        self._failed: dict[str, ValueError] = {}
        self._bound = bound
        self._budget = budget
        self._spent = 0

    def take_spent(self) -> int:
        """Return what variables cost since the last call; each has the limit of one expression for itself."""
        spent, self._spent = self._spent, 0
        return spent

    def __contains__(self, name: object) -> bool:
        return name in self._expressions

    def __missing__(self, name: str) -> Any:
        from steersman_cluster import cel

        if name in self._failed:
            raise self._failed[name]
        expression = self._expressions[name]
        meter = cel.Meter(self._budget)
        self._failed[name] = cel.CelError(f"no such key: {name}")  # what a variable that reads itself finds
        try:
            value = self[name] = cel.evaluate(expression, self._bound, meter)
            del self._failed[name]
        except ValueError as error:
            self._failed[name] = cel.CelError(f'composited variable "{name}" fails to evaluate: {error}')
            raise self._failed[name] from None
        finally:
            self._spent += meter.spent
        return value


def conditions_match(conditions: Sequence[Object], variables: Mapping[str, Any]) -> bool:
    """Return whether all conditions are true; a false one takes precedence over failures. Raises `ConditionError`."""
    from steersman_cluster import cel

    expressions = Expressions(variables, cel.Budget(cel.MATCH_CONDITIONS_BUDGET))
    errors: list[str] = []
    matches = True
    for condition in conditions:
        expression = condition.get("expression") or ""
        try:
            matches = expressions.evaluate(expression) is not False and matches
        except ValueError as error:
            errors.append(f"expression '{expression}' resulted in error: {error}")
    if errors and matches:
        raise ConditionError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
    return matches
