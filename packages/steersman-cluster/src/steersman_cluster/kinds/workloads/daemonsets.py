"""DaemonSets: defaults, the generation of their template, columns."""

from __future__ import annotations

from typing import Any

from steersman_cluster.errors import FieldError, field_invalid, not_supported, required
from steersman_cluster.json_access import get_object
from steersman_cluster.kinds import columns
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.columns import AGE, NAME
from steersman_cluster.kinds.pods.spec import template_errors
from steersman_cluster.kinds.workloads.base import Workload
from steersman_cluster.kinds.workloads.columns import CONTAINERS, IMAGES, SELECTOR, container_cells, count
from steersman_cluster.kinds.workloads.validation import (
    NO_MATCH,
    always_errors,
    collision_errors,
    count_of,
    go_struct,
    is_valid_selector,
    matches,
    non_negative_errors,
    rolling_errors,
    shown_labels,
)
from steersman_cluster.objects import Object, Path, annotations_of, dig
from steersman_cluster.strategy import Column, WriteContext

__all__ = ["DaemonSet"]

_SPEC, _STATUS = Path("spec"), Path("status")
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


class DaemonSet(Workload):
    """apps/v1 DaemonSet. An annotation counts the changes of the template, for clients of older versions."""

    counted = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    warns_of_name = False
    columns = (
        NAME,
        Column("Desired", "integer", description="On how many nodes a Pod should run."),
        Column("Current", "integer", description="On how many of these nodes a Pod runs."),
        Column("Ready", "integer", description="On how many of these nodes a Pod is ready."),
        Column("Up-to-date", "integer", description="The total number of nodes that are running updated daemon pod"),
        Column("Available", "integer", description="On how many nodes a Pod has been ready for long enough."),
        Column("Node Selector", description="Which nodes Pods run on."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    )

    def default_own(self, obj: Object, spec: Object) -> None:
        update: Object = spec.get("updateStrategy") or {}
        spec["updateStrategy"] = update
        if not update.get("type"):
            update["type"] = "RollingUpdate"
        if update["type"] == "RollingUpdate":
            rolling: Object = update.get("rollingUpdate") or {}
            update["rollingUpdate"] = rolling
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        if spec.get("revisionHistoryLimit") is None:
            spec["revisionHistoryLimit"] = 10
        if TEMPLATE_GENERATION not in annotations_of(obj):
            _remember(obj, 0)

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        super().prepare_create(obj, ctx)
        _remember(obj, max(_template_generation(obj), 1))

    def prepare_update(self, obj: Object, old: Object, ctx: WriteContext) -> None:
        super().prepare_update(obj, old, ctx)
        changed = dig(obj, "spec", "template") != dig(old, "spec", "template")
        _remember(obj, _template_generation(old) + changed)

    def errors(self, obj: Object) -> list[FieldError]:
        spec: Object = obj["spec"]
        selector, template = spec.get("selector"), get_object(spec, "template")
        found = check.label_selector(_SPEC / "selector", selector)
        labels = dig(template, "metadata", "labels", default={})
        if is_valid_selector(selector) and not matches(selector, labels):
            found.append(field_invalid(_SPEC / "template" / "metadata" / "labels", shown_labels(labels), NO_MATCH))
        if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
            found.append(field_invalid(_SPEC / "selector", selector, "empty selector is invalid for daemonset"))
        found += template_errors(template, _SPEC / "template")
        found += always_errors(template, _SPEC / "template", "DaemonSet")
        found += non_negative_errors(spec, _SPEC, ("minReadySeconds",))
        found += _update_errors(get_object(spec, "updateStrategy"), _SPEC / "updateStrategy")
        return found + non_negative_errors(spec, _SPEC, ("revisionHistoryLimit",))

    def changes(self, obj: Object, old: Object) -> list[FieldError]:
        return check.immutable(_SPEC / "selector", obj["spec"].get("selector"), old["spec"].get("selector"))

    def status_errors(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        status: Object = obj.get("status") or {}
        counts = (
            "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady",
            "observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount",
        )  # fmt: skip
        found = non_negative_errors(status, _STATUS, counts)
        return found + collision_errors(status, old.get("status") or {}, _STATUS)

    def row(self, obj: Object, now: float) -> list[Any]:
        return [
            columns.name(obj),
            count(obj, "status", "desiredNumberScheduled"),
            count(obj, "status", "currentNumberScheduled"),
            count(obj, "status", "numberReady"),
            count(obj, "status", "updatedNumberScheduled"),
            count(obj, "status", "numberAvailable"),
            columns.labels(dig(obj, "spec", "template", "spec", "nodeSelector")),
            columns.age(obj, now),
            *container_cells(dig(obj, "spec", "template", "spec", "containers")),
            columns.label_selector(dig(obj, "spec", "selector")),
        ]


def _update_errors(update: Object, path: Path) -> list[FieldError]:
    kind = update.get("type")
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        return [not_supported(path, go_struct(update, "type", "rollingUpdate"), ("RollingUpdate", "OnDelete"))]
    rolling: Object = update.get("rollingUpdate") or {}
    at = path / "rollingUpdate"
    found = rolling_errors(rolling, at)
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    found += check.percent_at_most_100(at / "maxUnavailable", unavailable)
    found += check.percent_at_most_100(at / "maxSurge", surge)
    if count_of(unavailable) and count_of(surge):
        found.append(field_invalid(at / "maxSurge", surge, "may not be set when maxUnavailable is non-zero"))
    elif not count_of(unavailable) and not count_of(surge):
        found.append(required(at / "maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return found


def _template_generation(obj: Object) -> int:
    try:
        return int(annotations_of(obj).get(TEMPLATE_GENERATION) or 0)
    except ValueError:
        return 0


def _remember(obj: Object, generation: int) -> None:
    metadata: Object = obj.setdefault("metadata", {})
    metadata["annotations"] = {**get_object(metadata, "annotations"), TEMPLATE_GENERATION: str(generation)}
