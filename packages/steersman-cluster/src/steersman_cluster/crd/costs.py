"""The cost budget of a definition's rules: the greatest number of evaluations times the greatest cost of each.

Follows `CELSchemaContext` and `TotalCost` of apiextensions: ten million for one rule, a hundred million for a schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from steersman_cluster.cel.sizes import Decl, cardinality_of
from steersman_cluster.cel.spans import MAX_UINT64
from steersman_cluster.errors import FieldError, field_forbidden
from steersman_cluster.objects import Path

__all__ = ["RULE_LIMIT", "SCHEMA_LIMIT", "Budget", "repeated", "too_expensive"]

RULE_LIMIT: Final = 10_000_000
SCHEMA_LIMIT: Final = 100_000_000
_SHOWN: Final = 4
_ADVICE: Final = (
    "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are"
    " declared"
)


def repeated(schema: Mapping[str, Any], times: int | None) -> int | None:
    """Return how often the parts of a schema can occur; `None` if unlimited."""
    if times is None:
        return None
    match schema.get("type"):
        case "object" if schema.get("additionalProperties") is not None:
            bound = schema.get("maxProperties")
        case "array":
            bound = schema.get("maxItems")
        case _:
            bound = 1
    return None if bound is None else min(times * max(bound, 0), MAX_UINT64)


def too_expensive(what: str, cost: int, limit: int) -> str:
    """The text of a refusal, with how much too expensive it is."""
    factor = float(cost) / float(limit)
    shown = f"{factor:.6f}" if factor < 1.5 else f"{factor:.1f}" if factor <= 100.0 else "more than 100"
    return f"{what} exceeds budget by factor of {shown}x ({_ADVICE})"


@dataclass(slots=True)
class Budget:
    """The costs of the rules of one schema; `lenient` skips the limit of single rules."""

    lenient: bool = False
    total: int = 0
    most: list[tuple[int, Path]] = field(default_factory=list[tuple[int, Path]])

    def rule(self, path: Path, cost: int, times: int | None, decl: Decl) -> list[FieldError]:
        """Count a rule that occurs so often."""
        cost = min(cost * (cardinality_of(decl) if times is None else times), MAX_UINT64)
        return self._observed(path, cost, "estimated rule cost")

    def message(self, path: Path, cost: int) -> list[FieldError]:
        """Count the expression of a message, which is evaluated once."""
        return self._observed(path, cost, "estimated messageExpression cost")

    def _observed(self, path: Path, cost: int, what: str) -> list[FieldError]:
        self.total = min(self.total + cost, MAX_UINT64)
        if cost >= SCHEMA_LIMIT // 100:
            self.most = sorted([*self.most, (cost, path)], key=lambda one: -one[0])[:_SHOWN]
        if self.lenient or cost <= RULE_LIMIT:
            return []
        return [field_forbidden(path, too_expensive(what, cost, RULE_LIMIT))]

    def overdrawn(self, path: Path) -> list[FieldError]:
        """Return the errors of the total cost."""
        if self.total <= SCHEMA_LIMIT:
            return []
        text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        found = [field_forbidden(each, text) for _, each in self.most]
        return [*found, field_forbidden(path, too_expensive(what, self.total, SCHEMA_LIMIT))]
