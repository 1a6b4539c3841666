"""CronJobs: a Job when its schedule is due, at most so many at once, the last few kept.

A start that was missed is made up for once, if it is not too late. A Job's name holds the minute it was due, so that
none is made twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from steersman.client import AlreadyExists, ClientError
from steersman.controller import RequeueError, Result, controller_of
from steersman.k8s import CronJob, Job
from steersman.k8s.batch_v1 import CronJobStatus
from steersman.k8s.core_v1 import ObjectReference
from steersman.models import ObjectMeta
from steersman.operator import Context, Operator
from steersman_cluster.controllers.workloads.cron import Schedule, ScheduleError, parse, zone_of
from steersman_cluster.controllers.workloads.job_status import condition_of, is_finished

__all__ = ["Due", "due", "job_name", "register", "surplus"]

_STAMP = "batch.kubernetes.io/cronjob-scheduled-timestamp"


def register(operator: Operator) -> None:
    """Declare the controller."""
    operator.controller(owns=[Job])(reconcile)


class Due(NamedTuple):
    """The start to make up for now, if any, and when to look again."""

    start: datetime | None
    missed: int
    wait: float | None


def due(cj: CronJob, schedule: Schedule, now: datetime) -> Due:
    """Return the start that is due at `now`, given the last start and the starting deadline."""
    since = cj.status.last_schedule_time or cj.metadata.creation_timestamp or now
    deadline = cj.spec.starting_deadline_seconds
    if deadline is not None:
        since = max(since, now - timedelta(seconds=deadline))
    start, missed = schedule.latest(since, now)
    following = schedule.next(now)
    return Due(start, missed, (following - now).total_seconds() + 0.1 if following else None)


def job_name(cj: CronJob, start: datetime) -> str:
    """Return the name of the Job of one start, which depends only on the CronJob and the time."""
    return f"{cj.metadata.name}-{int(start.timestamp()) // 60}"


def surplus(jobs: Sequence[Job], kept: int | None, default: int, type: str) -> list[Job]:
    """The oldest finished Jobs of a sort, beyond those that are kept."""
    finished = [job for job in jobs if condition_of(job, type) is not None]
    finished.sort(key=lambda job: (job.status.start_time or job.metadata.creation_timestamp, job.metadata.name))
    return finished[: max(0, len(finished) - (default if kept is None else kept))]


async def reconcile(cj: CronJob, ctx: Context) -> Result:
    """Record the finished Jobs, delete old ones, and start the Job that is due."""
    jobs = [job for job in ctx.list(Job, owned=True) if _controls(cj, job)]
    for job in (
        *surplus(jobs, cj.spec.successful_jobs_history_limit, 3, "Complete"),
        *surplus(jobs, cj.spec.failed_jobs_history_limit, 1, "Failed"),
    ):
        if await ctx.delete(job):
            ctx.event("SuccessfulDelete", f"Deleted job {job.metadata.name}", action="Delete")
    active = [job for job in jobs if not is_finished(job)]
    for job in jobs:
        if is_finished(job) and any(a.uid == job.metadata.uid for a in cj.status.active):
            how = "Complete" if condition_of(job, "Complete") else "Failed"
            ctx.event("SawCompletedJob", f"Saw completed job: {job.metadata.name}, condition: {how}", action="Track")
    succeeded = [job.status.completion_time for job in jobs if job.status.completion_time]
    last = max([*succeeded, *filter(None, (cj.status.last_successful_time,))], default=None)
    status = CronJobStatus(
        active=tuple(map(_reference, active)),
        last_schedule_time=cj.status.last_schedule_time,
        last_successful_time=last,
    )
    if cj.spec.suspend:
        return Result(status=status)
    try:
        schedule = parse(cj.spec.schedule, zone_of(cj.spec.time_zone))
    except ScheduleError as problem:
        message = f'unparseable schedule: "{cj.spec.schedule}" : {problem}'
        ctx.event("UnParseableCronJobSchedule", message, type="Warning", action="Parse")
        return Result(status=status)
    now = ctx.now()
    asked = due(cj, schedule, now)
    if asked.missed > 100:
        message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        ctx.event("TooManyMissedTimes", message, type="Warning", action="Schedule")
    if asked.start is None:
        return Result(status=status, requeue_after=asked.wait)
    return await _start(cj, asked, active, status, ctx)


async def _start(cj: CronJob, asked: Due, active: list[Job], status: CronJobStatus, ctx: Context) -> Result:
    assert asked.start is not None
    if active and cj.spec.concurrency_policy == "Forbid":
        message = "Not starting job because prior execution is running and concurrency policy is Forbid"
        ctx.event("JobAlreadyActive", message, action="Schedule")
        return Result(status=status, requeue_after=asked.wait)
    if cj.spec.concurrency_policy == "Replace":
        for job in active:
            await ctx.delete(job)
            ctx.event("SuccessfulDelete", f"Deleted job {job.metadata.name}", action="Delete")
        active = []
    try:
        made = await ctx.create(_job(cj, asked.start))
        active = [*active, made]
        ctx.event("SuccessfulCreate", f"Created job {made.metadata.name}", action="Create")
    except AlreadyExists:
        ctx.log.info("job_exists", start=asked.start.isoformat())
    except ClientError as problem:
        ctx.event("FailedCreate", f"Error creating job: {problem}", type="Warning", action="Create")
        raise RequeueError(f"the Job could not be made: {problem}", after=1.0) from problem
    status = CronJobStatus(
        active=tuple(map(_reference, active)),
        last_schedule_time=asked.start,
        last_successful_time=status.last_successful_time,
    )
    return Result(status=status, requeue_after=asked.wait)


def _controls(cj: CronJob, job: Any) -> bool:
    owner = controller_of(job)
    return owner is not None and owner.uid == cj.metadata.uid


def _job(cj: CronJob, start: datetime) -> Job:
    template = cj.spec.job_template
    metadata = template.metadata or ObjectMeta()
    stamp = start.astimezone(zone_of(cj.spec.time_zone)).isoformat().replace("+00:00", "Z")
    return Job(
        metadata=ObjectMeta(
            name=job_name(cj, start),
            namespace=cj.metadata.namespace,
            labels=metadata.labels,
            annotations={**metadata.annotations, _STAMP: stamp},
        ),
        spec=template.spec,
    )


def _reference(job: Job) -> ObjectReference:
    metadata = job.metadata
    return ObjectReference(
        api_version="batch/v1",
        kind="Job",
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )
