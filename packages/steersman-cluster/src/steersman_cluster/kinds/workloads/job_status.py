"""Validation of a Job's status: finished Jobs stay finished, and counts are consistent.

Most rules apply only if the values that they check have changed, so that an invalid status can be corrected. Follows
the rules for `managedBy`, under which other controllers write the status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steersman_cluster.errors import ErrorType, FieldError, duplicate, field_invalid, required
from steersman_cluster.json_access import get_list, get_object
from steersman_cluster.kinds.columns import seconds_of
from steersman_cluster.kinds.workloads.job_indexes import format_error, overlap_error
from steersman_cluster.kinds.workloads.validation import non_negative_errors
from steersman_cluster.objects import Object, Path

__all__ = ["status_errors"]

_STATUS = Path("status")
_NUMBERS = ("active", "succeeded", "failed", "ready", "terminating")


def status_errors(obj: Object, old: Object) -> list[FieldError]:
    """Of a Job's new status, given the one before."""
    new, before = _Status(obj), _Status(old)
    return [
        *non_negative_errors(new.body, _STATUS, _NUMBERS),
        *_uncounted(new),
        *_ends(new, before),
        *_finished(new, before),
        *_indexes(new, before),
        *_counts(new, before),
        *_success(new),
        *_transitions(new, before),
    ]


class _Status:
    """A Job's status, as the rules read it."""

    def __init__(self, job: Object) -> None:
        self.spec = get_object(job, "spec")
        self.body = get_object(job, "status")
        self._conditions: Mapping[str, Any] = {
            item.get("type") or "": item.get("status") for item in reversed(get_list(self.body, "conditions"))
        }
        self.complete, self.failed = self.has("Complete"), self.has("Failed")
        self.failing, self.succeeding = self.has("FailureTarget"), self.has("SuccessCriteriaMet")
        self.finished = self.complete or self.failed

    def has(self, type: str, status: str = "True") -> bool:
        return self._conditions.get(type) == status

    def number(self, field: str) -> int:
        return self.body.get(field) or 0

    def changed(self, before: _Status, *fields: str) -> bool:
        return any(self.body.get(field) != before.body.get(field) for field in fields)


def _of_conditions(text: str) -> FieldError:
    """Conditions are not shown."""
    return FieldError(ErrorType.INVALID, _STATUS / "conditions", shown=text)


def _uncounted(new: _Status) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[str] = set()
    for field in ("succeeded", "failed"):
        for index, uid in enumerate(get_object(new.body, "uncountedTerminatedPods").get(field) or ()):
            at = (_STATUS / "uncountedTerminatedPods" / field).at(index)
            if not uid:
                found.append(field_invalid(at, uid, "must not be empty"))
            elif uid in seen:
                found.append(duplicate(at, uid))
            seen.add(uid)
    return found


def _ends(new: _Status, before: _Status) -> list[FieldError]:
    """Return the errors of the conditions: Complete and Failed exclude each other; both need a time."""
    found: list[FieldError] = []
    completed, failed = new.complete != before.complete, new.failed != before.failed
    ended, started = new.body.get("completionTime"), new.body.get("startTime")
    if (completed or failed) and new.complete and new.failed:
        found.append(_of_conditions("cannot set Complete=True and Failed=true conditions"))
    if (completed or new.failing != before.failing) and new.complete and new.failing:
        found.append(_of_conditions("cannot set Complete=True and FailureTarget=true conditions"))
    at = _STATUS / "completionTime"
    if completed or new.changed(before, "completionTime"):
        if ended is not None and not new.complete:
            found.append(field_invalid(at, ended, "cannot set completionTime when there is no Complete=True condition"))
        if ended is None and new.complete:
            found.append(required(at, "completionTime is required for Complete jobs"))
    if new.changed(before, "startTime", "completionTime"):
        first, last = seconds_of(started), seconds_of(ended)
        if first is not None and last is not None and last < first:
            found.append(field_invalid(at, ended, "must be equal to or after `startTime`"))
    if (failed or new.changed(before, "failedIndexes")) and new.failed and not new.failing:
        found.append(_of_conditions("cannot set Failed=True condition without the FailureTarget=true condition"))
    if (completed or new.succeeding != before.succeeding) and new.complete and not new.succeeding:
        found.append(_of_conditions("cannot set Complete=True condition without the SuccessCriteriaMet=true condition"))
    return found


