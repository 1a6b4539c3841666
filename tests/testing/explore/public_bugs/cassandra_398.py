"""Cassandra: the claim of a removed Pod stays, because the operator never saw the deletionTimestamp of the Pod.

The operator deletes the claims of the Pods that it sees with a deletionTimestamp. If it sees the Pod only before and
after its deletion, the claim is never deleted.
"""

from __future__ import annotations

from steersman import Context, Model, Operator, Resource, Watch, to_label
from steersman.k8s import PersistentVolumeClaim, Pod, StatefulSet
from steersman.testing.explore import ScenarioRun

from .bug import Bug
from .workloads import claim, stateful_set

GROUP = "cassandra-398.steersman.dev"
SLOW_STOP = {"simulate.steersman.dev/stop-after": "2s"}


class DatacenterSpec(Model):
    nodes: int = 1


class Datacenter(Resource, group=GROUP, version="v1"):
    """A Cassandra data center."""

    spec: DatacenterSpec = DatacenterSpec()


def operator(correct: bool) -> Operator:
    operator = Operator("cassandra-398")

    @operator.controller(
        owns=[StatefulSet, PersistentVolumeClaim], reads=[Pod], watches=[Watch(Pod, to=to_label("app"))]
    )
    async def reconcile(center: Datacenter, ctx: Context) -> None:
        name = str(center.metadata.name)
        wanted = {f"{name}-{number}" for number in range(center.spec.nodes)}
        for pod in sorted(wanted):
            await ctx.apply(claim(pod))
        await ctx.apply(stateful_set(name, center.spec.nodes, annotations=SLOW_STOP))
        if correct:
            pods = {str(pod.metadata.name) for pod in await ctx.fetch_list(Pod, labels={"app": name})}
            for found in ctx.list(PersistentVolumeClaim, owned=True):
                if found.metadata.name not in wanted | pods:
                    await ctx.delete(found)
            return
        for pod in ctx.list(Pod, labels={"app": name}):
            if pod.metadata.deletion_timestamp is not None and pod.metadata.name not in wanted:
                await ctx.delete(PersistentVolumeClaim, str(pod.metadata.name))

    return operator


def datacenter(nodes: int) -> dict[str, object]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Datacenter",
        "metadata": {"name": "a"},
        "spec": {"nodes": nodes},
    }


async def scenario(run: ScenarioRun) -> None:
    await run.apply(datacenter(2))
    await run.settled()
    await run.apply(datacenter(1))
    await run.settled()


BUG = Bug(
    issue="https://github.com/instaclustr/cassandra-operator/issues/398",
    reported_by="Sieve",
    operator=operator,
    scenario=scenario,
    perturb=("lag", "miss"),
)
