"""PodDisruptionBudget, LimitRange and ResourceQuota."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from steersman_cluster.errors import ErrorType, FieldError, field_forbidden, field_invalid, required
from steersman_cluster.json_access import get_list, get_object, get_string
from steersman_cluster.kinds import columns
from steersman_cluster.kinds import meta as metadata
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.plain import CREATED_AT, Plain
from steersman_cluster.objects import Object, Path, dig
from steersman_cluster.strategy import Column, WriteContext

__all__ = ["STRATEGIES", "LimitRange", "PodDisruptionBudget", "ResourceQuota"]

_SPEC = Path("spec")
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


class PodDisruptionBudget(Plain):
    """Its own validation never looked at the metadata, so that any path segment will do for a name."""

    generation = True
    has_status = True
    unconditional_update = False
    name_rule = "path"
    qualified_finalizers = False
    columns = (
        columns.NAME,
        Column("Min Available", description="How many must stay."),
        Column("Max Unavailable", description="How many may go."),
        Column("Allowed Disruptions", "integer", description="How many may go now."),
        columns.AGE,
    )

    def row(self, obj: Object, now: float) -> list[Any]:
        spec = get_object(obj, "spec")
        least, most = (spec.get(field) for field in ("minAvailable", "maxUnavailable"))
        return [
            columns.name(obj),
            "N/A" if least is None else str(least),
            "N/A" if most is None else str(most),
            dig(obj, "status", "disruptionsAllowed", default=0),
            columns.age(obj, now),
        ]

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        super().prepare_create(obj, ctx)
        obj.setdefault("spec", {})
        obj["status"] = dict.fromkeys(_COUNTS, 0)

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        return self._status(get_object(obj, "status")) if ctx.subresource else self.errors(obj)

    def errors(self, obj: Object) -> list[FieldError]:
        spec = get_object(obj, "spec")
        found: list[FieldError] = []
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            shown = {field[0].upper() + field[1:]: spec.get(field) for field in _SHOWN}
            found.append(field_invalid(_SPEC, shown, "minAvailable and maxUnavailable cannot be both set"))
        for field in ("minAvailable", "maxUnavailable"):
            if (value := spec.get(field)) is not None:
                found += check.int_or_percent(_SPEC / field, value)
                found += check.percent_at_most_100(_SPEC / field, value)
        found += check.label_selector(_SPEC / "selector", spec.get("selector"))
        if (eviction := spec.get("unhealthyPodEvictionPolicy")) is not None:
            known = ("AlwaysAllow", "IfHealthyBudget")
            found += check.enum(_SPEC / "unhealthyPodEvictionPolicy", eviction, known)
        return found

    def _status(self, status: Object) -> list[FieldError]:
        path = Path("status")
        found = check.conditions(path / "conditions", get_list(status, "conditions"))
        for field in _COUNTS:
            found += check.non_negative(path / field, status.get(field) or 0)
        return found


_SHOWN = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")


class LimitRange(Plain):
    """The rules of LimitRange objects."""

    create_on_update = True
    columns = (columns.NAME, CREATED_AT)

    def default(self, obj: Object) -> None:
        for item in get_list(get_object(obj, "spec"), "limits"):
            if item.get("type") != "Container":
                continue
            default = {**get_object(item, "max"), **get_object(item, "default")}
            request = {**get_object(item, "min"), **default, **get_object(item, "defaultRequest")}
            for field, values in (("default", default), ("defaultRequest", request)):
                if values:
                    item[field] = values

    def errors(self, obj: Object) -> list[FieldError]:
        found: list[FieldError] = []
        seen: set[str] = set()
        for index, item in enumerate(get_list(get_object(obj, "spec"), "limits")):
            path, kind = (_SPEC / "limits").at(index), get_string(item, "type")
            found += check.qualified_name(path / "type", kind)
            if kind in seen:
                found.append(FieldError(ErrorType.DUPLICATE, path / "type", kind))
            seen.add(kind)
            found += _limits(path, item, kind)
        return found


def _limits(path: Path, item: Object, kind: str) -> list[FieldError]:
    found: list[FieldError] = []
    if kind == "Pod":
        text = "may not be specified when `type` is 'Pod'"
        found += [field_forbidden(path / f, text) for f in ("default", "defaultRequest") if item.get(f)]
    if kind == "PersistentVolumeClaim" and "storage" not in {*get_object(item, "min"), *get_object(item, "max")}:
        text = "either minimum or maximum storage value is required, but neither was provided"
        found.append(required(path / "limits", text))
    amounts = {field: get_object(item, field) for field in ("min", "max", "defaultRequest", "default")}
    for name in sorted({name for values in amounts.values() for name in values}):
        found += _ordered(path, name, {field: values.get(name) for field, values in amounts.items()})
    return found


def _ordered(path: Path, name: str, values: Mapping[str, Any]) -> list[FieldError]:
    """Minimum, default request, default and maximum of a resource, in this order."""
    found: list[FieldError] = []
    pairs = (
        ("min", "max", "min", "min value {0} is greater than max value {1}"),
        ("defaultRequest", "min", "defaultRequest", "min value {1} is greater than default request value {0}"),
        ("defaultRequest", "max", "defaultRequest", "default request value {0} is greater than max value {1}"),
        (
            "defaultRequest", "default", "defaultRequest",
            "default request value {0} is greater than default limit value {1}",
        ),
        ("min", "default", "default", "min value {0} is greater than default value {1}"),
        ("default", "max", "default", "default value {0} is greater than max value {1}"),
    )  # fmt: skip
    for low, high, shown, text in pairs:
        one, other = check.amount(values.get(low)), check.amount(values.get(high))
        if one is None or other is None:
            continue
        wrong = one < other if high == "min" else one > other
        if wrong:
            at = (path / shown).key(name)
            found.append(field_invalid(at, str(one), text.format(one, other)))
    return found


class ResourceQuota(Plain):
    """The rules of ResourceQuota objects."""

    has_status = True
    columns = (
        columns.NAME,
        Column("Request", description="Used and allowed requests."),
        Column("Limit", description="Used and allowed limits."),
        columns.AGE,
    )

    def row(self, obj: Object, now: float) -> list[Any]:
        hard, used = (get_object(get_object(obj, "status"), field) for field in ("hard", "used"))
        shown = [(name, f"{name}: {used.get(name, '0')}/{hard[name]}") for name in sorted(hard)]
        requests = ", ".join(text for name, text in shown if not name.startswith("limits."))
        limits = ", ".join(text for name, text in shown if name.startswith("limits."))
        return [columns.name(obj), requests, limits, columns.age(obj, now)]

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        obj["status"] = {}

    def errors(self, obj: Object) -> list[FieldError]:
        found: list[FieldError] = []
        for name, value in get_object(get_object(obj, "spec"), "hard").items():
            path = (_SPEC / "hard").key(name)
            found += _resource_name(path, name)
            found += check.quantity(path, value)
            amount = check.amount(value)
            if name in _WHOLE and amount is not None and amount.milli() % 1000:
                found.append(field_invalid(path, str(amount), "must be an integer"))
        return found + _scopes(get_object(obj, "spec")) + _scope_selector(get_object(obj, "spec"))

    def changes(self, obj: Object, old: Object) -> list[FieldError]:
        new, was = (set(get_list(get_object(value, "spec"), "scopes")) for value in (obj, old))
        if new == was:
            return []
        return [field_invalid(_SPEC / "scopes", sorted(new) or None, check.IMMUTABLE)]

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        again = metadata.repeated_update(obj, old)
        return again if ctx.subresource else again + self.errors(obj) + self.changes(obj, old)


_COMPUTE = frozenset({
    "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory", "pods",
})  # fmt: skip
_WHOLE = frozenset({
    "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
    "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
})  # fmt: skip
_EPHEMERAL = {f"{prefix}ephemeral-storage" for prefix in ("", "requests.", "limits.")}
_QUOTA = _COMPUTE | _WHOLE | _EPHEMERAL | {"requests.storage"}
_SCOPES: Mapping[str, frozenset[str]] = {
    "BestEffort": frozenset({"pods"}),
    "NotBestEffort": _COMPUTE,
    "Terminating": _COMPUTE,
    "NotTerminating": _COMPUTE,
    "PriorityClass": _COMPUTE,
    "CrossNamespacePodAffinity": _COMPUTE,
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}


_EXCLUSIVE_SCOPES = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_EXISTENCE_ONLY = frozenset(
    {"BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"}
)
_EXISTENCE_ONLY_TEXT = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def _scopes(spec: Object) -> list[FieldError]:
    path, scopes = _SPEC / "scopes", get_list(spec, "scopes")
    found: list[FieldError] = []
    for scope in scopes:
        allowed = _SCOPES.get(scope)
        if allowed is None:
            found.append(field_invalid(path, scopes, "unsupported scope"))
        wrong = [
            name for name in get_object(spec, "hard") if name in _QUOTA and allowed is not None and name not in allowed
        ]
        found += [field_invalid(path, scopes, "unsupported scope applied to resource") for _ in wrong]
    for pair in _EXCLUSIVE_SCOPES:
        if set(pair) <= set(scopes):
            found.append(field_invalid(path, scopes, "conflicting scopes"))
    return found


def _scope_selector(spec: Object) -> list[FieldError]:
    selector = spec.get("scopeSelector")
    if selector is None:
        return []
    found: list[FieldError] = []
    path, rules = _SPEC / "scopeSelector" / "matchExpressions", get_list(selector, "matchExpressions")
    for rule in rules:
        scope = get_string(rule, "scopeName")
        allowed = _SCOPES.get(scope)
        if allowed is None:
            found.append(field_invalid(path / "scopeName", scope, "unsupported scope"))
        wrong = [
            name for name in get_object(spec, "hard") if name in _QUOTA and allowed is not None and name not in allowed
        ]
        shown = {"MatchExpressions": [_as_in_go(each) for each in rules]}
        found += [field_invalid(path, shown, "unsupported scope applied to resource") for _ in wrong]
        found += _scope_operator(path, scope, get_string(rule, "operator"), get_list(rule, "values"))
    for pair in _EXCLUSIVE_SCOPES:
        if set(pair) <= {get_string(rule, "scopeName") for rule in rules}:
            found.append(field_invalid(path, spec.get("scopes"), "conflicting scopes"))
    return found


def _as_in_go(rule: Object) -> Object:
    """A rule as the API server's errors quote it: with the names of Go's fields."""
    return {"ScopeName": rule.get("scopeName"), "Operator": rule.get("operator"), "Values": rule.get("values")}


def _scope_operator(path: Path, scope: str, operator: str, values: Sequence[str]) -> list[FieldError]:
    found: list[FieldError] = []
    if scope in _EXISTENCE_ONLY and operator != "Exists":
        found.append(field_invalid(path / "operator", operator, _EXISTENCE_ONLY_TEXT))
    if operator in ("In", "NotIn"):
        if not values:
            text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            found.append(required(path / "values", text))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            found.append(field_invalid(path / "values", values, text))
    else:
        found.append(field_invalid(path / "operator", operator, "not a valid selector operator"))
    return found


def _resource_name(path: Path, name: str) -> list[FieldError]:
    if (
        (found := check.qualified_name(path, name))
        or "/" in name
        or name.startswith(("hugepages-", "requests.hugepages-"))
    ):
        return found
    if name not in _QUOTA and name != "storage":
        found.append(field_invalid(path, name, "must be a standard resource type or fully qualified"))
    if name not in _QUOTA:
        found.append(field_invalid(path, name, "must be a standard resource for quota"))
    return found


STRATEGIES = {
    ("policy", "v1", "PodDisruptionBudget"): PodDisruptionBudget(),
    ("", "v1", "LimitRange"): LimitRange(),
    ("", "v1", "ResourceQuota"): ResourceQuota(),
}
