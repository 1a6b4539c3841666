"""StatefulSets: Pods with stable names and volumes, created in order, updated from the last to the first.

One pass over the ordinals decides the actions; in the ordered mode it ends at the first Pod that does not run yet. The
retention policy of the set decides when claims are deleted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from steersman.client import AlreadyExists
from steersman.controller import Result, owner_reference
from steersman.controller.ownership import wire_reference
from steersman.k8s import ControllerRevision, PersistentVolumeClaim, Pod, StatefulSet
from steersman.k8s.apps_v1 import StatefulSetStatus
from steersman.k8s.core_v1 import PersistentVolumeClaimVolumeSource, PodTemplateSpec, Volume
from steersman.models import MergePatch, ObjectMeta, replace, scaled_value
from steersman.operator import Context, Operator
from steersman_cluster.controllers.pods import (
    is_available,
    is_ready,
    phase_of,
    pod_from_template,
    seconds_to_available,
)
from steersman_cluster.controllers.workloads.adoption import claimed, watch_orphans
from steersman_cluster.controllers.workloads.revisions import REVISION_LABEL, current_revision, prune, template_of

__all__ = ["Ordinals", "claim_names", "ordinal_of", "ordinals", "pod_of", "register", "to_update"]

HASH_LABEL = "controller.kubernetes.io/hash"
"""The label of a StatefulSet's revisions with their hash; its Pods have the revision's name in another."""
_POD_NAME = "statefulset.kubernetes.io/pod-name"
_POD_INDEX = "apps.kubernetes.io/pod-index"


def register(operator: Operator) -> None:
    """Declare the controller."""
    operator.controller(
        owns=[Pod, ControllerRevision],
        reads=[StatefulSet, PersistentVolumeClaim],
        watches=[watch_orphans(Pod, StatefulSet)],
        workers=8,
        terminating=True,
    )(reconcile)


class Ordinals(NamedTuple):
    """The numbers that a set's Pods have: from `start`, `size` of them."""

    start: int
    size: int

    def __contains__(self, ordinal: object) -> bool:
        return isinstance(ordinal, int) and self.start <= ordinal < self.start + self.size


def ordinals(s: StatefulSet) -> Ordinals:
    """Return the desired range of ordinals: `spec.ordinals.start` and `spec.replicas`."""
    return Ordinals(
        (s.spec.ordinals.start or 0) if s.spec.ordinals else 0, 1 if s.spec.replicas is None else s.spec.replicas
    )


def ordinal_of(s: StatefulSet, pod: Pod) -> int | None:
    """The number of a Pod; `None` for a name that is not the set's to give."""
    found = re.fullmatch(rf"{re.escape(s.metadata.name)}-([0-9]+)", pod.metadata.name)
    return int(found[1]) if found else None


def claim_names(s: StatefulSet, ordinal: int) -> dict[str, str]:
    """The claims of a Pod: from the template's name to the claim's."""
    names = (template.metadata.name for template in s.spec.volume_claim_templates)
    return {name: f"{name}-{s.metadata.name}-{ordinal}" for name in names}


def pod_of(s: StatefulSet, template: PodTemplateSpec, revision: str, ordinal: int) -> Pod:
    """The Pod of an ordinal: its identity and its volumes put into the template."""
    name = f"{s.metadata.name}-{ordinal}"
    pod = pod_from_template(template, s, name=name, generate_name=f"{s.metadata.name}-")
    claims = claim_names(s, ordinal)
    volumes = tuple(
        Volume(name=volume, persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=claim))
        for volume, claim in claims.items()
    )
    others = tuple(volume for volume in pod.spec.volumes if volume.name not in claims)
    identity = {_POD_NAME: name, _POD_INDEX: str(ordinal), REVISION_LABEL: revision}
    return replace(
        pod,
        metadata=replace(pod.metadata, labels={**pod.metadata.labels, **identity}),
        spec=replace(pod.spec, hostname=name, subdomain=s.spec.service_name or None, volumes=(*volumes, *others)),
    )


def to_update(s: StatefulSet, pods: dict[int, Pod], revision: str, now: datetime) -> list[Pod]:
    """The Pods to delete now so that they come back as the update revision: the last first, never too many at once."""
    rolling = s.spec.update_strategy.rolling_update
    at_once = rolling.max_unavailable if rolling and rolling.max_unavailable is not None else 1
    budget = max(1, scaled_value(at_once, ordinals(s).size, round_up=True))
    partition = (rolling.partition or 0) if rolling else 0
    span = range(ordinals(s).start + partition, ordinals(s).start + ordinals(s).size)
    unavailable = sum(not _available(s, pods.get(n), now) for n in range(ordinals(s).start, span.stop))
    chosen: list[Pod] = []
    for ordinal in reversed(span):
        pod = pods.get(ordinal)
        if pod is None:
            continue
        if pod.metadata.labels.get(REVISION_LABEL) != revision and pod.metadata.deletion_timestamp is None:
            broken = not _available(s, pod, now)
            if not broken and unavailable + len(chosen) >= budget:
                break
            chosen.append(pod)
            if len(chosen) >= budget:
                break
        elif not _available(s, pod, now) and budget == 1:
            break
    return chosen


