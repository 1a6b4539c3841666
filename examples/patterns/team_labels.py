"""Patches of other kinds: a label of the Namespace is put on all its workloads, of whatever kind.

The loop declares one controller for each kind. A patch changes one label and leaves the rest to its owner.
"""

from typing import Any

from steersman import Context, Key, MergePatch, Operator, PartialObjectMetadata, Watch, metadata_of
from steersman.k8s import DaemonSet, Deployment, Namespace, StatefulSet

TEAM = "team"

operator = Operator("team-labels")


def controller_for(kind: Any) -> None:
    def members(namespace: PartialObjectMetadata, ctx: Context) -> list[Key]:
        found = ctx.list(metadata_of(kind), namespace=namespace.metadata.name)
        return [Key(one.metadata.namespace, one.metadata.name) for one in found]

    async def reconcile(found: PartialObjectMetadata, ctx: Context) -> None:
        namespace = ctx.get(metadata_of(Namespace), found.metadata.namespace)
        team = namespace.metadata.labels.get(TEAM) if namespace else None
        if found.metadata.labels.get(TEAM) != team:
            patch = MergePatch({"metadata": {"labels": {TEAM: team}}})
            await ctx.patch(kind, patch, name=found.metadata.name, namespace=found.metadata.namespace)

    operator.permit("patch", kind)
    view = metadata_of(kind)
    operator.controller(kind=view, reads=[view], watches=[Watch(metadata_of(Namespace), to=members)])(reconcile)


for workload in (Deployment, StatefulSet, DaemonSet):
    controller_for(workload)
