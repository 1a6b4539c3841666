"""The spec in force: the current spec of a cluster, or the last valid one while the current one is invalid."""

from __future__ import annotations

from typing import NamedTuple

from steersman import Context, evolve
from steersman.k8s import ConfigMap
from steersman.models import decode, encode

from mysqlcluster import names
from mysqlcluster.children import FOLLOWED_SPEC
from mysqlcluster.desired import AnyCluster, Desired, SpecError, check_supported, desired

__all__ = ["Followed", "followed_by"]


class Followed(NamedTuple):
    """The spec in force of a cluster."""

    want: Desired
    spec: str
    """The spec as JSON; the ConfigMap stores it as the last valid one."""
    refused: str = ""
    """Why the current spec is not in force; empty if it is."""


def followed_by(cluster: AnyCluster, ctx: Context) -> Followed:
    """Return the spec in force. A running cluster with an invalid spec still fails over.

    Raises:
        SpecError: The spec is invalid, and no valid spec is stored.
    """
    try:
        return Followed(_checked(cluster), encode(cluster.spec).decode())
    except SpecError as problem:
        found = ctx.get(ConfigMap, names.config_name(cluster.metadata.name))
        former = found.data.get(FOLLOWED_SPEC, "") if found is not None and cluster.status.primary else ""
        if not former:
            raise
        return Followed(_checked(_with_spec(cluster, former)), former, str(problem))


def _checked(cluster: AnyCluster) -> Desired:
    want = desired(cluster)
    check_supported(want)
    return want


def _with_spec(cluster: AnyCluster, spec: str) -> AnyCluster:
    return evolve(cluster, {"spec": decode(type(cluster.spec), spec)})
