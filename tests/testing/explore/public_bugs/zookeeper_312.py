"""ZooKeeper: a stale deletionTimestamp of a former cluster leads to the deletion of the claims of the current one.

A cluster is deleted and created again with the same name. The operator restarts, and an API server that is behind
shows the former cluster with its deletionTimestamp. The operator deletes the claims by the name of the cluster, so it
deletes those of the current cluster.
"""

from __future__ import annotations

from contextlib import suppress

from steersman import Context, Operator, Resource
from steersman.client import Conflict
from steersman.k8s import PersistentVolumeClaim
from steersman.testing.explore import ScenarioRun, State

from .bug import Bug
from .workloads import claim

GROUP = "zookeeper-312.steersman.dev"


class ZooKeeper(Resource, group=GROUP, version="v1"):
    """A ZooKeeper cluster."""


def operator(correct: bool) -> Operator:
    operator = Operator("zookeeper-312")

    @operator.controller(reads=[PersistentVolumeClaim])
    async def reconcile(cluster: ZooKeeper, ctx: Context) -> None:
        labels = {"cluster": str(cluster.metadata.name), "uid": str(cluster.metadata.uid)}
        await ctx.apply(claim(f"{cluster.metadata.name}-data", labels=labels), owned=False)

    @operator.finalizer(f"{GROUP}/claims")
    async def finalize(cluster: ZooKeeper, ctx: Context) -> None:
        labels = {"cluster": str(cluster.metadata.name)}
        if correct:
            labels["uid"] = str(cluster.metadata.uid)
        for found in await ctx.fetch_list(PersistentVolumeClaim, labels=labels):
            if correct:
                with suppress(Conflict):  # the claim with this uid is gone
                    await ctx.delete(found)
            else:
                await ctx.delete(PersistentVolumeClaim, str(found.metadata.name))

    operator.permit("create patch delete", PersistentVolumeClaim)
    return operator


CLUSTER = {"apiVersion": f"{GROUP}/v1", "kind": "ZooKeeper", "metadata": {"name": "a"}}


async def scenario(run: ScenarioRun) -> None:
    await run.apply(CLUSTER)
    await run.settled()
    await run.delete("zookeeper", "a")
    await run.settled()
    await run.apply(CLUSTER)
    await run.settled()


def the_claims_of_a_cluster_that_is_not_deleted_stay(state: State) -> None:
    if state.event is None or state.event.type != "DELETED" or state.changed != "persistentvolumeclaims":
        return
    cluster = state.get(f"zookeepers.{GROUP}", "a")
    assert cluster is None or "deletionTimestamp" in cluster["metadata"], f"claim {state.event.item.name} is in use"


BUG = Bug(
    issue="https://github.com/pravega/zookeeper-operator/issues/312",
    reported_by="Sieve",
    operator=operator,
    scenario=scenario,
    perturb=("past",),
    always=(the_claims_of_a_cluster_that_is_not_deleted_stay,),
    allow=("end-state", "leak", "undo"),
)
