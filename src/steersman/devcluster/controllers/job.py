"""Jobs: Pods until enough of them have succeeded, or too many failed.

Finished Pods are kept by a finalizer until they are counted, so that none is lost or counted twice, whoever deletes
them. A finished Job goes when its time to live is over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

from steersman.client import ClientError, NotFound, Preconditions
from steersman.controller import Result, Retry, controller_of
from steersman.devcluster.controllers import jobtally as tally
from steersman.devcluster.controllers.adoption import claimed, to_matching
from steersman.devcluster.controllers.jobtally import FINALIZER, INDEX, Verdict
from steersman.devcluster.controllers.pods import deletion_order, is_active, is_ready, phase_of, pod_from_template
from steersman.devcluster.controllers.replicaset import in_batches
from steersman.k8s import Job, Pod
from steersman.k8s.batch_v1 import JobStatus, UncountedTerminatedPods
from steersman.k8s.core_v1 import Container, EnvVar, EnvVarSource, ObjectFieldSelector
from steersman.models import MergePatch, replace
from steersman.operator import Context, Operator, Watch

__all__ = ["indexed_pod", "register"]

CONTROLLER = "kubernetes.io/job-controller"


def register(operator: Operator, *, failure_backoff: float = 10.0) -> None:
    """Declare the controllers; `failure_backoff` is the wait in seconds after a first failure."""
    operator.controller(owns=[Pod], reads=[Job], watches=[Watch(Pod, to=to_matching(Job))], workers=8, deleting=True)(
        _with_backoff(failure_backoff)
    )
    operator.controller(name="job-orphans", reads=[Job], where=_is_tracked, deleting=True)(release_orphan)
    operator.controller(name="job-ttl", where=tally.is_finished)(end_of_life)


def _with_backoff(failure_backoff: float) -> Callable[[Job, Context], Awaitable[Result | None]]:
    async def reconcile(job: Job, ctx: Context) -> Result | None:
        if tally.is_finished(job) or job.spec.managed_by not in (None, CONTROLLER):
            return None
        return await Run(job, await claimed(ctx, job, Pod), ctx, failure_backoff).step()

    return reconcile


def _is_tracked(pod: Pod) -> bool:
    return FINALIZER in pod.metadata.finalizers


async def release_orphan(pod: Pod, ctx: Context) -> None:
    """Free a Pod whose Job is gone or over: nobody will count it."""
    owner = controller_of(pod)
    if not _is_tracked(pod) or (owner is not None and owner.kind != "Job"):
        return
    job = ctx.get(Job, owner.name) if owner else None
    if owner is not None and job is None:
        job = await ctx.fetch(Job, owner.name)
    alive = job is not None and owner is not None and job.metadata.uid == owner.uid and not tally.is_finished(job)
    if not alive and (owner is not None or pod.metadata.deletion_timestamp is not None):
        await release(pod, ctx)


async def release(pod: Pod, ctx: Context) -> None:
    """Take the tracking finalizer off."""
    left = [name for name in pod.metadata.finalizers if name != FINALIZER]
    metadata = {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version, "finalizers": left or None}
    try:
        await ctx.patch(pod, MergePatch({"metadata": metadata}))
    except NotFound:
        return


async def end_of_life(job: Job, ctx: Context) -> Result | None:
    """Delete a finished Job when its time to live is over."""
    over, ttl = tally.finished_at(job), job.spec.ttl_seconds_after_finished
    if over is None or ttl is None:
        return None
    left = (over + timedelta(seconds=ttl) - ctx.now()).total_seconds()
    if left > 0:
        return Result(requeue_after=left)
    await ctx.client.delete(
        Job,
        job.metadata.name,
        job.metadata.namespace,
        propagation="Foreground",
        preconditions=Preconditions(uid=job.metadata.uid),
        missing_ok=True,
    )
    return None


def indexed_pod(job: Job, index: int) -> Pod:
    """The Pod that works on one index: annotation, label, host name and variable say which."""
    pod = pod_from_template(job.spec.template, job, generate_name=f"{job.metadata.name}-{index}-")
    source = EnvVarSource(field_ref=ObjectFieldSelector(field_path=f"metadata.labels['{INDEX}']"))
    variable = EnvVar(name="JOB_COMPLETION_INDEX", value_from=source)

    def told(container: Container) -> Container:
        known = any(v.name == variable.name for v in container.env)
        return container if known else replace(container, env=(*container.env, variable))

    return replace(
        pod,
        metadata=replace(
            pod.metadata,
            annotations={**pod.metadata.annotations, INDEX: str(index)},
            labels={**pod.metadata.labels, INDEX: str(index)},
        ),
        spec=replace(
            pod.spec,
            hostname=f"{job.metadata.name}-{index}",
            containers=tuple(map(told, pod.spec.containers)),
            init_containers=tuple(map(told, pod.spec.init_containers)),
        ),
    )


class Run:
    """One reconcile of one Job."""

    def __init__(self, job: Job, pods: Sequence[Pod], ctx: Context, failure_backoff: float) -> None:
        self.job = job
        self.pods = pods
        self.ctx = ctx
        self.failure_backoff = failure_backoff
        self.now = ctx.now()
        self.wait: float | None = None

    async def step(self) -> Result:
        job, old = self.job, self.job.status
        await self._count_noted()
        noted = self._to_note()
        done = tally.indexes_in(old.completed_indexes) | self._succeeded_indexes()
        uncounted = old.uncounted_terminated_pods or UncountedTerminatedPods()
        counted = (
            (old.succeeded or 0) + len(uncounted.succeeded),
            (old.failed or 0) + len(uncounted.failed),
        )
        succeeded = len(done) if tally.is_indexed(job) else counted[0] + len(noted.succeeded)
        failed = counted[1] + len(noted.failed)
        over = tally.verdict(job, self.pods, succeeded, failed, done, self.now)
        active = [pod for pod in self.pods if is_active(pod)]
        if over is not None or job.spec.suspend:
            active = await self._end(active)
        elif job.metadata.deletion_timestamp is None:
            active = await self._manage(active, succeeded, done)
        return self._result(noted, counted, done, active, over)

    async def _count_noted(self) -> None:
        """Free the Pods that the status has noted: from now on they count."""
        uncounted = self.job.status.uncounted_terminated_pods
        noted = {*uncounted.succeeded, *uncounted.failed} if uncounted else set[str]()
        for pod in self.pods:
            if pod.metadata.uid in noted and FINALIZER in pod.metadata.finalizers:
                await release(pod, self.ctx)

    def _to_note(self) -> UncountedTerminatedPods:
        """Finished Pods that are not noted yet."""
        known = self.job.status.uncounted_terminated_pods or UncountedTerminatedPods()
        noted = {*known.succeeded, *known.failed}
        fresh = [p for p in self.pods if FINALIZER in p.metadata.finalizers and p.metadata.uid not in noted]
        failed = [p for p in fresh if tally.has_failed(self.job, p) and not self._ignored(p)]
        for pod in fresh:
            if phase_of(pod) == "Failed" and self._ignored(pod):
                failed = [p for p in failed if p is not pod]
        return UncountedTerminatedPods(
            succeeded=tuple(p.metadata.uid for p in fresh if phase_of(p) == "Succeeded"),
            failed=tuple(p.metadata.uid for p in failed),
        )

    def _ignored(self, pod: Pod) -> bool:
        rule, _ = tally.failure_rule(self.job, pod) if phase_of(pod) == "Failed" else (None, "")
        return rule is not None and rule.action == "Ignore"

    def _succeeded_indexes(self) -> set[int]:
        if not tally.is_indexed(self.job):
            return set()
        found = (tally.index_of(pod) for pod in self.pods if phase_of(pod) == "Succeeded")
        return {n for n in found if n is not None and n < (self.job.spec.completions or 0)}

    async def _end(self, active: Sequence[Pod]) -> list[Pod]:
        """Delete the Pods that still run."""
        for pod in active:
            if await self.ctx.delete(pod):
                self.ctx.event("SuccessfulDelete", f"Deleted pod: {pod.metadata.name}", action="Delete")
        if active:
            self.wait = 0.0  # they count as failed from now on
        return []

    async def _manage(self, active: list[Pod], succeeded: int, done: set[int]) -> list[Pod]:
        """Have as many Pods run as should."""
        job = self.job
        wanted = tally.wanted_active(job, succeeded, len(active))
        if len(active) > wanted:
            peers = Counter(pod.spec.node_name or "" for pod in active if pod.spec)
            surplus = deletion_order(active, peers, self.now)[: len(active) - wanted]
            await self._end(surplus)
            return [pod for pod in active if pod not in surplus]
        missing = wanted - len(active)
        if job.spec.pod_replacement_policy == "Failed":
            missing -= sum(p.metadata.deletion_timestamp is not None and phase_of(p) != "Failed" for p in self.pods)
        at = tally.retry_at(self.pods, self.failure_backoff)
        if missing > 0 and at is not None and at > self.now:
            self.wait = (at - self.now).total_seconds()
            return active
        if missing > 0:
            await self._create(missing, active, done)
        return [pod for pod in self.ctx.list(Pod, owned=True) if is_active(pod)]

    async def _create(self, missing: int, active: Sequence[Pod], done: set[int]) -> None:
        job, ctx = self.job, self.ctx
        indexed = tally.is_indexed(job)
        indexes = iter(tally.missing_indexes(job, done, active, missing))
        count = len(tally.missing_indexes(job, done, active, missing)) if indexed else missing

        async def create() -> None:
            pod = indexed_pod(job, next(indexes)) if indexed else pod_from_template(job.spec.template, job)
            finalizers = (*pod.metadata.finalizers, FINALIZER)
            made = await ctx.create(replace(pod, metadata=replace(pod.metadata, finalizers=finalizers)), owned=False)
            ctx.event("SuccessfulCreate", f"Created pod: {made.metadata.name}", action="Create")

        problem: ClientError | None = await in_batches(count, create)
        if problem is not None:
            ctx.event("FailedCreate", f"Error creating: {problem}", type="Warning", action="Create")
            raise Retry(f"not all Pods could be made: {problem}", after=1.0)

    def _result(
        self,
        noted: UncountedTerminatedPods,
        counted: tuple[int, int],
        done: set[int],
        active: Sequence[Pod],
        over: Verdict | None,
    ) -> Result:
        job, old, now = self.job, self.job.status, self.now.replace(microsecond=0)
        conditions = old.conditions
        started = old.start_time
        if job.spec.suspend:
            conditions = tally.with_condition(conditions, "Suspended", "True", "JobSuspended", "Job suspended", now)
            started = None
        elif over is None or started is None:
            if any(c.type == "Suspended" and c.status == "True" for c in conditions):
                conditions = tally.with_condition(conditions, "Suspended", "False", "JobResumed", "Job resumed", now)
                started = now
            started = started or now
        pending = bool(noted.succeeded or noted.failed)
        terminating = sum(
            p.metadata.deletion_timestamp is not None and phase_of(p) not in ("Succeeded", "Failed")
            for p in self.ctx.list(Pod, owned=True)
        )
        completion: datetime | None = None
        if over is not None:
            conditions = tally.with_condition(conditions, over.type, "True", over.reason, over.message, now)
            if not pending and not active and not terminating:
                final = "Complete" if over.type == "SuccessCriteriaMet" else "Failed"
                conditions = tally.with_condition(conditions, final, "True", over.reason, over.message, now)
                completion = now if final == "Complete" else None
                self._announce(final, over)
        succeeded = len(done) if tally.is_indexed(job) else counted[0]
        ready = sum(is_ready(pod) for pod in active)
        status = JobStatus(
            active=len(active) or None,
            ready=ready,
            terminating=terminating,
            succeeded=succeeded or None,
            failed=counted[1] or None,
            start_time=started,
            completion_time=completion,
            completed_indexes=(tally.text_of(done) or None) if tally.is_indexed(job) else None,
            uncounted_terminated_pods=noted,
            conditions=conditions,
        )
        return Result(status=status, requeue_after=0.0 if pending else self._next(started))

    def _announce(self, final: str, over: Verdict) -> None:
        if final == "Complete":
            self.ctx.event("Completed", "Job completed", action="Complete")
        else:
            self.ctx.event(over.reason, over.message, type="Warning", action="Fail")

    def _next(self, started: datetime | None) -> float | None:
        """When to look again: after a wait for a retry, or at the deadline."""
        waits = [self.wait] if self.wait is not None else []
        deadline = self.job.spec.active_deadline_seconds
        if deadline is not None and started is not None and not self.job.spec.suspend:
            left = (started + timedelta(seconds=deadline) - self.now).total_seconds()
            waits.append(max(0.0, left) + 0.05)
        return min(waits, default=None)
