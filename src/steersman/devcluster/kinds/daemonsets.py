"""DaemonSets: defaults, the generation of their template, columns."""

from __future__ import annotations

from typing import Any

from steersman.devcluster.kinds import columns
from steersman.devcluster.kinds.columns import AGE, NAME
from steersman.devcluster.kinds.workload_base import Workload
from steersman.devcluster.kinds.workload_cells import CONTAINERS, IMAGES, SELECTOR, container_cells, count
from steersman.devcluster.objects import Object, dig, meta
from steersman.devcluster.strategy import Column, WriteContext

__all__ = ["DaemonSet"]

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


class DaemonSet(Workload):
    """apps/v1 DaemonSet. An annotation counts the changes of the template, for clients of older versions."""

    empty_status = {"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0}
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

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        super().prepare_create(obj, ctx)
        _remember(obj, max(_template_generation(obj), 1))

    def prepare_update(self, obj: Object, old: Object, ctx: WriteContext) -> None:
        super().prepare_update(obj, old, ctx)
        changed = dig(obj, "spec", "template") != dig(old, "spec", "template")
        _remember(obj, _template_generation(old) + changed)

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


def _template_generation(obj: Object) -> int:
    try:
        return int((meta(obj).get("annotations") or {}).get(TEMPLATE_GENERATION) or 0)
    except ValueError:
        return 0


def _remember(obj: Object, generation: int) -> None:
    metadata = meta(obj)
    metadata["annotations"] = {**(metadata.get("annotations") or {}), TEMPLATE_GENERATION: str(generation)}
