"""When a Job is due: pure functions of the schedule and the time."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from cronsim import CronSim

MAX_MISSED = 100
"""Missed starts after which the controller gives up counting, as Kubernetes does."""


@dataclass(frozen=True)
class Schedule:
    """The newest scheduled time that has passed without a Job, and the next one."""

    missed: datetime | None
    next: datetime


class TooManyMissedError(ValueError):
    """More than `MAX_MISSED` starts were missed: the clock is wrong, or the operator was away for long."""


def schedule_of(text: str, earliest: datetime, now: datetime) -> Schedule:
    """Return the times that are due after `earliest` and until `now`, and the next time after `now`.

    Raises:
        TooManyMissedError: Too many starts were missed to count them.
    """
    missed = None
    for count, time in enumerate(CronSim(text, earliest)):
        if time > now:
            return Schedule(missed, time)
        if count >= MAX_MISSED:
            raise TooManyMissedError(f"more than {MAX_MISSED} starts were missed since {earliest:%Y-%m-%dT%H:%M:%SZ}")
        missed = time
    return Schedule(missed, now + timedelta(days=365))
