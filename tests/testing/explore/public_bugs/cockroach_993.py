"""CockroachDB: a label that is added to an existing cluster is refused, and no later change is handled.

The labels of the specification are also those of the claim templates, which are immutable. A user reported it.
"""

from __future__ import annotations

from collections.abc import Mapping

from steersman import EMPTY, Context, Model, Operator, Resource
from steersman.k8s import StatefulSet

from .workloads import claim, stateful_set

GROUP = "cockroach-993.steersman.dev"
ISSUE = "https://github.com/cockroachdb/cockroach-operator/issues/993"


class CrdbSpec(Model):
    additional_labels: Mapping[str, str] = EMPTY


class CrdbCluster(Resource, group=GROUP, version="v1"):
    """A CockroachDB cluster."""

    spec: CrdbSpec = CrdbSpec()


def operator(correct: bool) -> Operator:
    operator = Operator("cockroach-993")

    @operator.controller(owns=[StatefulSet])
    async def reconcile(cluster: CrdbCluster, ctx: Context) -> None:
        labels = cluster.spec.additional_labels
        data = claim("data", labels={} if correct else labels)
        await ctx.apply(stateful_set(str(cluster.metadata.name), 1, claims=(data,), labels=labels))

    return operator


BASE = {"apiVersion": f"{GROUP}/v1", "kind": "CrdbCluster", "metadata": {"name": "a"}, "spec": {}}
KIND = CrdbCluster
