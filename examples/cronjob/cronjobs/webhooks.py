"""Validation that a schema cannot express: the schedule, and the length of the name."""

from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

from cronjobs import operator
from cronjobs.v1 import CronJob
from steersman import FieldError, Invalid

MAX_NAME_CHARACTERS = 52
"""A Job's name has 63 characters at most, and 11 of them are the time."""


@operator.validator
async def check(cronjob: CronJob) -> None:
    errors: list[FieldError] = []
    if len(cronjob.metadata.name) > MAX_NAME_CHARACTERS:
        why = f"must be no more than {MAX_NAME_CHARACTERS} characters"
        errors.append(FieldError.invalid("metadata.name", cronjob.metadata.name, why))
    try:
        CronSim(cronjob.spec.schedule, datetime.now(UTC))
    except CronSimError as problem:
        errors.append(FieldError.invalid("spec.schedule", cronjob.spec.schedule, str(problem)))
    if errors:
        raise Invalid(*errors)
