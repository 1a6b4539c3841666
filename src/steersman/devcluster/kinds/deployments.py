"""Deployments and the ReplicaSets they make: defaults, life cycle, columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steersman.devcluster.kinds import columns
from steersman.devcluster.kinds.columns import AGE, NAME
from steersman.devcluster.kinds.workload_base import Scale, Workload, replicas
from steersman.devcluster.kinds.workload_cells import CONTAINERS, IMAGES, SELECTOR, container_cells, count
from steersman.devcluster.objects import Object, dig, meta
from steersman.devcluster.strategy import Column, WriteContext

__all__ = ["Deployment", "ReplicaSet"]


class Deployment(Workload):
    """apps/v1 Deployment."""

    scale = Scale()
    kept_metadata = ("labels",)
    empty_status = {}
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

    scale = Scale()
    empty_status = {"replicas": 0}
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
