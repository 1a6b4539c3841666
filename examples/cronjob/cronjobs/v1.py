"""Version v1 of CronJob: the schedule is one text."""

from datetime import datetime
from typing import Annotated, Literal

from steersman import Column, Ge, MinLength, Model, Resource
from steersman.k8s import JobTemplateSpec, ObjectReference

ConcurrencyPolicy = Literal["Allow", "Forbid", "Replace"]


class CronJobSpec(Model):
    schedule: Annotated[str, MinLength(1)]
    """When Jobs start, in the format of cron, in UTC."""
    starting_deadline_seconds: Annotated[int, Ge(0)] | None = None
    """Seconds after the scheduled time until which a missed Job is still started."""
    concurrency_policy: ConcurrencyPolicy = "Allow"
    """The policy for a Job that is due while another one runs."""
    suspend: bool = False
    """Whether no further Jobs are started."""
    job_template: JobTemplateSpec
    """The Job that is started."""
    successful_jobs_history_limit: Annotated[int, Ge(0)] = 3
    """Number of completed Jobs that are kept."""
    failed_jobs_history_limit: Annotated[int, Ge(0)] = 1
    """Number of failed Jobs that are kept."""


class CronJobStatus(Model):
    active: tuple[ObjectReference, ...] = ()
    """The Jobs that run."""
    last_schedule_time: datetime | None = None
    """The scheduled time of the newest Job."""


class CronJob(
    Resource,
    group="batch.tutorial.kubebuilder.io",
    version="v1",
    columns=(Column("Schedule", "spec.schedule"), Column("Last", "status.last_schedule_time")),
):
    """Starts Jobs at scheduled times."""

    spec: CronJobSpec
    status: CronJobStatus = CronJobStatus()
