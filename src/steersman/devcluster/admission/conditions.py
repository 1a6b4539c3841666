"""`matchConditions` of webhooks: expressions in CEL about the request and its objects.

They are evaluated only for webhooks that have them and whose rules and selectors concern the write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from steersman.devcluster.objects import Object

__all__ = ["ConditionError", "conditions_match", "evaluate"]


class ConditionError(Exception):
    """Expressions that could not be evaluated; the text is the API server's."""


def conditions_match(conditions: Sequence[Object], variables: Mapping[str, Any]) -> bool:
    """Whether all conditions hold; one that is false counts more than any that fails. Raises `ConditionError`."""
    errors: list[str] = []
    for condition in conditions:
        expression = condition.get("expression") or ""
        try:
            holds = evaluate(expression, variables)
        except ValueError as error:
            errors.append(f"expression '{expression}' resulted in error: {error}")
            continue
        if holds is False:
            return False
    if errors:
        raise ConditionError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
    return True


def evaluate(expression: str, variables: Mapping[str, Any]) -> Any:
    """The value of an expression; raises ValueError with the evaluator's words."""
    # Late, for CEL is large and most clusters have no condition.
    from steersman.devcluster import cel

    return cel.evaluate(expression, variables)