def _finished(new: _Status, before: _Status) -> list[FieldError]:
    """Return the errors of a finished Job: active or uncounted Pods, or no start time."""
    if not new.finished:
        return []
    found: list[FieldError] = []
    finished = new.finished != before.finished
    if (finished or new.changed(before, "active")) and new.number("active") > 0:
        found.append(field_invalid(_STATUS / "active", new.number("active"), "active>0 is invalid for finished job"))
    empty = new.spec.get("suspend") is True and new.spec.get("completions") == 0
    if (finished or new.changed(before, "startTime")) and not empty and new.body.get("startTime") is None:
        found.append(required(_STATUS / "startTime", "startTime is required for finished job"))
    uncounted = get_object(new.body, "uncountedTerminatedPods")
    if (finished or uncounted != get_object(before.body, "uncountedTerminatedPods")) and any(uncounted.values()):
        shown = {"Succeeded": uncounted.get("succeeded"), "Failed": uncounted.get("failed")}
        found.append(field_invalid(_STATUS / "uncountedTerminatedPods", shown, "must be empty for finished job"))
    return found


def _indexes(new: _Status, before: _Status) -> list[FieldError]:
    found: list[FieldError] = []
    done, failed = new.body.get("completedIndexes") or "", new.body.get("failedIndexes")
    completions, limit = new.spec.get("completions"), new.spec.get("backoffLimitPerIndex")
    at_done, at_failed = _STATUS / "completedIndexes", _STATUS / "failedIndexes"
    new_done, new_failed = new.changed(before, "completedIndexes"), new.changed(before, "failedIndexes")
    if new_done and completions is not None and (why := format_error(done, completions)):
        found.append(field_invalid(at_done, done, f"error parsing completedIndexes: {why}"))
    parsed = new_failed and limit is not None and completions is not None
    if parsed and (why := format_error(failed or "", completions or 0)):
        found.append(field_invalid(at_failed, failed, f"error parsing failedIndexes: {why}"))
    if new_done and done and new.spec.get("completionMode") != "Indexed":
        text = "cannot set non-empty completedIndexes when non-indexed completion mode"
        found.append(field_invalid(at_done, done, text))
    if new_failed and limit is None and failed is not None:
        text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        found.append(field_invalid(at_failed, failed, text))
    if (new_done or new_failed) and (why := overlap_error(done, failed or "", completions or 0)):
        found.append(field_invalid(at_failed, failed, why))
    return found


def _counts(new: _Status, before: _Status) -> list[FieldError]:
    found: list[FieldError] = []
    terminating, ready = new.number("terminating"), new.number("ready")
    if (new.finished != before.finished or new.changed(before, "terminating")) and terminating > 0 and new.finished:
        text = "terminating>0 is invalid for finished job"
        found.append(field_invalid(_STATUS / "terminating", terminating, text))
    if new.changed(before, "ready", "active") and ready > new.number("active"):
        found.append(field_invalid(_STATUS / "ready", ready, "cannot set more ready pods than active"))
    return found


def _success(new: _Status) -> list[FieldError]:
    found: list[FieldError] = []
    if new.succeeding and new.failed:
        found.append(_of_conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions"))
    if new.succeeding and new.failing:
        found.append(_of_conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"))
    if new.spec.get("successPolicy") is not None and not new.succeeding and new.complete:
        text = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        found.append(_of_conditions(text))
    return found


def _transitions(new: _Status, before: _Status) -> list[FieldError]:
    """Return the errors for conditions that were removed or reverted."""
    found = [
        _of_conditions(f"cannot disable the terminal {end}=True condition")
        for end in ("Failed", "Complete", "FailureTarget")
        if before.has(end) and not new.has(end)
    ]
    if new.number("failed") < before.number("failed"):
        text = "cannot decrease the failed counter"
        found.append(field_invalid(_STATUS / "failed", new.number("failed"), text))
    spec = new.spec
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    if not elastic and new.number("succeeded") < before.number("succeeded"):
        text = "cannot decrease the succeeded counter"
        found.append(field_invalid(_STATUS / "succeeded", new.number("succeeded"), text))
    ended, was = new.body.get("completionTime"), before.body.get("completionTime")
    if ended is not None and was is not None and ended != was:
        found.append(field_invalid(_STATUS / "completionTime", ended, "field is immutable"))
    resuming = before.has("Suspended") and new.has("Suspended", "False")
    started, was = new.body.get("startTime"), before.body.get("startTime")
    if was is not None and started != was and not resuming and not spec.get("suspend"):
        text = "field is immutable for unsuspended job once set"
        found.append(field_invalid(_STATUS / "startTime", started, text))
    if before.succeeding and not new.succeeding:
        found.append(_of_conditions("cannot disable the SuccessCriteriaMet=True condition"))
    if before.complete and not before.succeeding and new.succeeding:
        text = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        found.append(_of_conditions(text))
    return found
