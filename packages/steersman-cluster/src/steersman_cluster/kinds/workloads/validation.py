"""Validation of a workload's selector, template, numbers, strategy and status.

Pure functions, used by each kind in the order in which the API server looks at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from steersman_cluster.errors import FieldError, field_forbidden, field_invalid, not_supported, required
from steersman_cluster.json_access import get_list
from steersman_cluster.kinds import formats
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.pods.spec import template_errors
from steersman_cluster.objects import Object, Path

__all__ = [
    "NO_MATCH",
    "always_errors",
    "bounded_errors",
    "collision_errors",
    "count_of",
    "go_struct",
    "is_valid_selector",
    "matches",
    "non_negative_errors",
    "rolling_errors",
    "selected_template_errors",
    "selector_errors",
    "shown_labels",
]

NO_MATCH = "`selector` does not match template `labels`"


def selector_errors(selector: Object | None, path: Path, kind: str) -> list[FieldError]:
    """A selector that must be there and must select something."""
    if selector is None:
        return [required(path)]
    found = check.label_selector(path, selector)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        found.append(field_invalid(path, selector, f"empty selector is invalid for {kind}"))
    return found


def is_valid_selector(selector: Object | None) -> bool:
    """Return whether the selector can be evaluated at all."""
    return not check.label_selector(Path(""), selector)


def matches(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """Return whether a selector takes these labels; no selector takes nothing, an empty one everything."""
    if selector is None:
        return False
    wanted: Mapping[str, str] = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_meets(item, labels) for item in get_list(selector, "matchExpressions"))


def _meets(item: Object, labels: Mapping[str, str]) -> bool:
    key, operator, values = item.get("key") or "", item.get("operator"), get_list(item, "values")
    if operator == "In":
        return key in labels and labels[key] in values
    if operator == "NotIn":
        return key not in labels or labels[key] not in values
    return (key in labels) == (operator == "Exists")


def selected_template_errors(template: Object, selector: Object | None, path: Path) -> list[FieldError]:
    """The template, which must be among what the selector takes."""
    metadata: Object = template.get("metadata") or {}
    labels: dict[str, str] = metadata.get("labels") or {}
    found: list[FieldError] = []
    if selector != {} and not matches(selector, labels):
        found.append(field_invalid(path / "metadata" / "labels", shown_labels(labels), NO_MATCH))
    return found + template_errors(template, path)


def shown_labels(labels: Mapping[str, str]) -> dict[str, str] | None:
    """Labels as refusals show them: by key, `null` for none."""
    return dict(sorted(labels.items())) or None


def go_struct(value: Object | None, *fields: str) -> Object:
    """Return a value as refusals print the API server's internal types: Go's names, `null` for unset fields."""
    given = value or {}
    return {field[0].upper() + field[1:]: given.get(field) for field in fields}


def always_errors(template: Object, path: Path, kind: str) -> list[FieldError]:
    """Pods of long-running workloads are restarted and have no deadline."""
    spec: Object = template.get("spec") or {}
    found: list[FieldError] = []
    if (policy := spec.get("restartPolicy")) != "Always":
        found.append(not_supported(path / "spec" / "restartPolicy", policy, ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        found.append(field_forbidden(path / "spec" / "activeDeadlineSeconds", text))
    return found


def non_negative_errors(values: Object, path: Path, fields: Iterable[str]) -> list[FieldError]:
    """Numbers that cannot be below zero."""
    return [
        field_invalid(path / field, values[field], check.NOT_NEGATIVE)
        for field in fields
        if (values.get(field) or 0) < 0
    ]


def bounded_errors(status: Object, path: Path, fields: Sequence[str]) -> list[FieldError]:
    """No more Pods of a sort than there are Pods."""
    most = status.get("replicas") or 0
    return [
        field_invalid(path / field, status.get(field) or 0, "cannot be greater than status.replicas")
        for field in fields
        if (status.get(field) or 0) > most
    ]


def collision_errors(status: Object, before: Object, path: Path) -> list[FieldError]:
    """The count of collisions only grows."""
    new, old = status.get("collisionCount"), before.get("collisionCount")
    if old is not None and (new is None or new < old):
        return [field_invalid(path / "collisionCount", new or 0, "cannot be decremented")]
    return []


def count_of(value: int | str) -> int:
    """The number of a count or of a percentage; 0 where it is neither."""
    if isinstance(value, int):
        return value
    if not formats.percent(value):
        return int(value[:-1])
    return int(value) if value.isdecimal() else 0


def rolling_errors(rolling: Object, path: Path) -> list[FieldError]:
    """`maxUnavailable` and `maxSurge` as such."""
    found: list[FieldError] = []
    for field in ("maxUnavailable", "maxSurge"):
        found += check.int_or_percent(path / field, _value(rolling, field))
    return found


def _value(rolling: Object, field: str) -> Any:
    return rolling.get(field, 0)
