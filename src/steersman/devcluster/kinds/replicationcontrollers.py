"""ReplicationControllers and PodTemplates: the oldest kinds with a template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steersman.devcluster.kinds import columns
from steersman.devcluster.kinds.columns import AGE, NAME
from steersman.devcluster.kinds.podspec_defaults import default_template
from steersman.devcluster.kinds.workload_base import Scale, Workload, replicas
from steersman.devcluster.kinds.workload_cells import CONTAINERS, IMAGES, SELECTOR, container_cells, count
from steersman.devcluster.objects import Object, dig, meta
from steersman.devcluster.strategy import Column

__all__ = ["PodTemplate", "ReplicationController"]


class ReplicationController(Workload):
    """v1 ReplicationController: its selector and labels default to the template's labels."""

    scale = Scale(plain_selector=True)
    empty_status = {"replicas": 0}
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

    def content(self, obj: Object) -> Any:
        return obj.get("template")

    def row(self, obj: Object, now: float) -> list[Any]:
        return [
            columns.name(obj),
            *container_cells(dig(obj, "template", "spec", "containers")),
            columns.labels(dig(obj, "template", "metadata", "labels")),
        ]
