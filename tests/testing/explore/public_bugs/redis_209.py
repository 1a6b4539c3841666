"""Redis: a cluster that cannot be scheduled stays so when the user returns to the former specification.

The operator updates the StatefulSet only while all of its Pods are ready, so it never undoes a bad node selector.
"""

from __future__ import annotations

from collections.abc import Mapping

from steersman import EMPTY, Context, Model, Operator, Resource
from steersman.k8s import StatefulSet

from .workloads import stateful_set

GROUP = "redis-209.steersman.dev"
ISSUE = "https://github.com/xlab-uiuc/acto/issues/209"


class RedisSpec(Model):
    node_selector: Mapping[str, str] = EMPTY


class RedisCluster(Resource, group=GROUP, version="v1"):
    """A Redis cluster."""

    spec: RedisSpec = RedisSpec()


def operator(correct: bool) -> Operator:
    operator = Operator("redis-209")

    @operator.controller(owns=[StatefulSet])
    async def reconcile(cluster: RedisCluster, ctx: Context) -> None:
        name = str(cluster.metadata.name)
        current = ctx.get(StatefulSet, name)
        ready = current is None or (current.status is not None and current.status.ready_replicas == 1)
        if correct or ready:
            await ctx.apply(stateful_set(name, 1, node_selector=cluster.spec.node_selector, parallel=correct))

    return operator


BASE = {"apiVersion": f"{GROUP}/v1", "kind": "RedisCluster", "metadata": {"name": "a"}, "spec": {}}
KIND = RedisCluster
