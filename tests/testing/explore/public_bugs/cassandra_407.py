"""Cassandra: a stale list of Pods leads to the deletion of a claim that a current Pod uses.

A data center is scaled down and up again. The operator restarts, and an API server that is behind shows the Pod of the
former scale-down with its deletionTimestamp. The operator deletes the claim by the name of the Pod, which the current
Pod has, too.
"""

from __future__ import annotations

from steersman import Context, Model, Operator, Resource, Watch, to_label
from steersman.k8s import PersistentVolumeClaim, Pod, StatefulSet
from steersman.testing.explore import ScenarioRun, State

from .bug import Bug
from .workloads import claim, stateful_set

GROUP = "cassandra-407.steersman.dev"
SLOW_STOP = {"simulate.steersman.dev/stop-after": "2s"}


class DatacenterSpec(Model):
    nodes: int = 1


class Datacenter(Resource, group=GROUP, version="v1"):
    """A Cassandra data center."""

    spec: DatacenterSpec = DatacenterSpec()


def operator(correct: bool) -> Operator:
    operator = Operator("cassandra-407")

    @operator.controller(
        owns=[StatefulSet, PersistentVolumeClaim], reads=[Pod], watches=[Watch(Pod, to=to_label("app"))]
    )
    async def reconcile(center: Datacenter, ctx: Context) -> None:
        name = str(center.metadata.name)
        for number in range(center.spec.nodes):
            await ctx.apply(claim(f"{name}-{number}"))
        await ctx.apply(stateful_set(name, center.spec.nodes, annotations=SLOW_STOP))
        for pod in ctx.list(Pod, labels={"app": name}):
            if pod.metadata.deletion_timestamp is None or int(pod.metadata.name.rpartition("-")[2]) < center.spec.nodes:
                continue
            if not correct:
                await ctx.delete(PersistentVolumeClaim, str(pod.metadata.name))
            elif (found := ctx.get(PersistentVolumeClaim, str(pod.metadata.name))) is not None:
                await ctx.delete(found)  # only the claim with the uid in the cache, which is as old as the Pod

    return operator


def datacenter(nodes: int) -> dict[str, object]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Datacenter",
        "metadata": {"name": "a"},
        "spec": {"nodes": nodes},
    }


async def scenario(run: ScenarioRun) -> None:
    for nodes in (2, 1, 2):
        await run.apply(datacenter(nodes))
        await run.settled()


def claims_of_current_pods_stay(state: State) -> None:
    if state.event is None or state.event.type != "DELETED" or state.changed != "persistentvolumeclaims":
        return
    center = state.get(f"datacenters.{GROUP}", "a")
    number = int(state.event.item.name.rpartition("-")[2])
    assert center is None or number >= center["spec"]["nodes"], f"claim {state.event.item.name} is in use"


BUG = Bug(
    issue="https://github.com/instaclustr/cassandra-operator/issues/407",
    reported_by="Sieve",
    operator=operator,
    scenario=scenario,
    perturb=("past",),
    always=(claims_of_current_pods_stay,),
    allow=("end-state", "leak", "undo"),
)
