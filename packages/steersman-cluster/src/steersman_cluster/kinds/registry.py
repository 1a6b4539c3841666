"""The registry of strategies: each module of kinds is imported at the first use of one of them.

The modules are imported lazily to shorten the start of a cluster. Other kinds have the strategy `Plain`, which
validates the metadata only.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TypeAlias

from steersman_cluster.kinds.plain import Plain
from steersman_cluster.strategy import Strategy

__all__ = ["Kind", "Strategies", "strategy_for"]

Kind: TypeAlias = tuple[str, str, str]
"""Group, version, kind."""

Strategies: TypeAlias = Mapping[Kind, Strategy]
"""The type of `STRATEGIES` in a module of kinds."""

_WORKLOADS = ("workloads",)
_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "": ("core", "services", "storage", "cluster", "policy", "events", *_WORKLOADS),
    "apps": _WORKLOADS,
    "batch": _WORKLOADS,
    "autoscaling": ("autoscaling",),
    "policy": ("policy",),
    "rbac.authorization.k8s.io": ("rbac",),
    "storage.k8s.io": ("storage",),
    "events.k8s.io": ("events",),
    "coordination.k8s.io": ("coordination",),
    "discovery.k8s.io": ("services",),
    "networking.k8s.io": ("networking",),
    "scheduling.k8s.io": ("scheduling",),
    "node.k8s.io": ("scheduling",),
    "admissionregistration.k8s.io": ("webhooks", "admission_policies"),
    "apiregistration.k8s.io": ("aggregation",),
    "flowcontrol.apiserver.k8s.io": ("aggregation",),
    "certificates.k8s.io": ("aggregation",),
    "resource.k8s.io": ("resources",),
}


@cache
def strategy_for(group: str, version: str, kind: str) -> Strategy:
    """Return the strategy of a kind in a version, the same instance on every call; `Plain` for an unknown kind."""
    for family in _FAMILIES.get(group, ()):
        if (found := _family(family).get((group, version, kind))) is not None:
            return found
    return Plain()


@cache
def _family(name: str) -> Strategies:  # noqa: C901 - one case per module
    match name:
        case "admission_policies":
            from steersman_cluster.kinds.admission import policies

            return policies.STRATEGIES
        case "aggregation":
            from steersman_cluster.kinds import aggregation

            return aggregation.STRATEGIES
        case "autoscaling":
            from steersman_cluster.kinds import autoscaling

            return autoscaling.STRATEGIES
        case "cluster":
            from steersman_cluster.kinds import cluster

            return cluster.STRATEGIES
        case "coordination":
            from steersman_cluster.kinds import coordination

            return coordination.STRATEGIES
        case "core":
            from steersman_cluster.kinds import core

            return core.STRATEGIES
        case "events":
            from steersman_cluster.kinds import events

            return events.STRATEGIES
        case "networking":
            from steersman_cluster.kinds import networking

            return networking.STRATEGIES
        case "policy":
            from steersman_cluster.kinds import policy

            return policy.STRATEGIES
        case "rbac":
            from steersman_cluster.kinds import rbac

            return rbac.STRATEGIES
        case "resources":
            from steersman_cluster.kinds import resources

            return resources.STRATEGIES
        case "scheduling":
            from steersman_cluster.kinds import scheduling

            return scheduling.STRATEGIES
        case "services":
            from steersman_cluster.kinds.services import service

            return service.STRATEGIES
        case "storage":
            from steersman_cluster.kinds import storage

            return storage.STRATEGIES
        case "webhooks":
            from steersman_cluster.kinds.admission import webhooks

            return webhooks.STRATEGIES
        case "workloads":
            from steersman_cluster.kinds.workloads import strategies

            return strategies.STRATEGIES
        case _:
            raise ValueError(f"no module of kinds is named {name!r}")
