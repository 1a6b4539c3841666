"""Aggregated ClusterRoles: the rules of all roles that a role's aggregation rule selects."""

from __future__ import annotations

from collections.abc import Iterable

from steersman.k8s import ClusterRole
from steersman.k8s.rbac_v1 import PolicyRule
from steersman.models import Key, MergePatch, key_of, to_dict
from steersman.models.selectors import from_label_selector
from steersman.operator import Context, Operator, Watch

__all__ = ["aggregated", "register"]


def register(operator: Operator) -> None:
    """Declare the controller."""
    operator.controller(
        reads=[ClusterRole], watches=[Watch(ClusterRole, to=_to_aggregating)], where=_aggregates, workers=1
    )(reconcile)


def _aggregates(role: ClusterRole) -> bool:
    return role.aggregation_rule is not None


def _to_aggregating(_: ClusterRole, ctx: Context) -> list[Key]:
    return [key_of(role) for role in ctx.list(ClusterRole) if _aggregates(role)]


def aggregated(role: ClusterRole, roles: Iterable[ClusterRole]) -> tuple[PolicyRule, ...]:
    """The rules of the selected roles: by name of the role, each once."""
    rule = role.aggregation_rule
    found: list[PolicyRule] = []
    ordered = sorted(roles, key=key_of)
    for selector in map(from_label_selector, rule.cluster_role_selectors if rule else ()):
        for other in ordered:
            if other.metadata.name != role.metadata.name and selector.matches(other.metadata.labels):
                found += [r for r in other.rules if r not in found]
    return tuple(found)


async def reconcile(role: ClusterRole, ctx: Context) -> None:
    """Write the rules where they differ."""
    if not _aggregates(role):
        return
    rules = aggregated(role, ctx.list(ClusterRole))
    if rules != role.rules:
        body = {"metadata": {"uid": role.metadata.uid}, "rules": [*map(to_dict, rules)]}
        await ctx.patch(role, MergePatch(body))
