"""Validation of the selectors in access reviews. They do not narrow the decision: RBAC ignores selectors."""

from __future__ import annotations

from typing import Any

from steersman_cluster.errors import FieldError, field_forbidden, field_invalid, required
from steersman_cluster.json_access import get_objects, get_strings
from steersman_cluster.kinds.formats import label_key, label_value
from steersman_cluster.objects import Object, Path

__all__ = ["selector_errors"]


def selector_errors(selector: Any, where: str, *, labels: bool) -> list[FieldError]:
    """The errors of a `fieldSelector` or `labelSelector`; none where there is no selector."""
    if not isinstance(selector, dict):
        return []
    errors: list[FieldError] = []
    spec: Object = selector  # pyright: ignore[reportUnknownVariableType]
    raw, requirements = spec.get("rawSelector") or "", get_objects(spec, "requirements")
    path = Path(where)
    if raw and requirements:
        errors.append(field_invalid(path / "rawSelector", raw, "may not specified at the same time as requirements"))
    if not raw and not requirements:
        text = f"when {where} is specified, requirements or rawSelector is required"
        errors.append(required(path / "requirements", text))
    for index, requirement in enumerate(requirements):
        errors.extend(_requirement_errors(requirement, (path / "requirements").at(index), labels=labels))
    return errors


def _requirement_errors(requirement: Object, path: Path, *, labels: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    key, operator, values = (
        requirement.get("key") or "",
        requirement.get("operator"),
        get_strings(requirement, "values"),
    )
    if not labels and not key:
        errors.append(required(path / "key", "must be specified"))
    if operator in ("In", "NotIn") and not values:
        errors.append(required(path / "values", "must be specified when `operator` is 'In' or 'NotIn'"))
    if operator in ("Exists", "DoesNotExist") and values:
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        errors.append(field_forbidden(path / "values", text))
    if labels:
        errors.extend(field_invalid(path / "key", key, text) for text in label_key(key))
        for index, value in enumerate(values):
            errors.extend(field_invalid((path / "values").at(index), value, text) for text in label_value(value))
    return errors
