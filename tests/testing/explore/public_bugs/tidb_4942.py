"""TiDB: a label of the discovery Service can be added and never be removed.

The operator merges the labels of the spec into those of the Service, and so keeps the labels of former specs.
"""

from __future__ import annotations

from collections.abc import Mapping

from steersman import EMPTY, Context, MergePatch, Model, ObjectMeta, Operator, Resource
from steersman.client import NotFound
from steersman.k8s import Service, ServicePort, ServiceSpec

GROUP = "tidb-4942.steersman.dev"
ISSUE = "https://github.com/pingcap/tidb-operator/issues/4942"


class TidbSpec(Model):
    discovery_labels: Mapping[str, str] = EMPTY


class TidbCluster(Resource, group=GROUP, version="v1"):
    """A TiDB cluster."""

    spec: TidbSpec = TidbSpec()


def operator(correct: bool) -> Operator:
    operator = Operator("tidb-4942")

    @operator.controller(owns=[Service])
    async def reconcile(cluster: TidbCluster, ctx: Context) -> None:
        name = f"{cluster.metadata.name}-discovery"
        labels = {"app": "discovery", **cluster.spec.discovery_labels}
        service = Service(
            metadata=ObjectMeta(name=name, labels=labels),
            spec=ServiceSpec(selector={"app": "discovery"}, ports=(ServicePort(port=10261),)),
        )
        if correct:
            await ctx.apply(service)
            return
        try:
            await ctx.patch(Service, MergePatch({"metadata": {"labels": labels}}), name=name)
        except NotFound:
            await ctx.create(service)

    operator.permit("patch create", Service)
    return operator


BASE = {"apiVersion": f"{GROUP}/v1", "kind": "TidbCluster", "metadata": {"name": "a"}, "spec": {}}
KIND = TidbCluster
