"""The CronJob starts Jobs in time, keeps its limits, and exists in two versions."""

from datetime import UTC, datetime, timedelta

import pytest
from cronjobs.schedule import MAX_MISSED, TooManyMissedError, schedule_of
from cronjobs.v1 import CronJob

from steersman.k8s import Job
from steersman.testing import CallError, simulated

NOON = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
HOURLY = """
apiVersion: batch.tutorial.kubebuilder.io/v1
kind: CronJob
metadata: {name: hourly}
spec:
  schedule: "0 * * * *"
  successfulJobsHistoryLimit: 2
  jobTemplate:
    spec:
      template:
        metadata: {annotations: {simulate.steersman.dev/exit-after: 5s}}
        spec:
          restartPolicy: Never
          containers: [{name: main, image: work}]
"""


def test_the_newest_missed_time_is_due() -> None:
    schedule = schedule_of("*/10 * * * *", NOON - timedelta(minutes=25), NOON)
    assert (schedule.missed, schedule.next) == (NOON, NOON + timedelta(minutes=10))


def test_too_many_missed_starts_are_an_error() -> None:
    with pytest.raises(TooManyMissedError, match=f"more than {MAX_MISSED}"):
        schedule_of("* * * * *", NOON - timedelta(days=1), NOON)


@pytest.mark.slow
@simulated(seed=1)
async def test_a_job_starts_every_hour(simulation) -> None:
    await simulation.operator("cronjobs:operator")
    await simulation.apply(HOURLY)
    await simulation.passes(hours=3)
    found = await simulation.client.get(CronJob, "hourly", namespace="default")
    jobs = [job async for job in simulation.client.iterate(Job, namespace="default")]
    assert found.status.last_schedule_time.minute == 0
    assert 2 <= len(jobs) <= 3


@pytest.mark.slow
@simulated(seed=2)
async def test_a_suspended_cron_job_starts_nothing(simulation) -> None:
    await simulation.operator("cronjobs:operator")
    await simulation.apply(HOURLY.replace("  schedule:", "  suspend: true\n  schedule:"))
    await simulation.passes(hours=2)
    assert [job async for job in simulation.client.iterate(Job, namespace="default")] == []


def test_a_schedule_that_cannot_be_read_is_refused(cluster, operator) -> None:
    operator("cronjobs:operator")
    with pytest.raises(CallError, match=r"spec\.schedule"):
        cluster.apply(HOURLY.replace("0 * * * *", "at noon"))


def test_both_versions_show_one_object(cluster, operator) -> None:
    operator("cronjobs:operator")
    cluster.apply(HOURLY)
    path = f"/apis/batch.tutorial.kubebuilder.io/v2/namespaces/{cluster.namespace}/cronjobs/hourly"
    assert cluster.call("GET", path)["spec"]["schedule"] == {
        "minute": "0", "hour": "*", "dayOfMonth": "*", "month": "*", "dayOfWeek": "*",
    }  # fmt: skip
