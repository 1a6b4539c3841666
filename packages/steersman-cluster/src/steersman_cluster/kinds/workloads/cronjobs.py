"""CronJobs: defaults and columns."""

from __future__ import annotations

from typing import Any

from steersman_cluster.errors import FieldError, field_invalid, not_supported, required
from steersman_cluster.kinds import columns
from steersman_cluster.kinds import meta as metadata
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.columns import AGE, NAME, NONE
from steersman_cluster.kinds.workloads.base import Workload
from steersman_cluster.kinds.workloads.columns import CONTAINERS, IMAGES, SELECTOR, container_cells
from steersman_cluster.kinds.workloads.cron_schedules import schedule_error, time_zone_error
from steersman_cluster.kinds.workloads.job_validation import job_spec_errors
from steersman_cluster.kinds.workloads.jobs import default_failure_policy
from steersman_cluster.kinds.workloads.validation import non_negative_errors
from steersman_cluster.objects import Object, Path, dig, meta
from steersman_cluster.strategy import Column, WriteContext

__all__ = ["CronJob"]


class CronJob(Workload):
    """batch/v1 CronJob. The Job in it gets its own defaults only when it is made."""

    template = ("spec", "jobTemplate", "spec", "template")
    columns = (
        NAME,
        Column("Schedule", description="The schedule in Cron format, see https://en.wikipedia.org/wiki/Cron."),
        Column("Timezone", description="The time zone of the schedule."),
        Column("Suspend", "boolean", description="Whether no more Jobs are made for now."),
        Column("Active", "integer", description="How many Jobs run now."),
        Column("Last Schedule", description="When a Job was made last."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    )

    def default_own(self, obj: Object, spec: Object) -> None:
        if not spec.get("concurrencyPolicy"):
            spec["concurrencyPolicy"] = "Allow"
        if spec.get("suspend") is None:
            spec["suspend"] = False
        if spec.get("successfulJobsHistoryLimit") is None:
            spec["successfulJobsHistoryLimit"] = 3
        if spec.get("failedJobsHistoryLimit") is None:
            spec["failedJobsHistoryLimit"] = 1
        default_failure_policy(spec["jobTemplate"]["spec"])

    def validate_create(self, obj: Object, ctx: WriteContext) -> list[FieldError]:
        found = _spec_errors(obj["spec"], None)
        name = meta(obj).get("name") or ""
        if len(name) > 52:
            found.append(field_invalid("metadata.name", name, "must be no more than 52 characters"))
        return found

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        if ctx.subresource == "status":
            return super().validate_update(obj, old, ctx)
        return [*metadata.repeated_update(obj, old), *_spec_errors(obj["spec"], old["spec"])]

    def row(self, obj: Object, now: float) -> list[Any]:
        spec: Object = obj.get("spec") or {}
        suspend = spec.get("suspend")
        last = dig(obj, "status", "lastScheduleTime")
        job: Object = dig(spec, "jobTemplate", "spec", default={})
        return [
            columns.name(obj),
            spec.get("schedule") or "",
            spec.get("timeZone") if spec.get("timeZone") is not None else NONE,
            columns.UNSET if suspend is None else str(suspend),
            len(dig(obj, "status", "active", default=())),
            NONE if last is None else columns.since(last, now),
            columns.age(obj, now),
            *container_cells(dig(job, "template", "spec", "containers")),
            columns.label_selector(job.get("selector")),
        ]


def _spec_errors(spec: Object, old: Object | None) -> list[FieldError]:
    path = Path("spec")
    found: list[FieldError] = []
    if schedule := spec.get("schedule"):
        found += _schedule(
            schedule, spec.get("timeZone"), path / "schedule", had_zone="TZ" in ((old or {}).get("schedule") or "")
        )
    else:
        found.append(required(path / "schedule"))
    found += non_negative_errors(spec, path, ("startingDeadlineSeconds",))
    zone = spec.get("timeZone")
    if zone is not None and zone.lower() == "local" and (old is None or old.get("timeZone") != zone):
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        found.append(field_invalid(path / "timeZone", zone, text))
    if zone is not None and (old is None or old.get("timeZone") != zone) and (text := time_zone_error(zone)):
        found.append(field_invalid(path / "timeZone", zone, text))
    found += check.enum(path / "concurrencyPolicy", spec.get("concurrencyPolicy"), ("Allow", "Forbid", "Replace"))
    job, at = spec["jobTemplate"]["spec"], path / "jobTemplate" / "spec"
    found += job_spec_errors(job, at)
    if job.get("selector") is not None:
        found.append(field_invalid(at / "selector", job["selector"], "`selector` will be auto-generated"))
    if job.get("manualSelector"):
        found.append(not_supported(at / "manualSelector", True, ("nil", "false")))
    return found + non_negative_errors(spec, path, ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"))


def _schedule(schedule: str, zone: str | None, path: Path, *, had_zone: bool) -> list[FieldError]:
    found: list[FieldError] = []
    if text := schedule_error(schedule):
        found.append(field_invalid(path, schedule, text))
    if "TZ" in schedule:
        if not had_zone:
            text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            found.append(field_invalid(path, schedule, text))
        elif zone is not None:
            text = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
            found.append(field_invalid(path, schedule, text))
    return found
