"""Deployments and the ReplicaSets they make: defaults, life cycle, columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steersman_cluster.errors import FieldError, field_forbidden, field_invalid, not_supported
from steersman_cluster.json_access import get_object
from steersman_cluster.kinds import columns
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.columns import AGE, NAME
from steersman_cluster.kinds.workloads.base import Workload, replicas
from steersman_cluster.kinds.workloads.columns import CONTAINERS, IMAGES, SELECTOR, container_cells, count
from steersman_cluster.kinds.workloads.validation import (
    always_errors,
    bounded_errors,
    collision_errors,
    count_of,
    go_struct,
    is_valid_selector,
    non_negative_errors,
    rolling_errors,
    selected_template_errors,
    selector_errors,
)
from steersman_cluster.objects import Object, Path, dig, meta
from steersman_cluster.strategy import Column, WriteContext

_SPEC, _STATUS = Path("spec"), Path("status")
_COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")

__all__ = ["Deployment", "ReplicaSet"]


class Deployment(Workload):
    """apps/v1 Deployment."""

    kept_metadata = ("labels",)
    columns = (
        NAME,
        Column("Ready", description="Number of the pod with ready state"),
        Column("Up-to-date", description="How many Pods have the wanted template."),
        Column("Available", description="How many Pods have been ready for long enough."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    )

    def default_own(self, obj: Object, spec: Object) -> None:
        if spec.get("replicas") is None:
            spec["replicas"] = 1
        strategy: Object = spec.get("strategy") or {}
        spec["strategy"] = strategy
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling: Object = strategy.get("rollingUpdate") or {}
            strategy["rollingUpdate"] = rolling
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        if spec.get("revisionHistoryLimit") is None:
            spec["revisionHistoryLimit"] = 10
        if spec.get("progressDeadlineSeconds") is None:
            spec["progressDeadlineSeconds"] = 600

    def content(self, obj: Object) -> Any:
        # Annotations count: a rollback by annotation once was a change of the spec.
        return obj.get("spec"), meta(obj).get("annotations") or {}

    def prepare_update(self, obj: Object, old: Object, ctx: WriteContext) -> None:
        super().prepare_update(obj, old, ctx)
        if ctx.subresource == "status":
            meta(obj)["generation"] = meta(old).get("generation", 0)

    def errors(self, obj: Object) -> list[FieldError]:
        spec: Object = obj["spec"]
        found = non_negative_errors(spec, _SPEC, ("replicas",))
        found += _selection_errors(spec)
        found += _strategy_errors(get_object(spec, "strategy"), _SPEC / "strategy")
        found += non_negative_errors(
            spec, _SPEC, ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
        )
        deadline = spec.get("progressDeadlineSeconds")
        if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
            found.append(
                field_invalid(_SPEC / "progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
            )
        return found

    revalidated_after = True

    def changes(self, obj: Object, old: Object) -> list[FieldError]:
        return check.immutable(_SPEC / "selector", obj["spec"].get("selector"), old["spec"].get("selector"))

    def status_errors(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        status: Object = obj.get("status") or {}
        found = non_negative_errors(
            status,
            _STATUS,
            ("observedGeneration", *_COUNTS, "unavailableReplicas", "terminatingReplicas", "collisionCount"),
        )
        found += bounded_errors(status, _STATUS, _COUNTS[1:])
        found += _available_errors(status)
        return found + collision_errors(status, old.get("status") or {}, _STATUS)

    def row(self, obj: Object, now: float) -> list[Any]:
        return [
            columns.name(obj),
            f"{count(obj, 'status', 'readyReplicas')}/{replicas(obj)}",
            count(obj, "status", "updatedReplicas"),
            count(obj, "status", "availableReplicas"),
            columns.age(obj, now),
            *container_cells(dig(obj, "spec", "template", "spec", "containers")),
            columns.label_selector(dig(obj, "spec", "selector")),
        ]


class ReplicaSet(Workload):
    """apps/v1 ReplicaSet."""

    counted = ("replicas",)
    selectable = ("status.replicas",)
    columns = (
        NAME,
        Column("Desired", "integer", description="Replicas is the number of desired pods."),
        Column("Current", "integer", description="How many Pods there are."),
        Column("Ready", "integer", description="How many Pods are ready."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    )

    def default_own(self, obj: Object, spec: Object) -> None:
        if spec.get("replicas") is None:
            spec["replicas"] = 1

    def fields(self, obj: Object) -> Mapping[str, str]:
        return {"status.replicas": str(count(obj, "status", "replicas"))}

    def errors(self, obj: Object) -> list[FieldError]:
        spec: Object = obj["spec"]
        return non_negative_errors(spec, _SPEC, ("replicas", "minReadySeconds")) + _selection_errors(spec)

    revalidated_after = True

    def changes(self, obj: Object, old: Object) -> list[FieldError]:
        return check.immutable(_SPEC / "selector", obj["spec"].get("selector"), old["spec"].get("selector"))

    def status_errors(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        status: Object = obj.get("status") or {}
        counts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        found = non_negative_errors(status, _STATUS, ("replicas", *counts, "observedGeneration", "terminatingReplicas"))
        return found + bounded_errors(status, _STATUS, counts) + _available_errors(status)

    def row(self, obj: Object, now: float) -> list[Any]:
        return [
            columns.name(obj),
            replicas(obj),
            count(obj, "status", "replicas"),
            count(obj, "status", "readyReplicas"),
            columns.age(obj, now),
            *container_cells(dig(obj, "spec", "template", "spec", "containers")),
            columns.label_selector(dig(obj, "spec", "selector")),
        ]


def _selection_errors(spec: Object) -> list[FieldError]:
    """Return the errors of selector and template; the texts say deployment for ReplicaSets, too."""
    selector, template = spec.get("selector"), get_object(spec, "template")
    found = selector_errors(selector, _SPEC / "selector", "deployment")
    if not is_valid_selector(selector):
        return [*found, field_invalid(_SPEC / "selector", selector, "invalid label selector")]
    found += selected_template_errors(template, selector, _SPEC / "template")
    return found + always_errors(template, _SPEC / "template", "ReplicaSet")


def _strategy_errors(strategy: Object, path: Path) -> list[FieldError]:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is None:
            return []
        text = "may not be specified when strategy `type` is 'Recreate'"
        return [field_forbidden(path / "rollingUpdate", text)]
    if kind != "RollingUpdate":
        return [not_supported(path, go_struct(strategy, "type", "rollingUpdate"), ("Recreate", "RollingUpdate"))]
    found = rolling_errors(rolling or {}, path / "rollingUpdate")
    given: Object = rolling or {}
    unavailable, surge = given.get("maxUnavailable", 0), given.get("maxSurge", 0)
    at = path / "rollingUpdate" / "maxUnavailable"
    if not count_of(unavailable) and not count_of(surge):
        found.append(field_invalid(at, unavailable, "may not be 0 when `maxSurge` is 0"))
    return found + check.percent_at_most_100(at, unavailable)


def _available_errors(status: Object) -> list[FieldError]:
    available = status.get("availableReplicas") or 0
    if available <= (status.get("readyReplicas") or 0):
        return []
    return [field_invalid(_STATUS / "availableReplicas", available, "cannot be greater than readyReplicas")]
