"""Conversion of HorizontalPodAutoscalers between autoscaling/v1 and v2.

Fields that v1 lacks are kept in annotations `autoscaling.alpha.kubernetes.io/…`, as in the API server, so that reading
in one version and writing in the other loses nothing. Pure; the argument is not changed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from steersman_cluster.json_access import get_list, get_object
from steersman_cluster.objects import Object, dig, from_json

__all__ = ["cpu_metric", "cpu_target", "to_v1", "to_v2"]

_PREFIX = "autoscaling.alpha.kubernetes.io/"
_METRICS, _CURRENT = f"{_PREFIX}metrics", f"{_PREFIX}current-metrics"
_BEHAVIOR, _CONDITIONS = f"{_PREFIX}behavior", f"{_PREFIX}conditions"
_OURS = (_METRICS, _CURRENT, _BEHAVIOR, _CONDITIONS)


def cpu_metric(percent: int) -> Object:
    """The metric that v1's `targetCPUUtilizationPercentage` stands for."""
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _is_cpu(metric: Object) -> bool:
    resource = metric.get("resource")
    return (
        metric.get("type") == "Resource"
        and resource is not None
        and resource.get("name") == "cpu"
        and dig(resource, "target", "averageUtilization") is not None
    )


def cpu_target(metrics: Sequence[Object]) -> int | None:
    """The first CPU utilization asked for."""
    return next((m["resource"]["target"]["averageUtilization"] for m in metrics if _is_cpu(m)), None)


def to_v1(obj: Object) -> Object:
    """A v2 object as v1."""
    spec, status = get_object(obj, "spec"), get_object(obj, "status")
    metrics: list[Object] = get_list(spec, "metrics")
    kept: Object = {field: spec[field] for field in ("scaleTargetRef", "minReplicas", "maxReplicas") if field in spec}
    if (cpu := cpu_target(metrics)) is not None:
        kept["targetCPUUtilizationPercentage"] = cpu
    notes: dict[str, str] = {}
    current: list[Object] = get_list(status, "currentMetrics")
    if others := [_metric_to_v1(metric) for metric in metrics if not _is_cpu(metric)]:
        notes[_METRICS] = _text(others)
    if current:
        notes[_CURRENT] = _text([_status_to_v1(metric) for metric in current])
    if (behavior := spec.get("behavior")) is not None:
        notes[_BEHAVIOR] = _text({
            "ScaleUp": _rules_to_v1(behavior.get("scaleUp")), "ScaleDown": _rules_to_v1(behavior.get("scaleDown"))
        })  # fmt: skip
    if conditions := status.get("conditions"):
        notes[_CONDITIONS] = _text([_ordered_condition(condition) for condition in conditions])
    made = {**obj, "apiVersion": "autoscaling/v1", "spec": kept, "status": _status_of(status, current)}
    return _noted(made, notes)


def _status_of(status: Object, current: Sequence[Object]) -> Object:
    made: Object = {field: status[field] for field in ("observedGeneration", "lastScaleTime") if field in status}
    made["currentReplicas"] = status.get("currentReplicas") or 0
    made["desiredReplicas"] = status.get("desiredReplicas") or 0
    for metric in current:
        share = dig(metric, "resource", "current", "averageUtilization")
        if metric.get("type") == "Resource" and dig(metric, "resource", "name") == "cpu" and share is not None:
            made["currentCPUUtilizationPercentage"] = share
    return made