def _running(pod: Pod | None) -> bool:
    return pod is not None and phase_of(pod) == "Running" and is_ready(pod)


def _available(s: StatefulSet, pod: Pod | None, now: datetime) -> bool:
    running = pod is not None and pod.metadata.deletion_timestamp is None and _running(pod)
    return running and pod is not None and is_available(pod, s.spec.min_ready_seconds or 0, now)


async def reconcile(s: StatefulSet, ctx: Context) -> Result:
    """One pass over the set."""
    pods = await claimed(ctx, s, Pod, accepts=lambda pod: ordinal_of(s, pod) is not None)
    update, history = await current_revision(ctx, s, s.status.collision_count or 0, label=HASH_LABEL)
    current = next((r for r in history if r.metadata.name == s.status.current_revision), update)
    if s.metadata.deletion_timestamp is None:
        await _Reconcile(s, pods, current, update, ctx).work()
    pods = tuple(pod for pod in ctx.list(Pod, owned=True) if ordinal_of(s, pod) is not None)
    status = stateful_status(s, pods, current, update, ctx.now())
    in_use = {pod.metadata.labels.get(REVISION_LABEL, "") for pod in pods}
    await prune(ctx, history, {*in_use, current.metadata.name, update.metadata.name}, s.spec.revision_history_limit)
    return Result(status=status, requeue_after=seconds_to_available(pods, s.spec.min_ready_seconds or 0, ctx.now()))


