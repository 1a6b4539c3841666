"""Validation of the spec of a Job, and of the Job template of a CronJob."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from steersman_cluster.errors import (
    ErrorType,
    FieldError,
    duplicate,
    field_invalid,
    not_supported,
    required,
    too_many,
)
from steersman_cluster.json_access import get_list, get_object
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.pods.spec import template_errors
from steersman_cluster.kinds.workloads.job_indexes import format_error, total
from steersman_cluster.kinds.workloads.validation import non_negative_errors, shown_labels
from steersman_cluster.objects import Object, Path, dig

__all__ = ["generated_selector_errors", "job_spec_errors"]

_NUMBERS = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_STATUSES = ("False", "True", "Unknown")
_MAX_INDEXED_PARALLELISM = 100_000
_MAX_LIMITED_PARALLELISM = 10_000
_MAX_INDEXES_LENGTH = 64 * 1024


def generated_selector_errors(job: Object) -> list[FieldError]:
    """Return the errors of labels and selector that differ from the generated ones."""
    metadata: Object = job.get("metadata") or {}
    spec: Object = job.get("spec") or {}
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    name, uid = metadata.get("name") or "", metadata.get("uid") or ""
    expected = {
        "controller-uid": uid,
        "job-name": name,
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
    }
    labels: Mapping[str, str] = dig(spec, "template", "metadata", "labels", default={})
    found: list[FieldError] = []
    for key, value in expected.items():
        at = Path("spec.template.metadata.labels").key(key)
        if key not in labels:
            found.append(required(at, f"must be '{value}'"))
        elif labels[key] != value:
            found.append(field_invalid(at, shown_labels(labels), f"must be '{value}'"))
    match: Mapping[str, str] = spec["selector"].get("matchLabels") or {}
    if any(expected.get(key) != value for key, value in match.items()) or spec["selector"].get("matchExpressions"):
        found.append(field_invalid("spec.selector", spec["selector"], "`selector` not auto-generated"))
    return found


def job_spec_errors(spec: Object, path: Path) -> list[FieldError]:
    """A Job's spec but for its selector."""
    found = non_negative_errors(spec, path, _NUMBERS)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        found.append(required(path / "backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if (manager := spec.get("managedBy")) is not None:
        found += _manager(manager, path / "managedBy")
    found += _mode(spec, path)
    if (policy := spec.get("podFailurePolicy")) is not None:
        found += _failure_policy(spec, policy, path / "podFailurePolicy")
    if (success := spec.get("successPolicy")) is not None:
        found += _success(spec, success, path / "successPolicy")
    if (replacement := spec.get("podReplacementPolicy")) is not None:
        allowed = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
        found += check.enum(path / "podReplacementPolicy", replacement, allowed)
    template: Object = spec.get("template") or {}
    found += template_errors(template, path / "template")
    at = path / "template" / "spec" / "restartPolicy"
    restart = get_object(template, "spec").get("restartPolicy") or ""
    if restart in ("Always", ""):
        found.append(required(at, 'valid values: "OnFailure", "Never"'))
    elif restart not in ("OnFailure", "Never"):
        found.append(not_supported(at, restart, ("OnFailure", "Never")))
    elif spec.get("podFailurePolicy") is not None and restart != "Never":
        text = 'only "Never" is supported when podFailurePolicy is specified'
        found.append(field_invalid(at, restart, text))
    return found


def _manager(manager: str, path: Path) -> list[FieldError]:
    if not manager:
        return [required(path)]
    domain, slash, rest = manager.partition("/")
    if not slash or not domain or not rest:
        text = 'must be a domain-prefixed path (such as "acme.io/foo")'
        return [field_invalid(path, manager, text)]
    found = [field_invalid(path, domain, error.detail) for error in check.dns_subdomain(path, domain)]
    if len(manager) > 63:
        found.append(check.too_long(path, 63))
    return found


def _mode(spec: Object, path: Path) -> list[FieldError]:  # noqa: C901
    mode, completions, most = spec.get("completionMode"), spec.get("completions"), spec.get("maxFailedIndexes")
    per_index, parallelism = spec.get("backoffLimitPerIndex"), spec.get("parallelism") or 0
    found: list[FieldError] = []
    if mode is not None:
        found += check.enum(path / "completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed":
        if completions is None:
            found.append(required(path / "completions", "when completion mode is Indexed"))
        if parallelism > _MAX_INDEXED_PARALLELISM:
            text = f"must be less than or equal to {_MAX_INDEXED_PARALLELISM} when completion mode is Indexed"
            found.append(field_invalid(path / "parallelism", parallelism, text))
        if completions is not None and most is not None and most > completions:
            found.append(field_invalid(path / "maxFailedIndexes", most, "must be less than or equal to completions"))
        if most is not None and most > _MAX_INDEXED_PARALLELISM:
            found.append(
                field_invalid(
                    path / "maxFailedIndexes", most, f"must be less than or equal to {_MAX_INDEXED_PARALLELISM}"
                )
            )
        if completions is not None and completions > _MAX_INDEXED_PARALLELISM and per_index is not None:
            found += _scale_errors(parallelism, most, path)
    elif mode in (None, "NonIndexed"):
        for field, value in (("backoffLimitPerIndex", per_index), ("maxFailedIndexes", most)):
            if value is not None:
                found.append(field_invalid(path / field, value, "requires indexed completion mode"))
    return found


def _scale_errors(parallelism: int, most: int | None, path: Path) -> list[FieldError]:
    text = (
        f"must be less than or equal to {_MAX_LIMITED_PARALLELISM} "
        f"when completions are above {_MAX_INDEXED_PARALLELISM} and used with backoff limit per index"
    )
    found: list[FieldError] = []
    if most is None:
        found.append(
            required(
                path / "maxFailedIndexes", f"must be specified when completions is above {_MAX_INDEXED_PARALLELISM}"
            )
        )
    if parallelism > _MAX_LIMITED_PARALLELISM:
        found.append(field_invalid(path / "parallelism", parallelism, text))
    if most is not None and most > _MAX_LIMITED_PARALLELISM:
        found.append(field_invalid(path / "maxFailedIndexes", most, text))
    return found


def _quoted(values: Sequence[str]) -> str:
    return f"valid values: [{' '.join(json.dumps(value) for value in values)}]"


def _failure_policy(spec: Object, policy: Object, path: Path) -> list[FieldError]:
    rules: Sequence[Object] = get_list(policy, "rules")
    found = [too_many(path / "rules", len(rules), 20)] if len(rules) > 20 else []
    pod: Object = get_object(spec, "template").get("spec") or {}
    names = {item.get("name") for field in ("containers", "initContainers") for item in pod.get(field) or ()}
    for index, rule in enumerate(rules):
        at, action = (path / "rules").at(index), rule.get("action") or ""
        if not action:
            found.append(required(at / "action", _quoted(_ACTIONS)))
        elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            found.append(field_invalid(at / "action", action, "requires the backoffLimitPerIndex to be set"))
        else:
            found += check.enum(at / "action", action, _ACTIONS)
        codes, conditions = rule.get("onExitCodes"), get_list(rule, "onPodConditions")
        if codes is not None:
            found += _exit_codes(codes, at / "onExitCodes", names)
        found += _conditions(conditions, at / "onPodConditions")
        if codes is not None and conditions:
            found.append(_without_value(at, "specifying both OnExitCodes and OnPodConditions is not supported"))
        if codes is None and not conditions:
            found.append(_without_value(at, "specifying one of OnExitCodes and OnPodConditions is required"))
    return found


def _without_value(path: Path, text: str) -> FieldError:
    """An invalid value that the API server does not show."""
    return FieldError(ErrorType.INVALID, path, shown=text)


def _conditions(patterns: Sequence[Object], path: Path) -> list[FieldError]:
    found = [too_many(path, len(patterns), 20)] if len(patterns) > 20 else []
    for index, pattern in enumerate(patterns):
        at = path.at(index)
        found += check.qualified_name(at / "type", pattern.get("type") or "")
        found += check.enum(at / "status", pattern.get("status") or "", _STATUSES)
    return found


def _exit_codes(codes: Object, path: Path, names: Collection[Any]) -> list[FieldError]:
    operator: str = codes.get("operator") or ""
    values: list[int] = codes.get("values") or []
    found: list[FieldError] = []
    if not operator:
        found.append(required(path / "operator", _quoted(("In", "NotIn"))))
    else:
        found += check.enum(path / "operator", operator, ("In", "NotIn"))
    if (name := codes.get("containerName")) is not None and name not in names:
        text = "must be one of the container or initContainer names in the pod template"
        found.append(field_invalid(path / "containerName", name, text))
    if not values:
        found.append(field_invalid(path / "values", values, "at least one value is required"))
    elif len(values) > 255:
        found.append(too_many(path / "values", len(values), 255))
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            found.append(field_invalid((path / "values").at(index), value, "must not be 0 for the In operator"))
        if value in seen:
            found.append(duplicate((path / "values").at(index), value))
        seen.add(value)
    if values != sorted(values):
        found.append(field_invalid(path / "values", values, "must be ordered"))
    return found


def _success(spec: Object, policy: Object, path: Path) -> list[FieldError]:
    if spec.get("completionMode") != "Indexed":
        return [field_invalid(path, {"Rules": policy.get("rules") or []}, "requires indexed completion mode")]
    rules: Sequence[Object] = get_list(policy, "rules")
    found: list[FieldError] = []
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        found.append(required(path / "rules", text))
    if len(rules) > 20:
        found.append(too_many(path / "rules", len(rules), 20))
    completions = spec.get("completions") or 0
    for index, rule in enumerate(rules):
        found += _success_rule(rule, (path / "rules").at(index), completions)
    return found


def _success_rule(rule: Object, path: Path, completions: int) -> list[FieldError]:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    found: list[FieldError] = []
    if count is None and indexes is None:
        found.append(required(path, "at least one of succeededCount or succeededIndexes must be specified"))
    known = 0
    if indexes is not None:
        at = path / "succeededIndexes"
        if len(indexes) > _MAX_INDEXES_LENGTH:
            found.append(check.too_long(at, _MAX_INDEXES_LENGTH))
        if why := format_error(indexes, completions):
            found.append(field_invalid(at, indexes, f"error parsing succeededIndexes: {why}"))
        else:
            known = total(indexes, completions)
    if count is not None:
        at = path / "succeededCount"
        found += check.non_negative(at, count)
        limits = [(completions, "the number of specified completions")]
        if indexes is not None:
            limits.append((known, "the number of indexes in the specified succeededIndexes field"))
        for most, what in limits:
            if count > most:
                found.append(field_invalid(at, count, f"must be less than or equal to {most} ({what})"))
    return found
