"""Deployments: a rollout from ReplicaSet to ReplicaSet, with history, pause, scaling in mid-rollout and a deadline.

A reconcile takes one step and returns the status that follows from it; the ReplicaSets' own progress wakes it for
the next. Undoing a rollout needs nothing here: an earlier template finds its earlier ReplicaSet again.
"""

from __future__ import annotations

from hashlib import blake2b

from steersman.client import AlreadyExists, ClientError, Conflict, NotFound
from steersman.controller import RequeueError, Result, controller_of, patch_status
from steersman.k8s import Deployment, Pod, ReplicaSet
from steersman.k8s.apps_v1 import DeploymentCondition, DeploymentStatus, ReplicaSetSpec
from steersman.models import Key, MergePatch, ObjectMeta, encode, replace
from steersman.operator import Context, Operator, Watch
from steersman_cluster.controllers.terminating_namespaces import creation_error, is_namespace_terminating
from steersman_cluster.controllers.workloads.adoption import claimed, watch_orphans
from steersman_cluster.controllers.workloads.rollout import (
    HASH_LABEL,
    REVISION,
    active,
    annotations_for,
    by_age,
    is_saturated,
    is_scaling_event,
    new_set_of,
    new_size,
    old_sizes,
    proportional_sizes,
    replicas_of,
    revision_of,
    same_template,
    size_annotations,
)
from steersman_cluster.controllers.workloads.rollout_status import (
    deployment_status,
    is_complete,
    seconds_to_deadline,
    with_condition,
)

__all__ = ["register", "template_hash"]


def register(operator: Operator) -> None:
    """Declare the controller."""
    operator.controller(
        owns=[ReplicaSet],
        reads=[Pod, Deployment],
        watches=[watch_orphans(ReplicaSet, Deployment), Watch(Pod, to=_to_recreated, where=_is_inactive)],
        workers=8,
        terminating=True,
    )(reconcile)


async def reconcile(d: Deployment, ctx: Context) -> Result:
    """One step of the rollout."""
    sets = list(await claimed(ctx, d, ReplicaSet))
    if d.metadata.deletion_timestamp is not None:
        return Result(status=deployment_status(d, sets, new_set_of(d, sets), d.status, ctx.now(), estimate=False))
    rollout = Rollout(d, sets, ctx)
    await rollout.step()
    status = rollout.result()
    after = seconds_to_deadline(d, status, ctx.now())
    if rollout.d is not d:  # its revision was written: the status goes to the object as it is since
        await patch_status(ctx.client, rollout.d, status, now=ctx.now)
        return Result(requeue_after=after)
    return Result(status=status, requeue_after=after)


