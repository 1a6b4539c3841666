"""CassKop (Cassandra): after a crash during a scale-down the claim stays, and no later change is handled.

The phase `Finalizing` is stored at the end of the reconcile, after the StatefulSet has been scaled down. After a crash
between the two writes the phase is still `Ongoing`, in which the operator expects the Pod that is gone by now.
"""

from __future__ import annotations

from steersman import Context, MergePatch, Model, Operator, Resource
from steersman.k8s import PersistentVolumeClaim, Pod, StatefulSet
from steersman.testing.explore import ScenarioRun

from .bug import Bug
from .workloads import claim, stateful_set

GROUP = "casskop-370.steersman.dev"


class ClusterSpec(Model):
    nodes: int = 1


class ClusterStatus(Model):
    phase: str = ""
    pod: str = ""


class CassandraCluster(Resource, group=GROUP, version="v1"):
    """A Cassandra cluster."""

    spec: ClusterSpec = ClusterSpec()
    status: ClusterStatus = ClusterStatus()


class PodMissingError(Exception):
    """The Pod to decommission does not exist."""


def operator(correct: bool) -> Operator:
    operator = Operator("casskop-370")

    @operator.controller(owns=[StatefulSet, PersistentVolumeClaim])
    async def reconcile(cluster: CassandraCluster, ctx: Context) -> None:
        name, nodes, last = str(cluster.metadata.name), cluster.spec.nodes, cluster.status

        async def becomes(phase: str, pod: str) -> None:
            await ctx.patch(cluster, MergePatch({"status": {"phase": phase, "pod": pod}}), subresource="status")

        match last.phase:
            case "Ongoing":
                pod = await ctx.fetch(Pod, last.pod)
                if pod is None and not correct:
                    raise PodMissingError(last.pod)
                await ctx.apply(stateful_set(name, nodes))
                await becomes("Finalizing", last.pod)
            case "Finalizing":
                if await ctx.fetch(Pod, last.pod) is None:
                    await ctx.delete(PersistentVolumeClaim, last.pod)
                    await becomes("Done", "")
            case _:
                current = ctx.get(StatefulSet, name)
                if current is not None and (current.spec.replicas or 0) > nodes:
                    await becomes("Ongoing", f"{name}-{nodes}")
                    return
                for number in range(nodes):
                    await ctx.apply(claim(f"{name}-{number}"))
                await ctx.apply(stateful_set(name, nodes))

    operator.permit("get", Pod)
    return operator


def cluster(nodes: int) -> dict[str, object]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "CassandraCluster",
        "metadata": {"name": "a"},
        "spec": {"nodes": nodes},
    }


async def scenario(run: ScenarioRun) -> None:
    await run.apply(cluster(2))
    await run.settled()
    await run.apply(cluster(1))
    await run.settled()


BUG = Bug(
    issue="https://github.com/Orange-OpenSource/casskop/issues/370",
    reported_by="Sieve",
    operator=operator,
    scenario=scenario,
    perturb=("crash",),
)
