"""Starts the Jobs of a CronJob, and deletes old ones."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from cronjobs import operator
from cronjobs.schedule import TooManyMissedError, schedule_of
from cronjobs.v1 import CronJob, CronJobStatus
from steersman import Context, ObjectMeta, Result, TerminalError, get_condition, object_reference
from steersman.k8s import Job

SCHEDULED_AT = "batch.tutorial.kubebuilder.io/scheduled-at"


def finished(job: Job) -> str:
    """Return `Complete`, `Failed` or an empty text."""
    for outcome in ("Complete", "Failed"):
        condition = get_condition(job.status.conditions, outcome)
        if condition is not None and condition.status == "True":
            return outcome
    return ""


def scheduled_at(job: Job) -> datetime:
    return datetime.fromisoformat(job.metadata.annotations[SCHEDULED_AT])


def job_for(cronjob: CronJob, time: datetime) -> Job:
    """Return the Job of a scheduled time. Its name follows from the time, so that it is created once."""
    template = cronjob.spec.job_template
    annotations = {**template.metadata.annotations, SCHEDULED_AT: time.isoformat()}
    name = f"{cronjob.metadata.name}-{int(time.timestamp())}"
    return Job(
        metadata=ObjectMeta(name=name, labels=template.metadata.labels, annotations=annotations), spec=template.spec
    )


async def delete_old(jobs: Sequence[Job], limit: int, ctx: Context) -> None:
    """Delete the oldest Jobs until `limit` are left."""
    for job in sorted(jobs, key=scheduled_at)[: max(0, len(jobs) - limit)]:
        await ctx.delete(job)


@operator.controller(owns=[Job])
async def reconcile(cronjob: CronJob, ctx: Context) -> Result:
    jobs = [job for job in ctx.list(Job, owned=True) if SCHEDULED_AT in job.metadata.annotations]
    active = [job for job in jobs if not finished(job)]
    await delete_old([j for j in jobs if finished(j) == "Complete"], cronjob.spec.successful_jobs_history_limit, ctx)
    await delete_old([j for j in jobs if finished(j) == "Failed"], cronjob.spec.failed_jobs_history_limit, ctx)

    last = max(map(scheduled_at, jobs), default=cronjob.status.last_schedule_time)
    wait = None
    if not cronjob.spec.suspend:
        last, started, wait = await start(cronjob, ctx, active, last)
        active = active if started is None else [*active, started]
    references = tuple(object_reference(job) for job in sorted(active, key=scheduled_at))
    return Result(requeue_after=wait, status=CronJobStatus(active=references, last_schedule_time=last))


async def start(
    cronjob: CronJob, ctx: Context, active: Sequence[Job], last: datetime | None
) -> tuple[datetime | None, Job | None, float]:
    """Start the Job that is due, if there is one; returns the newest scheduled time, the Job, and seconds to wait."""
    spec, now = cronjob.spec, ctx.now()
    earliest = last or cronjob.metadata.creation_timestamp or now
    if spec.starting_deadline_seconds is not None:
        earliest = max(earliest, now - timedelta(seconds=spec.starting_deadline_seconds))
    try:
        schedule = schedule_of(spec.schedule, earliest, now)
    except TooManyMissedError as problem:
        raise TerminalError(str(problem), reason="TooManyMissed") from problem
    wait = (schedule.next - now).total_seconds()
    if schedule.missed is None or (spec.concurrency_policy == "Forbid" and active):
        return last, None, wait
    if spec.concurrency_policy == "Replace":
        for job in active:
            await ctx.delete(job)
    job = await ctx.apply(job_for(cronjob, schedule.missed))
    ctx.event("Started", f"Job {job.metadata.name} has been started")
    return schedule.missed, job, wait
