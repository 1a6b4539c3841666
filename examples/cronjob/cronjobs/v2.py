"""Version v2 of CronJob: the schedule has a field for each part."""

from typing import Annotated

from cronjobs.v1 import ConcurrencyPolicy, CronJobStatus
from steersman import Ge, Model, Resource
from steersman.k8s import JobTemplateSpec


class CronSchedule(Model):
    minute: str = "*"
    hour: str = "*"
    day_of_month: str = "*"
    month: str = "*"
    day_of_week: str = "*"


class CronJobSpecV2(Model):
    schedule: CronSchedule = CronSchedule()
    """When Jobs start, in UTC."""
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


class CronJobV2(Resource, group="batch.tutorial.kubebuilder.io", version="v2", kind="CronJob", storage=False):
    """Starts Jobs at scheduled times."""

    spec: CronJobSpecV2
    status: CronJobStatus = CronJobStatus()
