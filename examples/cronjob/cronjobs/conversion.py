"""Conversions between the versions of CronJob. v1 is stored."""

from cronjobs import operator
from cronjobs.v1 import CronJob, CronJobSpec
from cronjobs.v2 import CronJobSpecV2, CronJobV2, CronSchedule
from steersman import DeniedError

_SHARED = (
    "starting_deadline_seconds",
    "concurrency_policy",
    "suspend",
    "job_template",
    "successful_jobs_history_limit",
    "failed_jobs_history_limit",
)


@operator.converter
async def to_v2(old: CronJob) -> CronJobV2:
    parts = old.spec.schedule.split()
    if len(parts) != 5:
        raise DeniedError(f"spec.schedule: {old.spec.schedule!r} has {len(parts)} parts; v2 needs five")
    shared = {name: getattr(old.spec, name) for name in _SHARED}
    minute, hour, day_of_month, month, day_of_week = parts
    when = CronSchedule(minute=minute, hour=hour, day_of_month=day_of_month, month=month, day_of_week=day_of_week)
    spec = CronJobSpecV2(schedule=when, **shared)
    return CronJobV2(metadata=old.metadata, spec=spec, status=old.status)


@operator.converter
async def to_v1(new: CronJobV2) -> CronJob:
    when = new.spec.schedule
    schedule = f"{when.minute} {when.hour} {when.day_of_month} {when.month} {when.day_of_week}"
    shared = {name: getattr(new.spec, name) for name in _SHARED}
    return CronJob(metadata=new.metadata, spec=CronJobSpec(schedule=schedule, **shared), status=new.status)
