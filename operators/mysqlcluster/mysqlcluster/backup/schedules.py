"""Times of scheduled backups. Pure functions."""

from __future__ import annotations

from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

__all__ = ["ScheduleError", "due", "name_at"]


class ScheduleError(ValueError):
    """A schedule is not in the cron format of Kubernetes CronJobs."""


def due(field: str, schedule: str, since: datetime, now: datetime) -> datetime | None:
    """Return the latest time of a schedule that is after `since` and not after `now`; `None` if there is none.

    Args:
        field: The path of the schedule, for the message.
        schedule: Five fields, in UTC.
        since: The time of the last backup, or of the object's creation.
        now: The time.

    Raises:
        ScheduleError: The schedule cannot be read.
    """
    try:
        upcoming = CronSim(schedule, since.astimezone(UTC))
        first = next(upcoming)
        if first > now:
            return None
        last = next(CronSim(schedule, now.astimezone(UTC), reverse=True))
    except (CronSimError, StopIteration):
        raise ScheduleError(f"{field}: {schedule!r} is not a schedule in the format of CronJobs") from None
    return max(first, last)


def name_at(owner: str, time: datetime) -> str:
    """Return the name of the backup for a time, such as `my-backup-2017-12-14-01-22`."""
    return f"{owner}-{time.astimezone(UTC):%Y-%m-%d-%H-%M}"
