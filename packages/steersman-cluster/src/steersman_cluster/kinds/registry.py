"""The registry of strategies: each module of kinds is imported at the first use of one of them.

Importing every family costs time that a small cluster need not spend, so a family's module is imported when its first
kind is asked for. Kinds without a family get `Plain`, which has ObjectMeta's rules and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TypeAlias

from steersman_cluster.kinds.plain import Plain
from steersman_cluster.strategy import Strategy

__all__ = ["Kind", "Strategies", "strategy_for"]

Kind: TypeAlias = tuple[str, str, str]
"""Group, version, kind."""

Strategies: TypeAlias = Mapping[Kind, Strategy]
"""The type of `STRATEGIES` in a module of kinds."""

_PACKAGE = "steersman_cluster.kinds"
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
    """The strategy of a kind in a version; the same instance on every call. Never fails: unknown kinds are plain."""
    if group == "apiextensions.k8s.io" and kind == "CustomResourceDefinition":
        return _definitions()
    for family in _FAMILIES.get(group, ()):
        if (found := _family(family).get((group, version, kind))) is not None:
            return found
    return Plain()


@cache
def _family(name: str) -> Strategies:
    try:
        module = import_module(f"{_PACKAGE}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{_PACKAGE}.{name}":
            raise
        return {}
    return module.STRATEGIES


def _definitions() -> Strategy:
    # The room of CRDs imports this one, hence not at the top.
    strategy: Strategy = import_module("steersman_cluster.crd").DefinitionStrategy()
    return strategy