class _Reconcile:
    """One walk over the ordinals of a set."""

    def __init__(
        self,
        s: StatefulSet,
        pods: Sequence[Pod],
        current: ControllerRevision,
        update: ControllerRevision,
        ctx: Context,
    ) -> None:
        self.s = s
        self.ctx = ctx
        self.current = current
        self.update = update
        self.pods = {ordinal: pod for pod in pods if (ordinal := ordinal_of(s, pod)) is not None}
        self.ordered = s.spec.pod_management_policy != "Parallel"

    async def work(self) -> None:
        """Create missing Pods, then delete surplus ones, then update."""
        wanted = ordinals(self.s)
        for ordinal in range(wanted.start, wanted.start + wanted.size):
            if await self._keep(ordinal):
                return
        await self._retain()
        surplus = sorted((n for n in self.pods if n not in wanted), reverse=True)
        for ordinal in surplus:
            if await self._give_up(ordinal, surplus):
                return
        if self.s.spec.update_strategy.type != "OnDelete" and not surplus:
            for pod in to_update(self.s, self.pods, self.update.metadata.name, self.ctx.now()):
                await self._delete(pod)

    async def _keep(self, ordinal: int) -> bool:
        """See to one wanted Pod; true when nothing after it may be touched yet."""
        pod = self.pods.get(ordinal)
        if pod is not None and phase_of(pod) in ("Failed", "Succeeded"):
            if pod.metadata.deletion_timestamp is None:
                whole = f"{self.s.metadata.namespace}/{self.s.metadata.name}"
                message = f"StatefulSet {whole} is recreating failed Pod {pod.metadata.name}"
                self.ctx.event("RecreatingFailedPod", message, type="Warning", action="Delete")
                await self._delete(pod)
            return self.ordered
        if pod is None:
            await self._create(ordinal)
            return self.ordered
        if phase_of(pod) == "Pending" and pod.metadata.deletion_timestamp is None:
            await self._claims(ordinal)
        return self.ordered and not _available(self.s, pod, self.ctx.now())

    async def _create(self, ordinal: int) -> None:
        revision = self._revision_for(ordinal)
        await self._claims(ordinal)
        name = f"{self.s.metadata.name}-{ordinal}"
        try:
            pod = await self.ctx.create(
                pod_of(self.s, template_of(revision), revision.metadata.name, ordinal), owned=False
            )
        except AlreadyExists:
            return
        self.pods[ordinal] = pod
        message = f"create Pod {name} in StatefulSet {self.s.metadata.name} successful"
        self.ctx.event("SuccessfulCreate", message, action="Create")

    def _revision_for(self, ordinal: int) -> ControllerRevision:
        """Below the partition, and before an update has begun, a Pod comes back as it was."""
        rolling = self.s.spec.update_strategy.rolling_update
        if self.s.spec.update_strategy.type != "RollingUpdate":
            return self.update
        wanted = ordinals(self.s)
        below = wanted.start + ((rolling.partition or 0) if rolling else 0)
        untouched = rolling is None and ordinal < wanted.start + (self.s.status.current_replicas or 0)
        return self.current if ordinal < below or untouched else self.update

    async def _claims(self, ordinal: int) -> None:
        names = claim_names(self.s, ordinal)
        for template in self.s.spec.volume_claim_templates:
            name = names[template.metadata.name]
            if self.ctx.get(PersistentVolumeClaim, name) is not None:
                continue
            labels = {**template.metadata.labels, **self.s.spec.selector.match_labels}
            metadata = ObjectMeta(name=name, labels=labels, annotations=template.metadata.annotations)
            try:
                await self.ctx.create(PersistentVolumeClaim(metadata=metadata, spec=template.spec), owned=False)
            except AlreadyExists:
                continue
            of = self.s.metadata.name
            message = f"create Claim {name} Pod {of}-{ordinal} in StatefulSet {of} success"
            self.ctx.event("SuccessfulCreate", message, action="Create")

    async def _retain(self) -> None:
        """Set the owners of the claims as the retention policy says: the set, the deleted Pod, or none."""
        policy = self.s.spec.persistent_volume_claim_retention_policy
        with_set = policy is not None and policy.when_deleted == "Delete"
        with_pod = policy is not None and policy.when_scaled == "Delete"
        wanted = ordinals(self.s)
        for ordinal, pod in self.pods.items():
            for name in claim_names(self.s, ordinal).values():
                claim = self.ctx.get(PersistentVolumeClaim, name)
                if claim is None:
                    continue
                owners: list[object] = [self.s] if with_set and (ordinal in wanted or not with_pod) else []
                if with_pod and ordinal not in wanted:
                    owners = [pod]
                await self._own(claim, owners, {self.s.metadata.uid, pod.metadata.uid})

    async def _own(self, claim: PersistentVolumeClaim, owners: Sequence[object], ours: set[str]) -> None:
        others = [o for o in claim.metadata.owner_references if o.uid not in ours]
        wanted = [*others, *(replace(owner_reference(o), controller=None, block_owner_deletion=None) for o in owners)]
        if {o.uid for o in wanted} != {o.uid for o in claim.metadata.owner_references}:
            metadata = {"uid": claim.metadata.uid, "ownerReferences": [*map(wire_reference, wanted)] or None}
            await self.ctx.patch(claim, MergePatch({"metadata": metadata}))

    async def _give_up(self, ordinal: int, surplus: Sequence[int]) -> bool:
        """Delete one Pod too many; true when the others have to wait for it."""
        pod = self.pods[ordinal]
        if pod.metadata.deletion_timestamp is not None:
            return self.ordered
        unhealthy = [n for n in sorted(self.pods) if not _available(self.s, self.pods[n], self.ctx.now())]
        if self.ordered and not _available(self.s, pod, self.ctx.now()) and unhealthy and unhealthy[0] != ordinal:
            return True
        await self._delete(pod)
        return self.ordered

    async def _delete(self, pod: Pod) -> None:
        if await self.ctx.delete(pod):
            message = f"delete Pod {pod.metadata.name} in StatefulSet {self.s.metadata.name} successful"
            self.ctx.event("SuccessfulDelete", message, action="Delete")


def stateful_status(
    s: StatefulSet, pods: Sequence[Pod], current: ControllerRevision, update: ControllerRevision, now: datetime
) -> StatefulSetStatus:
    """Count the Pods by state and revision; a finished update makes its revision the current one."""

    def count(revision: str) -> int:
        return sum(
            pod.metadata.deletion_timestamp is None and pod.metadata.labels.get(REVISION_LABEL) == revision
            for pod in pods
        )

    ready = sum(_running(pod) for pod in pods)
    old, new = current.metadata.name, update.metadata.name
    updated = count(new)
    finished = updated == len(pods) == ready
    if finished and s.spec.update_strategy.type == "RollingUpdate":
        old = new
    return StatefulSetStatus(
        observed_generation=s.metadata.generation,
        replicas=len(pods),
        ready_replicas=ready or None,
        available_replicas=sum(_running(p) and is_available(p, s.spec.min_ready_seconds or 0, now) for p in pods),
        current_replicas=count(old) or None,
        updated_replicas=updated or None,
        current_revision=old,
        update_revision=new,
        collision_count=s.status.collision_count or 0,
        conditions=s.status.conditions,
    )
