"""HorizontalPodAutoscaler in both versions; autoscaling/v2 is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steersman_cluster.errors import FieldError, field_forbidden, field_invalid, not_supported, required
from steersman_cluster.json_access import get_list, get_object, get_string
from steersman_cluster.kinds import autoscaling_conversion as conversion
from steersman_cluster.kinds import columns, formats
from steersman_cluster.kinds import meta as metadata
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.plain import Plain
from steersman_cluster.objects import Object, Path, dig
from steersman_cluster.strategy import Column, WriteContext

__all__ = ["STRATEGIES", "Autoscaler", "AutoscalerV1"]

_SPEC = Path("spec")
_SOURCES = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DOWN = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}


class Autoscaler(Plain):
    """HorizontalPodAutoscaler, stored as autoscaling/v2; older versions convert to it."""

    has_status = True
    columns = (
        columns.NAME,
        Column("Reference", description="The scaled object."),
        Column("Targets", description="The metrics and their targets."),
        Column("MinPods", description="At least so many."),
        Column("MaxPods", description="At most so many."),
        Column("Replicas", description="How many there are."),
        columns.AGE,
    )

    def row(self, obj: Object, now: float) -> list[Any]:
        spec, status = get_object(obj, "spec"), get_object(obj, "status")
        target = get_object(spec, "scaleTargetRef")
        least = spec.get("minReplicas")
        return [
            columns.name(obj),
            f"{get_string(target, 'kind')}/{get_string(target, 'name')}",
            _shown_metrics(get_list(spec, "metrics"), get_list(status, "currentMetrics")),
            columns.UNSET if least is None else str(least),
            spec.get("maxReplicas") or 0,
            status.get("currentReplicas") or 0,
            columns.age(obj, now),
        ]

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("minReplicas") is None:
            spec["minReplicas"] = 1
        if not spec.get("metrics"):
            spec["metrics"] = [conversion.cpu_metric(80)]
        if (behavior := spec.get("behavior")) is not None:
            behavior["scaleUp"] = _rules(behavior.get("scaleUp"), _UP)
            behavior["scaleDown"] = _rules(behavior.get("scaleDown"), _DOWN)

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        obj["status"] = {"desiredReplicas": 0, "currentMetrics": None}

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        again = metadata.repeated_update(obj, old)
        if not ctx.subresource:
            return again + self.errors(obj)
        path, status = Path("status"), get_object(obj, "status")
        for field in ("currentReplicas", "desiredReplicas"):
            again += check.non_negative(path / field, status.get(field) or 0)
        return again

    def errors(self, obj: Object) -> list[FieldError]:
        spec = get_object(obj, "spec")
        least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
        found: list[FieldError] = []
        if least is not None and least < 1:
            found.append(field_invalid(_SPEC / "minReplicas", least, "must be greater than or equal to 1"))
        at = _SPEC / "maxReplicas"
        if most == 0:
            found.append(required(at, "must be set and greater than 0"))
        elif most < 0:
            found.append(field_invalid(at, most, "must be greater than or equal to 1"))
        if least is not None and most < least:
            found.append(field_invalid(at, most, "must be greater than or equal to `minReplicas`"))
        found += _reference(_SPEC / "scaleTargetRef", get_object(spec, "scaleTargetRef"), grouped=True)
        found += _metrics(get_list(spec, "metrics"), least)
        if (behavior := spec.get("behavior")) is not None:
            for field in ("scaleUp", "scaleDown"):
                if behavior.get(field) is not None:
                    found += _scaling(_SPEC / "behavior" / field, behavior[field])
        return found


def _rules(given: Object | None, default: Object) -> Object:
    made: Object = {**default, "policies": [dict(policy) for policy in default["policies"]]}
    given = given or {}
    fields = ("stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")
    return made | {field: given[field] for field in fields if given.get(field) is not None}


def _reference(path: Path, reference: Object, *, grouped: bool = False) -> list[FieldError]:
    found: list[FieldError] = []
    for field in ("kind", "name"):
        value = get_string(reference, field)
        found += check.check(formats.path_segment, path / field, value) if value else [required(path / field)]
    version = get_string(reference, "apiVersion")
    if version.count("/") > 1:
        found.append(field_invalid(path / "apiVersion", version, f"unexpected GroupVersion string: {version}"))
    elif grouped and "/" not in version:
        found.append(field_invalid(path / "apiVersion", version, "apiVersion must specify API group"))
    return found


def _metrics(metrics: Sequence[Object], least: int | None) -> list[FieldError]:
    path = _SPEC / "metrics"
    found: list[FieldError] = []
    for index, metric in enumerate(metrics):
        found += _metric(path.at(index), metric)
    if least == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        found.append(field_forbidden(path, text))
    return found


def _metric(path: Path, metric: Object) -> list[FieldError]:
    kind = get_string(metric, "type")
    found: list[FieldError] = []
    if not kind:
        found.append(required(path / "type", "must specify a metric source type"))
    given = [field for field in _SOURCES.values() if metric.get(field) is not None]
    wanted = _SOURCES.get(kind)
    if wanted is None:
        # Twice in the API server: once for the type, once for what should be there.
        found.append(not_supported(path / "type", kind, sorted(_SOURCES)))
    if given:
        found += _source(path / given[0], given[0], metric[given[0]])
    if wanted is None:
        found.append(not_supported(path / "type", kind, sorted(_SOURCES)))
    elif wanted not in given:
        found.append(required(path / wanted, "must populate information for the given metric source"))
    if len(given) != 1:
        text = "must populate the given metric source only"
        found += [field_forbidden(path / field, text) for field in given if field != wanted]
    return found


def _source(path: Path, kind: str, source: Object) -> list[FieldError]:
    target, at = get_object(source, "target"), path / "target"
    value, average, utilization = (target.get(f) for f in ("value", "averageValue", "averageUtilization"))
    found: list[FieldError] = []
    if kind == "object":
        found += _reference(path / "describedObject", get_object(source, "describedObject"))
    if kind in ("resource", "containerResource"):
        found += [] if source.get("name") else [required(path / "name", "must specify a resource name")]
    else:
        name, field = get_string(get_object(source, "metric"), "name"), path / "metric" / "name"
        missing = [required(field, "must specify a metric name")]
        found += check.check(formats.path_segment, field, name) if name else missing
    if kind == "containerResource":
        container = get_string(source, "container")
        missing = [required(path / "container", "must specify a container")]
        found += check.dns_label(path / "container", container) if container else missing
    found += _target(at, target)
    match kind:
        case "pods" if average is None:
            found.append(required(at / "averageValue", "must specify a positive target averageValue"))
        case "object" if value is None and average is None:
            found.append(required(at / "averageValue", "must set either a target value or averageValue"))
        case "external" if value is None and average is None:
            text = "must set either a target value for metric or a per-pod target"
            found.append(required(at / "averageValue", text))
        case "external" if value is not None and average is not None:
            text = "may not set both a target value for metric and a per-pod target"
            found.append(field_forbidden(at / "value", text))
        case "resource" | "containerResource" if utilization is None and average is None:
            text = "must set either a target raw value or a target utilization"
            found.append(required(at / "averageUtilization", text))
        case "resource" | "containerResource" if utilization is not None and average is not None:
            text = "may not set both a target raw value and a target utilization"
            found.append(field_forbidden(at / "averageValue", text))
        case _:
            pass
    return found


def _target(path: Path, target: Object) -> list[FieldError]:
    kind = get_string(target, "type")
    found = [] if kind else [required(path / "type", "must specify a metric target type")]
    if kind not in ("Utilization", "Value", "AverageValue"):
        found.append(field_invalid(path / "type", kind, "must be either Utilization, Value, or AverageValue"))
    for field in ("value", "averageValue"):
        amount = check.amount(target.get(field))
        if amount is not None and amount <= 0:
            found.append(field_invalid(path / field, str(amount), "must be positive"))
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        found.append(field_invalid(path / "averageUtilization", utilization, "must be greater than 0"))
    return found


def _scaling(path: Path, rules: Object) -> list[FieldError]:
    found: list[FieldError] = []
    window, select, policies = (
        rules.get("stabilizationWindowSeconds"),
        rules.get("selectPolicy"),
        get_list(rules, "policies"),
    )
    at = path / "stabilizationWindowSeconds"
    if window is not None and window < 0:
        found.append(field_invalid(at, window, "must be greater than or equal to zero"))
    if window is not None and window > 3600:
        found.append(field_invalid(at, window, "must be less than or equal to 3600"))
    if select is not None:
        found += check.enum(path / "selectPolicy", select, ("Disabled", "Max", "Min"))
    if not policies:
        found.append(required(path / "policies", "must specify at least one Policy"))
    for index, policy in enumerate(policies):
        found += _policy((path / "policies").at(index), policy)
    if rules.get("tolerance") is not None:
        found += check.quantity(path / "tolerance", rules["tolerance"])
    return found


def _policy(path: Path, policy: Object) -> list[FieldError]:
    found = check.enum(path / "type", get_string(policy, "type"), ("Percent", "Pods"))
    value, seconds = policy.get("value") or 0, policy.get("periodSeconds") or 0
    if value <= 0:
        found.append(field_invalid(path / "value", value, "must be greater than zero"))
    if seconds <= 0:
        found.append(field_invalid(path / "periodSeconds", seconds, "must be greater than zero"))
    if seconds > 1800:
        found.append(field_invalid(path / "periodSeconds", seconds, "must be less than or equal to 1800"))
    return found


def _shown_metrics(metrics: Sequence[Object], current: Sequence[Object]) -> str:
    shown: list[str] = []
    for index, metric in enumerate(metrics):
        field = _SOURCES.get(get_string(metric, "type"), "")
        now: Object = (current[index].get(field) or {}) if index < len(current) else {}
        shown.append(
            _shown_metric(field, metric.get(field) or {}, get_object(now, "current")) if field else "<unknown type>"
        )
    more = f" + {len(shown) - 2} more..." if len(shown) > 2 else ""
    return f"{', '.join(shown[:2])}{more}" if shown else columns.NONE


def _shown_metric(field: str, source: Object, current: Object) -> str:
    target = get_object(source, "target")
    average, utilization = target.get("averageValue"), target.get("averageUtilization")
    if field in ("resource", "containerResource"):
        if average is not None:
            return f"{get_string(source, 'name')}: {current.get('averageValue', columns.UNKNOWN)}/{average}"
        now = current.get("averageUtilization")
        is_now = columns.UNKNOWN if now is None else f"{now}%"
        return f"{get_string(source, 'name')}: {is_now}/{'<auto>' if utilization is None else f'{utilization}%'}"
    if field == "pods":
        return f"{current.get('averageValue', columns.UNKNOWN)}/{average}"
    if average is not None:
        return f"{current.get('averageValue', columns.UNKNOWN)}/{average} (avg)"
    return f"{current.get('value', columns.UNKNOWN)}/{target.get('value')}"


class AutoscalerV1(Autoscaler):
    """autoscaling/v1: one CPU target; all else of the newer version is kept in annotations."""

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("minReplicas") is None:
            spec["minReplicas"] = 1
        converted = conversion.to_v2(obj)
        cpu = conversion.cpu_target(dig(converted, "spec", "metrics", default=[]))
        if cpu is not None:
            spec["targetCPUUtilizationPercentage"] = cpu

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        obj["status"] = {"currentReplicas": 0, "desiredReplicas": 0}

    def to_storage(self, obj: Object) -> Object:
        """Return the object in the version that is stored."""
        return conversion.to_v2(obj)

    def from_storage(self, obj: Object) -> Object:
        """Return the stored object in this version."""
        return conversion.to_v1(obj)

    def row(self, obj: Object, now: float) -> list[Any]:
        return super().row(conversion.to_v2(obj), now)

    def errors(self, obj: Object) -> list[FieldError]:
        return super().errors(conversion.to_v2(obj))


class Scale(Plain):
    """The scale of a workload, which is only ever shown."""

    columns = (
        Column("Name", description=columns.NAME.description),
        Column("Desired", "integer", description="replicas is the desired number of instances for the scaled object."),
        Column(
            "Available",
            "integer",
            description="replicas is the actual number of observed instances of the scaled object.",
        ),
        columns.AGE,
    )

    def row(self, obj: Object, now: float) -> list[Any]:
        desired, available = (get_object(obj, field).get("replicas") or 0 for field in ("spec", "status"))
        return [columns.name(obj), desired, available, columns.age(obj, now)]


STRATEGIES = {
    ("autoscaling", "v1", "Scale"): Scale(),
    ("autoscaling", "v2", "HorizontalPodAutoscaler"): Autoscaler(),
    ("autoscaling", "v1", "HorizontalPodAutoscaler"): AutoscalerV1(),
}
