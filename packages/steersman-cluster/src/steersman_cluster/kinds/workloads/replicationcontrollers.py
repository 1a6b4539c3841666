"""ReplicationControllers and PodTemplates: the oldest kinds with a template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steersman_cluster.errors import FieldError, field_invalid, required
from steersman_cluster.kinds import columns
from steersman_cluster.kinds.columns import AGE, NAME
from steersman_cluster.kinds.pods.defaults import default_template
from steersman_cluster.kinds.pods.spec import template_errors
from steersman_cluster.kinds.workloads.base import Workload, replicas
from steersman_cluster.kinds.workloads.columns import CONTAINERS, IMAGES, SELECTOR, container_cells, count
from steersman_cluster.kinds.workloads.validation import (
    NO_MATCH,
    always_errors,
    bounded_errors,
    non_negative_errors,
    shown_labels,
)
from steersman_cluster.objects import Object, Path, dig, meta
from steersman_cluster.strategy import Column, WriteContext

_SPEC, _STATUS = Path("spec"), Path("status")

__all__ = ["PodTemplate", "ReplicationController"]


class ReplicationController(Workload):
    """v1 ReplicationController: its selector and labels default to the template's labels."""

    counted = ("replicas",)
    selectable = ("status.replicas",)
    columns = (
        NAME,
        Column("Desired", "integer", description="Replicas is the number of desired replicas."),
        Column("Current", "integer", description="How many Pods there are."),
        Column("Ready", "integer", description="The number of ready replicas for this replication controller."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    )

    def default(self, obj: Object) -> None:
        spec: Object = obj.setdefault("spec", {})
        if (template := spec.get("template")) is not None:
            default_template(template)
            if labels := dig(template, "metadata", "labels"):
                if not spec.get("selector"):
                    spec["selector"] = dict(labels)
                if not meta(obj).get("labels"):
                    obj.setdefault("metadata", {})["labels"] = dict(labels)
        if spec.get("replicas") is None:
            spec["replicas"] = 1

    def errors(self, obj: Object) -> list[FieldError]:
        spec: Object = obj["spec"]
        found = non_negative_errors(spec, _SPEC, ("minReadySeconds",))
        selector: dict[str, str] = spec.get("selector") or {}
        if not selector:
            found.append(required(_SPEC / "selector"))
        found += non_negative_errors(spec, _SPEC, ("replicas",))
        if (template := spec.get("template")) is None:
            return [*found, required(_SPEC / "template")]
        labels: dict[str, str] = dig(template, "metadata", "labels", default={})
        if selector and any(labels.get(key) != value for key, value in selector.items()):
            found.append(field_invalid(_SPEC / "template" / "metadata" / "labels", shown_labels(labels), NO_MATCH))
        found += template_errors(template, _SPEC / "template")
        return found + always_errors(template, _SPEC / "template", "ReplicationController")

    def status_errors(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        status: Object = obj.get("status") or {}
        counts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        found = non_negative_errors(status, _STATUS, ("replicas", *counts, "observedGeneration"))
        return found + bounded_errors(status, _STATUS, counts)

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
            columns.labels(dig(obj, "spec", "selector")),
        ]


class PodTemplate(Workload):
    """v1 PodTemplate: a template and nothing else."""

    has_status = False
    template = ("template",)
    warns_of_name = False
    columns = (
        NAME,
        Column("Containers", description="Names of each container in the template."),
        Column("Images", description="Images referenced by each container in the template."),
        Column("Pod Labels", description="The labels for the pod template."),
    )

    def default(self, obj: Object) -> None:
        default_template(obj.setdefault("template", {}))

    def errors(self, obj: Object) -> list[FieldError]:
        return template_errors(obj.get("template") or {}, Path("template"))

    def content(self, obj: Object) -> Any:
        return obj.get("template")

    def row(self, obj: Object, now: float) -> list[Any]:
        return [
            columns.name(obj),
            *container_cells(dig(obj, "template", "spec", "containers")),
            columns.labels(dig(obj, "template", "metadata", "labels")),
        ]
