"""Jobs: run Pods until enough of them have succeeded or too many have failed.

A finalizer keeps finished Pods until they are counted, so that no deletion loses one or counts it twice. A finished
Job is deleted after `ttlSecondsAfterFinished`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from steersman.client import NotFound, Preconditions
from steersman.controller import RequeueError, Result, controller_of
from steersman.k8s import Job, Pod
from steersman.k8s.batch_v1 import JobStatus, UncountedTerminatedPods
from steersman.k8s.core_v1 import Container, EnvVar, EnvVarSource, ObjectFieldSelector
from steersman.models import MergePatch, replace
from steersman.operator import Context, Operator
from steersman_cluster.controllers.creation import create_pods
from steersman_cluster.controllers.pods import deletion_order, is_active, is_ready, phase_of, pod_from_template
from steersman_cluster.controllers.workloads import job_failures as failures
from steersman_cluster.controllers.workloads import job_status as tally
from steersman_cluster.controllers.workloads.adoption import claimed, watch_orphans
from steersman_cluster.controllers.workloads.job_status import FINALIZER, INDEX, Verdict

__all__ = ["indexed_pod", "register"]

CONTROLLER = "kubernetes.io/job-controller"


def register(operator: Operator, *, failure_backoff: float = 10.0) -> None:
    """Declare the controllers; `failure_backoff` is the wait in seconds after a first failure."""
    operator.controller(owns=[Pod], reads=[Job], watches=[watch_orphans(Pod, Job)], workers=8, terminating=True)(
        _with_backoff(failure_backoff)
    )
    operator.controller(name="job-orphans", reads=[Job], where=_is_tracked, terminating=True)(release_orphan)
    operator.controller(name="job-ttl", where=tally.is_finished)(end_of_life)


def _with_backoff(failure_backoff: float) -> Callable[[Job, Context], Awaitable[Result | None]]:
    async def reconcile(job: Job, ctx: Context) -> Result | None:
        if tally.is_finished(job) or job.spec.managed_by not in (None, CONTROLLER):
            return None
        return await Run(job, await claimed(ctx, job, Pod), ctx, failure_backoff).step()

    return reconcile


def _tracked(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, finalizers=(*pod.metadata.finalizers, FINALIZER)))


def _is_tracked(pod: Pod) -> bool:
    return FINALIZER in pod.metadata.finalizers


async def release_orphan(pod: Pod, ctx: Context) -> None:
    """Remove the finalizer of a Pod whose Job is deleted or finished."""
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
        namespace=job.metadata.namespace,
        propagation="Foreground",
        preconditions=Preconditions(uid=job.metadata.uid),
        missing_ok=True,
    )
    return None


def indexed_pod(job: Job, index: int, replaced: Pod | None = None) -> Pod:
    """Return the Pod for one index, with its annotation, label, host name and variable.

    `replaced` is the Pod before it, where indexes have limits of their own.
    """
    pod = pod_from_template(job.spec.template, job, generate_name=f"{job.metadata.name}-{index}-")
    source = EnvVarSource(field_ref=ObjectFieldSelector(field_path=f"metadata.labels['{INDEX}']"))
    variable = EnvVar(name="JOB_COMPLETION_INDEX", value_from=source)

    def with_variable(container: Container) -> Container:
        known = any(v.name == variable.name for v in container.env)
        return container if known else replace(container, env=(*container.env, variable))

    return replace(
        pod,
        metadata=replace(
            pod.metadata,
            annotations={
                **pod.metadata.annotations,
                INDEX: str(index),
                **(failures.annotations_of(job, replaced) if failures.is_per_index(job) else {}),
            },
            labels={**pod.metadata.labels, INDEX: str(index)},
        ),
        spec=replace(
            pod.spec,
            hostname=f"{job.metadata.name}-{index}",
            containers=tuple(map(with_variable, pod.spec.containers)),
            init_containers=tuple(map(with_variable, pod.spec.init_containers)),
        ),
    )


def _has_ended(pod: Pod) -> bool:
    return phase_of(pod) in ("Succeeded", "Failed")


class Run:
    """One reconcile of one Job."""

    def __init__(self, job: Job, pods: Sequence[Pod], ctx: Context, failure_backoff: float) -> None:
        self.job = job
        self.pods = pods
        self.ctx = ctx
        self.failure_backoff = failure_backoff
        self.now = ctx.now()
        self.wait: float | None = None
        self.done: set[int] = set()
        self.failed: set[int] = set()
        self.replaced: Mapping[int, Pod] = {}

    async def step(self) -> Result:
        job, old = self.job, self.job.status
        await self._count_noted()
        self.done = tally.indexes_in(old.completed_indexes) | self._succeeded_indexes()
        fresh = self._fresh()
        if failures.is_per_index(job):
            self.failed = failures.failed_indexes(job, fresh)
            working = {tally.index_of(pod) for pod in self.pods if is_active(pod)}
            self.replaced = failures.awaiting(job, fresh, self.done | self.failed | working)
        uncounted = old.uncounted_terminated_pods or UncountedTerminatedPods()
        counted = (
            (old.succeeded or 0) + len(uncounted.succeeded),
            (old.failed or 0) + len(uncounted.failed),
        )
        succeeded = counted[0] + sum(phase_of(pod) == "Succeeded" for pod in fresh)
        if tally.is_indexed(job):
            succeeded = len(self.done)
        over = self._verdict(succeeded, counted[1] + sum(failures.counts(job, pod) for pod in fresh))
        active = [pod for pod in self.pods if is_active(pod)]
        noted = await self._note(fresh, over)  # before running Pods are deleted, so that they do not count as such
        if over is not None or job.spec.suspend:
            active = await self._end(active)
        elif job.metadata.deletion_timestamp is None:
            active = await self._manage(active, succeeded)
        return self._result(noted, counted, active, over)

    def _verdict(self, succeeded: int, failed: int) -> Verdict | None:
        """Return the final condition of the Job, if any; failure precedes success, and a recorded decision stays."""
        job, pods = self.job, self.pods
        return (
            tally.decided(job)
            or failures.has_failed_job(job, pods)
            or tally.limits_met(job, pods, failed, self.now)
            or (failures.verdict_of_indexes(job, self.done, self.failed) if failures.is_per_index(job) else None)
            or tally.success(job, pods, succeeded, self.done)
        )

    async def _count_noted(self) -> None:
        """Free the Pods that the status has noted: from now on they count."""
        uncounted = self.job.status.uncounted_terminated_pods
        noted = {*uncounted.succeeded, *uncounted.failed} if uncounted else set[str]()
        for pod in self.pods:
            if pod.metadata.uid in noted and FINALIZER in pod.metadata.finalizers:
                await release(pod, self.ctx)

    def _fresh(self) -> list[Pod]:
        """Tracked Pods that are not noted yet."""
        known = self.job.status.uncounted_terminated_pods or UncountedTerminatedPods()
        noted = {*known.succeeded, *known.failed}
        return [p for p in self.pods if FINALIZER in p.metadata.finalizers and p.metadata.uid not in noted]

    async def _note(self, fresh: Sequence[Pod], over: Verdict | None) -> UncountedTerminatedPods:
        """Decide which Pods are to be counted; free those that never will be.

        When a Job fails, its running Pods count as failed; when it succeeds, they do not count.
        """
        job = self.job
        succeeded: list[str] = []
        failed: list[str] = []
        waiting = {pod.metadata.uid for pod in self.replaced.values()} if over is None else set[str]()
        for pod in fresh:
            is_failed = tally.has_failed(job, pod)
            if phase_of(pod) == "Succeeded":
                succeeded.append(pod.metadata.uid)
            elif pod.metadata.uid in waiting or not (is_failed or over):
                continue
            elif failures.action_of(job, pod) != "Ignore" and (is_failed or (over and over.type == "FailureTarget")):
                failed.append(pod.metadata.uid)
            else:
                await release(pod, self.ctx)
        return UncountedTerminatedPods(succeeded=tuple(succeeded), failed=tuple(failed))

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

    async def _manage(self, active: list[Pod], succeeded: int) -> list[Pod]:
        """Have as many Pods run as should."""
        job = self.job
        wanted = tally.wanted_active(job, succeeded, len(active))
        if len(active) > wanted:
            peers = Counter(pod.spec.node_name or "" for pod in active if pod.spec)
            surplus = deletion_order(active, peers, self.now)[: len(active) - wanted]
            await self._end(surplus)
            return [pod for pod in active if pod not in surplus]
        leaving = [p for p in self.pods if p.metadata.deletion_timestamp is not None and not _has_ended(p)]
        kept = leaving if tally.replaces_failed_only(job) else []
        missing = wanted - len(active) - len(kept)
        if missing <= 0:
            return active
        if not tally.is_indexed(job):
            makers = [lambda: pod_from_template(job.spec.template, job)] * missing
        else:
            indexes = tally.missing_indexes(job, self.done | self.failed, [*active, *kept], missing)
            if failures.is_per_index(job):
                indexes = self._due(indexes)
            makers = [partial(indexed_pod, job, index, self.replaced.get(index)) for index in indexes]
        at = None if failures.is_per_index(job) else tally.retry_at(self.pods, self.failure_backoff)
        if at is not None and at > self.now:
            self.wait = (at - self.now).total_seconds()
            return active
        await self._create(makers)
        return [pod for pod in self.ctx.list(Pod, owned=True) if is_active(pod)]

    def _due(self, indexes: Sequence[int]) -> list[int]:
        """The indexes that need not wait after a failure; notes when the next one is due."""
        due: list[int] = []
        for index in indexes:
            at = failures.retry_index_at(self.replaced.get(index), self.failure_backoff)
            if at is None or at <= self.now:
                due.append(index)
            else:
                left = (at - self.now).total_seconds()
                self.wait = left if self.wait is None else min(self.wait, left)
        return due

    async def _create(self, makers: Sequence[Callable[[], Pod]]) -> None:
        ctx = self.ctx
        problem = await create_pods(ctx, [_tracked(make()) for make in makers])
        if problem is not None:
            ctx.event("FailedCreate", f"Error creating: {problem}", type="Warning", action="Create")
            raise RequeueError(f"not all Pods could be made: {problem}", after=1.0)

    def _result(
        self,
        noted: UncountedTerminatedPods,
        counted: tuple[int, int],
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
            p.metadata.deletion_timestamp is not None and not _has_ended(p) for p in self.ctx.list(Pod, owned=True)
        )
        completion: datetime | None = None
        if over is not None:
            conditions = tally.with_condition(conditions, over.type, "True", over.reason, over.message, now)
            if not pending and not active and not terminating:
                final = "Complete" if over.type == "SuccessCriteriaMet" else "Failed"
                conditions = tally.with_condition(conditions, final, "True", over.reason, over.message, now)
                completion = now if final == "Complete" else None
                self._announce(final, over)
        succeeded = len(self.done) if tally.is_indexed(job) else counted[0]
        ready = sum(is_ready(pod) for pod in active)
        status = JobStatus(
            active=len(active) or None,
            ready=ready,
            terminating=terminating,
            succeeded=succeeded or None,
            failed=counted[1] or None,
            start_time=started,
            completion_time=completion,
            completed_indexes=(tally.text_of(self.done) or None) if tally.is_indexed(job) else None,
            failed_indexes=tally.text_of(self.failed) if failures.is_per_index(job) else None,
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
        """Return when to look again: after a wait for a retry, or at the deadline."""
        waits = [self.wait] if self.wait is not None else []
        deadline = self.job.spec.active_deadline_seconds
        if deadline is not None and started is not None and not self.job.spec.suspend:
            left = (started + timedelta(seconds=deadline) - self.now).total_seconds()
            waits.append(max(0.0, left) + 0.05)
        return min(waits, default=None)
