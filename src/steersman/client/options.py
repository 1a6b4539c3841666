"""Functions that build the query parameters and bodies of verbs from Python values.

Names and meanings follow `k8s.io/apimachinery/pkg/apis/meta/v1` (ListOptions, PatchOptions, DeleteOptions).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeAlias, cast

import msgspec

from steersman.models import LabelSelector

__all__ = [
    "FieldValidation",
    "Labels",
    "Preconditions",
    "Propagation",
    "delete_options",
    "list_query",
    "selector_text",
    "write_query",
]

FieldValidation: TypeAlias = Literal["Strict", "Warn", "Ignore"]
"""The treatment of unknown and duplicate fields by the server: refuse, warn or drop them. Its default is Warn."""

Propagation: TypeAlias = Literal["Foreground", "Background", "Orphan"]
"""The treatment of dependents by the garbage collector: deleted before the owner, after it, or kept."""


class _Selector(Protocol):
    def __str__(self) -> str: ...


Labels: TypeAlias = "str | Mapping[str, str] | LabelSelector | _Selector | None"
"""A selector: text (`app=web,tier in (a,b)`), a mapping of labels, a `LabelSelector`, or an object with `__str__`."""


class Preconditions(msgspec.Struct, frozen=True, kw_only=True):
    """Delete only the object with this `uid` and `resource_version`; the server returns `Conflict` for another one."""

    uid: str | None = None
    resource_version: str | None = None


def selector_text(selector: Labels) -> str:
    """Return the text of a selector; `""` selects everything."""
    if selector is None:
        return ""
    if isinstance(selector, str):
        return selector
    if isinstance(selector, Mapping):
        pairs = cast("Mapping[str, str]", selector)
        return ",".join(f"{name}={value}" for name, value in sorted(pairs.items()))
    if isinstance(selector, LabelSelector):
        parts = [f"{name}={value}" for name, value in sorted(selector.match_labels.items())]
        parts.extend(_rule_text(rule.key, rule.operator, rule.values) for rule in selector.match_expressions)
        return ",".join(parts)
    return str(selector)


def _rule_text(key: str, operator: str, values: tuple[str, ...]) -> str:
    match operator:
        case "In" | "NotIn":
            return f"{key} {operator.lower()} ({','.join(values)})"
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
        case _:
            raise ValueError(f"label selector: operator {operator!r} of {key!r}: use In, NotIn, Exists or DoesNotExist")


def list_query(
    *,
    labels: Labels = None,
    fields: Labels = None,
    limit: int | None = None,
    continue_: str = "",
    resource_version: str | None = None,
    resource_version_match: str | None = None,
) -> dict[str, str]:
    """Return the query of a list, a watch or a delete-collection."""
    query: dict[str, str] = {}
    if text := selector_text(labels):
        query["labelSelector"] = text
    if text := selector_text(fields):
        query["fieldSelector"] = text
    if limit:
        query["limit"] = str(limit)
    if continue_:
        query["continue"] = continue_
    if resource_version is not None and not continue_:
        query["resourceVersion"] = resource_version
    if resource_version_match is not None and not continue_:
        query["resourceVersionMatch"] = resource_version_match
    return query


@lru_cache(maxsize=256)
def write_query(
    field_manager: str | None = None,
    field_validation: FieldValidation | None = None,
    *,
    dry_run: bool = False,
    force: bool = False,
) -> tuple[tuple[str, str], ...]:
    """Return the query of a create, update or patch. A process uses few different queries, so they are cached."""
    query: list[tuple[str, str]] = []
    if dry_run:
        query.append(("dryRun", "All"))
    if field_manager:
        query.append(("fieldManager", field_manager))
    if field_validation:
        query.append(("fieldValidation", field_validation))
    if force:
        query.append(("force", "true"))
    return tuple(query)


def delete_options(
    *,
    propagation: Propagation | None = None,
    preconditions: Preconditions | None = None,
    grace_period: int | None = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Return `DeleteOptions` as JSON values; empty if the server's defaults apply."""
    body: dict[str, Any] = {}
    if propagation is not None:
        body["propagationPolicy"] = propagation
    if grace_period is not None:
        body["gracePeriodSeconds"] = grace_period
    if dry_run:
        body["dryRun"] = ["All"]
    if preconditions is not None:
        wanted = {"uid": preconditions.uid, "resourceVersion": preconditions.resource_version}
        body["preconditions"] = {name: value for name, value in wanted.items() if value}
    if body:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **body}
    return body
