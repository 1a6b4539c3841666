"""RabbitMQ: the claims are never expanded if the operator crashes after it has deleted the StatefulSet.

To expand a claim, the operator deletes the StatefulSet, whose claim templates are immutable, updates the claims, and
creates the StatefulSet again. It compares the wanted size with the templates of the StatefulSet. After a crash there is
no StatefulSet to compare with; a new one has the new size, and the claims keep the old one.
"""

from __future__ import annotations

from steersman import Context, MergePatch, Model, Operator, Resource
from steersman.k8s import PersistentVolumeClaim, StatefulSet
from steersman.testing.explore import ScenarioRun
from steersman_cluster.controllers.storage.volumes import PROVISIONER

from .bug import Bug
from .workloads import claim, stateful_set

GROUP = "rabbitmq-782.steersman.dev"
CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "growing"},
    "provisioner": PROVISIONER,
    "allowVolumeExpansion": True,
}


class RabbitSpec(Model):
    storage: str = "10Gi"


class Rabbit(Resource, group=GROUP, version="v1"):
    """A RabbitMQ cluster."""

    spec: RabbitSpec = RabbitSpec()


def operator(correct: bool) -> Operator:
    operator = Operator("rabbitmq-782")

    async def expand(rabbit: Rabbit, ctx: Context) -> None:
        for found in ctx.list(PersistentVolumeClaim, labels={"app": str(rabbit.metadata.name)}):
            patch = {"spec": {"resources": {"requests": {"storage": rabbit.spec.storage}}}}
            if str(found.spec.resources.requests["storage"]) != rabbit.spec.storage:
                await ctx.patch(found, MergePatch(patch))

    @operator.controller(owns=[StatefulSet], reads=[PersistentVolumeClaim])
    async def reconcile(rabbit: Rabbit, ctx: Context) -> None:
        name = str(rabbit.metadata.name)
        current = ctx.get(StatefulSet, name)
        if correct:
            await expand(rabbit, ctx)
        if current is not None:
            (template,) = current.spec.volume_claim_templates
            if str(template.spec.resources.requests["storage"]) != rabbit.spec.storage:
                await ctx.delete(current, propagation="Orphan")
                if not correct:
                    await expand(rabbit, ctx)
        await ctx.apply(stateful_set(name, 1, claims=(claim("data", rabbit.spec.storage, storage_class="growing"),)))

    operator.permit("patch", PersistentVolumeClaim)
    return operator


def rabbit(storage: str) -> dict[str, object]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Rabbit",
        "metadata": {"name": "a"},
        "spec": {"storage": storage},
    }


async def scenario(run: ScenarioRun) -> None:
    await run.apply(CLASS, rabbit("10Gi"))
    await run.settled()
    await run.apply(rabbit("15Gi"))
    await run.settled()


BUG = Bug(
    issue="https://github.com/rabbitmq/cluster-operator/issues/782",
    reported_by="Sieve",
    operator=operator,
    scenario=scenario,
    perturb=("crash",),
)