def template_hash(d: Deployment, collisions: int) -> str:
    """A short name for a template: ten characters that never spell a word. Collisions give another one."""
    digest = blake2b(encode(d.spec.template), digest_size=8, salt=collisions.to_bytes(8, "little")).digest()
    letters = "bcdfghjklmnpqrstvwxz2456789"
    number = int.from_bytes(digest, "little")
    return "".join(letters[number // 27**place % 27] for place in range(10))


class Rollout:
    """One reconcile of one Deployment: what there is, and the status so far."""

    def __init__(self, d: Deployment, sets: list[ReplicaSet], ctx: Context) -> None:
        self.d = d
        self.ctx = ctx
        self.sets = sorted(sets, key=by_age)
        self.new = new_set_of(d, sets)
        self.status: DeploymentStatus = d.status
        self.estimates = False
        """Whether this was a step of a rollout, so that the status reports its progress."""

    @property
    def old(self) -> list[ReplicaSet]:
        return [rs for rs in self.sets if self.new is None or rs.metadata.uid != self.new.metadata.uid]

    async def step(self) -> None:
        self._note_pause()
        await self._adopt_revision()
        if self.d.spec.paused or is_scaling_event(self.d, self.sets):
            await self._scale()
            if self.d.spec.paused:
                await self._clean_up()
            return
        self.estimates = True
        if self.d.spec.strategy.type == "Recreate":
            await self._recreate()
        else:
            await self._roll()

    def result(self) -> DeploymentStatus:
        return deployment_status(self.d, self.sets, self.new, self.status, self.ctx.now(), estimate=self.estimates)

    async def _roll(self) -> None:
        new = self.new or await self._create()
        if await self._resize({new.metadata.name: new_size(self.d, self.sets, replicas_of(new))}):
            return
        if await self._resize(old_sizes(self.d, self.old, self.new or new)):
            return
        if is_complete(self.d, self.result()):
            await self._clean_up()

    async def _recreate(self) -> None:
        if await self._resize(dict.fromkeys((rs.metadata.name for rs in active(self.old)), 0)):
            return
        if self._old_pods_run():
            return
        new = self.new or await self._create()
        if await self._resize({new.metadata.name: replicas_of(self.d)}):
            return
        if is_complete(self.d, self.result()):
            await self._clean_up()

    def _old_pods_run(self) -> bool:
        """Return whether Pods of old templates have not ended yet; those of a ReplicaSet that is gone do not count."""
        old = {rs.metadata.uid for rs in self.old}
        owned = (
            pod
            for rs in self.old
            for pod in self.ctx.cache.list(Pod, namespace=rs.metadata.namespace, owner=rs.metadata.uid)
        )
        return bool(old) and any(not pod.status or pod.status.phase not in ("Failed", "Succeeded") for pod in owned)

    async def _scale(self) -> None:
        present = active(self.sets)
        if len(present) <= 1:
            only = present[0] if present else self.new or (self.sets[-1] if self.sets else None)
            if only is not None:
                await self._resize({only.metadata.name: replicas_of(self.d)})
        elif is_saturated(self.d, self.new):
            await self._resize(dict.fromkeys((rs.metadata.name for rs in active(self.old)), 0))
        elif self.d.spec.strategy.type == "RollingUpdate":
            await self._resize(proportional_sizes(self.d, self.sets), always=True)

    async def _adopt_revision(self) -> None:
        """Keep the new ReplicaSet's annotations and revision current, and the Deployment's with them."""
        if self.new is None:
            return
        revision = max((revision_of(rs) for rs in self.old), default=0) + 1
        found = annotations_for(self.d, self.new.metadata.annotations, revision, exists=True)
        ready = self.d.spec.min_ready_seconds or 0
        if found != self.new.metadata.annotations or (self.new.spec.min_ready_seconds or 0) != ready:
            await self._change(self.new, {"metadata": {"annotations": found}, "spec": {"minReadySeconds": ready}})
        assert self.new is not None
        await self._set_revision(self.new.metadata.annotations[REVISION])
        if self._has_deadline and not any(c.type == "Progressing" for c in self.status.conditions):
            self._progress("True", "FoundNewReplicaSet", f'Found new replica set "{self.new.metadata.name}"')

    async def _set_revision(self, revision: str) -> None:
        """Note the revision on the Deployment; a write of its status, so that it is no new generation."""
        if self.d.metadata.annotations.get(REVISION) != revision:
            patch = MergePatch({"metadata": {"uid": self.d.metadata.uid, "annotations": {REVISION: revision}}})
            self.d = await self.ctx.patch(self.d, patch, subresource="status")

    async def _create(self) -> ReplicaSet:
        ctx = self.ctx
        wanted = self._new_set()
        try:
            created = await ctx.create(wanted)
        except AlreadyExists:
            await self._resolve_collision(wanted)
            raise RequeueError(f"ReplicaSet {wanted.metadata.name} exists already", after=0.05) from None
        except ClientError as problem:
            if is_namespace_terminating(problem):
                raise creation_error(problem) from None
            message = f'Failed to create new replica set "{wanted.metadata.name}": {problem}'
            ctx.event("ReplicaSetCreateError", message, type="Warning", action="Create")
            raise
        self.new = created
        self.sets.append(created)
        size = replicas_of(created)
        if size:
            message = f"Scaled up replica set {created.metadata.name} from 0 to {size}"
            ctx.event("ScalingReplicaSet", message, action="Scale")
        await self._set_revision(created.metadata.annotations[REVISION])
        self._progress("True", "NewReplicaSetCreated", f'Created new replica set "{created.metadata.name}"')
        return created

    def _new_set(self) -> ReplicaSet:
        d = self.d
        digest = template_hash(d, self.status.collision_count or 0)
        metadata = d.spec.template.metadata or ObjectMeta()
        labels = {**metadata.labels, HASH_LABEL: digest}
        selector = replace(d.spec.selector, match_labels={**d.spec.selector.match_labels, HASH_LABEL: digest})
        revision = max((revision_of(rs) for rs in self.sets), default=0) + 1
        return ReplicaSet(
            metadata=ObjectMeta(
                name=f"{d.metadata.name[:242]}-{digest}",
                namespace=d.metadata.namespace,
                labels=labels,
                annotations=annotations_for(d, {}, revision, exists=False),
            ),
            spec=ReplicaSetSpec(
                replicas=new_size(d, self.sets, 0),
                min_ready_seconds=d.spec.min_ready_seconds,
                selector=selector,
                template=replace(d.spec.template, metadata=replace(metadata, labels=labels)),
            ),
        )

    async def _resolve_collision(self, wanted: ReplicaSet) -> None:
        """Another ReplicaSet has the name: unless it is ours after all, take another hash next time."""
        d, ctx = self.d, self.ctx
        found = await ctx.fetch(ReplicaSet, wanted.metadata.name)
        if found is None:
            return
        mine = any(o.controller and o.uid == d.metadata.uid for o in found.metadata.owner_references)
        if mine and same_template(found.spec.template, d.spec.template):
            return
        body = {"metadata": {"uid": d.metadata.uid}, "status": {"collisionCount": (d.status.collision_count or 0) + 1}}
        await ctx.patch(d, MergePatch(body), subresource="status")

    async def _resize(self, sizes: dict[str, int], *, always: bool = False) -> bool:
        """Scale ReplicaSets; `always` brings annotations up to date as well. Whether any size changed."""
        scaled = False
        for rs in list(self.sets):
            size = sizes.get(rs.metadata.name, replicas_of(rs))
            before = replicas_of(rs)
            notes = size_annotations(self.d)
            stale = always and rs.metadata.name in sizes and not notes.items() <= rs.metadata.annotations.items()
            if size == before and not stale:
                continue
            await self._change(rs, {"metadata": {"annotations": notes}, "spec": {"replicas": size}})
            if size != before:
                scaled = True
                way = "up" if size > before else "down"
                message = f"Scaled {way} replica set {rs.metadata.name} from {before} to {size}"
                self.ctx.event("ScalingReplicaSet", message, action="Scale")
        return scaled

    async def _change(self, rs: ReplicaSet, patch: dict[str, dict[str, object]]) -> None:
        metadata = {"uid": rs.metadata.uid, "resourceVersion": rs.metadata.resource_version, **patch["metadata"]}
        try:
            changed = await self.ctx.patch(rs, MergePatch({**patch, "metadata": metadata}))
        except (Conflict, NotFound) as problem:
            raise RequeueError(f"ReplicaSet {rs.metadata.name} changed meanwhile: {problem}", after=0.05) from None
        self.sets = [changed if known.metadata.uid == changed.metadata.uid else known for known in self.sets]
        if self.new is not None and self.new.metadata.uid == changed.metadata.uid:
            self.new = changed

    async def _clean_up(self) -> None:
        """Delete old ReplicaSets beyond the history limit, oldest revisions first, never one that has Pods."""
        limit = self.d.spec.revision_history_limit
        alive = [rs for rs in self.old if rs.metadata.deletion_timestamp is None]
        if limit is None or limit == 2**31 - 1 or len(alive) <= limit:
            return
        for rs in sorted(alive, key=lambda rs: (revision_of(rs), by_age(rs)))[: len(alive) - limit]:
            behind = rs.metadata.generation > (rs.status.observed_generation or 0)
            if not rs.status.replicas and not replicas_of(rs) and not behind:
                await self.ctx.delete(rs)

    @property
    def _has_deadline(self) -> bool:
        return self.d.spec.progress_deadline_seconds not in (None, 2**31 - 1)

    def _note_pause(self) -> None:
        known = next((c for c in self.status.conditions if c.type == "Progressing"), None)
        reason = known.reason if known else ""
        if not self._has_deadline or reason == "ProgressDeadlineExceeded":
            return
        if self.d.spec.paused and reason != "DeploymentPaused":
            self._progress("Unknown", "DeploymentPaused", "Deployment is paused")
        elif not self.d.spec.paused and reason == "DeploymentPaused":
            self._progress("Unknown", "DeploymentResumed", "Deployment is resumed")

    def _progress(self, status: str, reason: str, message: str) -> None:
        if self._has_deadline:
            condition = DeploymentCondition(type="Progressing", status=status, reason=reason, message=message)
            self.status = with_condition(self.status, condition, self.ctx.now())


def _is_inactive(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None or pod.status.phase in ("Failed", "Succeeded")


def _to_recreated(pod: Pod, ctx: Context) -> list[Key]:
    """The Deployment that waits for old Pods to end before it makes new ones."""
    of_pod = controller_of(pod)
    rs = (
        ctx.get(ReplicaSet, of_pod.name, namespace=pod.metadata.namespace)
        if of_pod and of_pod.kind == "ReplicaSet"
        else None
    )
    of_set = controller_of(rs) if rs is not None else None
    return [Key(pod.metadata.namespace, of_set.name)] if of_set and of_set.kind == "Deployment" else []