def to_v2(obj: Object) -> Object:
    """A v1 object as v2; annotations that do not parse are dropped as the API server drops them."""
    spec, status = get_object(obj, "spec"), get_object(obj, "status")
    notes: dict[str, str] = dig(obj, "metadata", "annotations", default={})
    kept: Object = {field: spec[field] for field in ("scaleTargetRef", "minReplicas", "maxReplicas") if field in spec}
    others: list[Object] = [_metric_to_v2(metric) for metric in _parsed(notes.get(_METRICS), list)]
    if (cpu := spec.get("targetCPUUtilizationPercentage")) is not None:
        others.append(cpu_metric(cpu))
    kept["metrics"] = others or [cpu_metric(80)]
    behavior = _parsed(notes.get(_BEHAVIOR), dict)
    if behavior.get("ScaleUp") or behavior.get("ScaleDown"):
        sides = (("scaleUp", behavior.get("ScaleUp")), ("scaleDown", behavior.get("ScaleDown")))
        kept["behavior"] = {field: _rules_to_v2(rules) for field, rules in sides if rules is not None}
    made: Object = {field: status[field] for field in ("observedGeneration", "lastScaleTime") if field in status}
    if status.get("currentReplicas"):
        made["currentReplicas"] = status["currentReplicas"]
    made["desiredReplicas"] = status.get("desiredReplicas") or 0
    current = [_status_to_v2(metric) for metric in _parsed(notes.get(_CURRENT), list)]
    if not current and (share := status.get("currentCPUUtilizationPercentage")) is not None:
        current = [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": share}}}]
    made["currentMetrics"] = current or None
    if conditions := _parsed(notes.get(_CONDITIONS), list):
        made["conditions"] = conditions
    return _noted({**obj, "apiVersion": "autoscaling/v2", "spec": kept, "status": made}, {})


def _noted(obj: Object, notes: dict[str, str]) -> Object:
    """The object with these of our annotations and no others of ours."""
    metadata = {**get_object(obj, "metadata")}
    kept = {key: value for key, value in get_object(metadata, "annotations").items() if key not in _OURS} | notes
    if kept:
        metadata["annotations"] = kept
    else:
        metadata.pop("annotations", None)
    obj["metadata"] = metadata
    return obj


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _parsed(text: str | None, kind: type) -> Any:
    try:
        value = from_json(text) if text else None
    except ValueError:
        value = None
    if not isinstance(value, kind):
        return kind()
    if kind is list:
        return [item for item in cast("list[Any]", value) if isinstance(item, dict)]
    return cast(Any, value)


def _drop_none(obj: Object) -> Object:
    return {field: value for field, value in obj.items() if value is not None}


def _target(reference: Object) -> Object:
    return _drop_none({field: reference.get(field) for field in ("kind", "name", "apiVersion")})


def _metric_to_v1(metric: Object) -> Object:
    made: Object = {"type": metric.get("type", "")}
    for field in ("object", "pods", "resource", "containerResource", "external"):
        if (source := metric.get(field)) is None:
            continue
        target, identity = get_object(source, "target"), get_object(source, "metric")
        name, selector = identity.get("name", ""), identity.get("selector")
        value, average = target.get("value"), target.get("averageValue")
        match field:
            case "object":
                found = {
                    "target": _target(get_object(source, "describedObject")), "metricName": name,
                    "targetValue": value or "0", "selector": selector, "averageValue": average,
                }  # fmt: skip
            case "pods":
                found = {"metricName": name, "targetAverageValue": average or "0", "selector": selector}
            case "external":
                found = {
                    "metricName": name, "metricSelector": selector, "targetValue": value, "targetAverageValue": average
                }  # fmt: skip
            case _:
                found = {
                    "name": source.get("name", ""), "targetAverageUtilization": target.get("averageUtilization"),
                    "targetAverageValue": average, "container": source.get("container"),
                }  # fmt: skip
        made[field] = _drop_none(found)
    return made


def _metric_to_v2(metric: Object) -> Object:
    made: Object = {"type": metric.get("type", "")}
    for field in ("object", "pods", "resource", "containerResource", "external"):
        if not isinstance(source := metric.get(field), dict):
            continue
        source = cast(Object, source)
        identity = {"name": source.get("metricName", "")}
        match field:
            case "object":
                average, value = source.get("averageValue"), source.get("targetValue", "0")
                if average is not None and value == "0":
                    value = None
                target = {"type": "AverageValue" if average is not None else "Value", "value": value}
                made[field] = {
                    "describedObject": get_object(source, "target"),
                    "target": _drop_none({**target, "averageValue": average}),
                    "metric": _drop_none({**identity, "selector": source.get("selector")}),
                }  # fmt: skip
            case "pods":
                target = {"type": "AverageValue", "averageValue": source.get("targetAverageValue", "0")}
                made[field] = {"metric": _drop_none({**identity, "selector": source.get("selector")}), "target": target}
            case "external":
                value = source.get("targetValue")
                target = {"type": "AverageValue" if value is None else "Value", "value": value}
                made[field] = {
                    "metric": _drop_none({**identity, "selector": source.get("metricSelector")}),
                    "target": _drop_none({**target, "averageValue": source.get("targetAverageValue")}),
                }  # fmt: skip
            case _:
                share = source.get("targetAverageUtilization")
                target = {
                    "type": "AverageValue" if share is None else "Utilization",
                    "averageValue": source.get("targetAverageValue"), "averageUtilization": share,
                }  # fmt: skip
                found = {"name": source.get("name", ""), "container": source.get("container")}
                made[field] = _drop_none({**found, "target": _drop_none(target)})
    return made


def _status_to_v1(metric: Object) -> Object:
    made: Object = {"type": metric.get("type", "")}
    for field in ("object", "pods", "resource", "containerResource", "external"):
        if (source := metric.get(field)) is None:
            continue
        now, identity = get_object(source, "current"), get_object(source, "metric")
        name, selector = identity.get("name", ""), identity.get("selector")
        value, average = now.get("value", "0"), now.get("averageValue")
        match field:
            case "object":
                found = {
                    "target": _target(get_object(source, "describedObject")), "metricName": name, "currentValue": value,
                    "selector": selector, "averageValue": average,
                }  # fmt: skip
            case "pods":
                found = {"metricName": name, "currentAverageValue": average or "0", "selector": selector}
            case "external":
                found = {
                    "metricName": name, "metricSelector": selector, "currentValue": value,
                    "currentAverageValue": average,
                }  # fmt: skip
            case _:
                found = {
                    "name": source.get("name", ""), "currentAverageUtilization": now.get("averageUtilization"),
                    "currentAverageValue": average or "0", "container": source.get("container"),
                }  # fmt: skip
        made[field] = _drop_none(found)
    return made


def _status_to_v2(metric: Object) -> Object:
    made: Object = {"type": metric.get("type", "")}
    for field in ("object", "pods", "resource", "containerResource", "external"):
        if not isinstance(source := metric.get(field), dict):
            continue
        source = cast(Object, source)
        selector = source.get("metricSelector" if field == "external" else "selector")
        identity = _drop_none({"name": source.get("metricName", ""), "selector": selector})
        now = _drop_none({
            "value": source.get("currentValue"),
            "averageValue": source.get("averageValue" if field == "object" else "currentAverageValue"),
            "averageUtilization": source.get("currentAverageUtilization"),
        })  # fmt: skip
        if field in ("resource", "containerResource"):
            found = {"name": source.get("name", ""), "current": now, "container": source.get("container")}
            made[field] = _drop_none(found)
        elif field == "object":
            made[field] = {"metric": identity, "current": now, "describedObject": get_object(source, "target")}
        else:
            made[field] = {"metric": identity, "current": now}
    return made


def _rules_to_v1(rules: Object | None) -> Object | None:
    """The server's internal form, which the annotation happens to hold."""
    if rules is None:
        return None
    return {
        "StabilizationWindowSeconds": rules.get("stabilizationWindowSeconds"),
        "SelectPolicy": rules.get("selectPolicy"),
        "Policies": [
            {"Type": policy.get("type"), "Value": policy.get("value"), "PeriodSeconds": policy.get("periodSeconds")}
            for policy in get_list(rules, "policies")
        ],
        "Tolerance": rules.get("tolerance"),
    }


def _rules_to_v2(rules: Object) -> Object:
    policies = [
        {"type": policy.get("Type"), "value": policy.get("Value"), "periodSeconds": policy.get("PeriodSeconds")}
        for policy in get_list(rules, "Policies")
    ]
    return _drop_none({
        "stabilizationWindowSeconds": rules.get("StabilizationWindowSeconds"),
        "selectPolicy": rules.get("SelectPolicy"),
        "policies": policies or None,
        "tolerance": rules.get("Tolerance"),
    })  # fmt: skip


def _ordered_condition(condition: Object) -> Object:
    fields = ("type", "status", "lastTransitionTime", "reason", "message")
    return {field: condition[field] for field in fields if field in condition}
