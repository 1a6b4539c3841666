"""CronJobs: defaults and columns."""

from __future__ import annotations

from typing import Any

from steersman.devcluster.kinds import columns
from steersman.devcluster.kinds.columns import AGE, NAME, NONE
from steersman.devcluster.kinds.jobs import default_failure_policy
from steersman.devcluster.kinds.workload_base import Workload
from steersman.devcluster.kinds.workload_cells import CONTAINERS, IMAGES, SELECTOR, container_cells
from steersman.devcluster.objects import Object, dig
from steersman.devcluster.strategy import Column

__all__ = ["CronJob"]


class CronJob(Workload):
    """batch/v1 CronJob. The Job in it gets its own defaults only when it is made."""

    template = ("spec", "jobTemplate", "spec", "template")
    empty_status = {}
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
