"""Conditions by the API conventions: a status list with one entry per type, which keeps transition times.

All functions are pure. A reconcile returns its observations with `ready_when(…)`; the writer of the status adds times
and generations with `merge_conditions(…)`. The clock is an argument.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol, TypeVar

from steersman.models.base import replace
from steersman.models.meta import Condition, Conditions

__all__ = ["get_condition", "is_true", "merge_conditions", "ready_when", "remove_condition", "set_condition"]


class ConditionLike(Protocol):
    """The condition type of any API, for example `Condition`, `DeploymentCondition` or `PodCondition`."""

    @property
    def type(self) -> str:
        """The type of the condition."""
        ...

    @property
    def status(self) -> str:
        """The status: True, False or Unknown."""
        ...


C = TypeVar("C", bound=ConditionLike)


def get_condition(conditions: Iterable[C], type: str) -> C | None:
    """Return the condition of a type, or `None`."""
    return next((c for c in conditions if c.type == type), None)


def is_true(conditions: Iterable[ConditionLike], type: str) -> bool:
    """Return whether the condition exists and its status is "True"."""
    found = get_condition(conditions, type)
    return found is not None and found.status == "True"


def _status(value: bool | str | None) -> str:  # noqa: FBT001 - the value is the subject of the call
    if isinstance(value, bool):
        return str(value)
    if value is None:
        return "Unknown"
    if value not in ("True", "False", "Unknown"):
        raise ValueError(f"a condition's status is True, False or Unknown, not {value!r}")
    return value


def ready_when(
    ready: bool | None,  # noqa: FBT001 - the value is the subject of the call
    *,
    reason: str = "",
    message: str = "",
    type: str = "Ready",
) -> Conditions:
    """Return one condition about whether the object is ready (`None`: unknown), without a transition time.

    The default reason is the type for true, `Not<type>` for false, and `Unknown`.
    """
    default = "Unknown" if ready is None else type if ready else f"Not{type}"
    return (Condition(type=type, status=_status(ready), reason=reason or default, message=message),)


def set_condition(
    conditions: Conditions,
    type: str,
    status: bool | str | None,  # noqa: FBT001 - the value is the subject of the call
    *,
    reason: str,
    message: str = "",
    now: datetime,
    observed_generation: int | None = None,
) -> Conditions:
    """Return `conditions` with one condition set; its transition time changes only if its status changes.

    Returns `conditions` itself if nothing changes. Raises `ValueError` for an invalid status.
    """
    new = Condition(
        type=type, status=_status(status), reason=reason, message=message, observed_generation=observed_generation
    )
    return merge_conditions(conditions, (new,), now, observed_generation)


def remove_condition(conditions: Conditions, type: str) -> Conditions:
    """Return `conditions` without the condition of a type."""
    return tuple(c for c in conditions if c.type != type)


def merge_conditions(
    old: Conditions, new: Conditions, now: datetime, generation: int | None = None, *, keep_others: bool = True
) -> Conditions:
    """Merge observed conditions into those of the cluster.

    A missing transition time in `new` is that of `old` if the status is the same, else `now`. A missing observed
    generation is `generation`. Types that only `old` has stay, because other controllers may own them, unless
    `keep_others` is False. The order is that of `old`, then new types. Returns `old` itself if nothing changes.
    """
    wanted = {c.type: _dated(get_condition(old, c.type), c, now, generation) for c in new}
    merged = [wanted.pop(c.type, c) for c in old if c.type in wanted or keep_others]
    merged += wanted.values()
    result = tuple(merged)
    return old if result == old else result


def _dated(before: Condition | None, after: Condition, now: datetime, generation: int | None) -> Condition:
    when = after.last_transition_time
    if when is None:
        same = before is not None and before.status == after.status
        when = (before.last_transition_time if before and same else None) or now.replace(microsecond=0)
    observed = generation if after.observed_generation is None else after.observed_generation
    return replace(after, last_transition_time=when, observed_generation=observed)
