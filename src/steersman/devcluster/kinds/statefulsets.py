"""StatefulSets and the ControllerRevisions that remember their templates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steersman.devcluster.kinds import columns
from steersman.devcluster.kinds.columns import AGE, NAME, NONE
from steersman.devcluster.kinds.plain import Plain
from steersman.devcluster.kinds.podspec_defaults import default_claim_spec
from steersman.devcluster.kinds.workload_base import Scale, Workload, replicas
from steersman.devcluster.kinds.workload_cells import CONTAINERS, IMAGES, container_cells, count
from steersman.devcluster.objects import Object, dig, meta
from steersman.devcluster.strategy import Column, WriteContext

__all__ = ["ControllerRevision", "StatefulSet"]

_NEGATIVE_HISTORY = (
    "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
)


class StatefulSet(Workload):
    """apps/v1 StatefulSet."""

    scale = Scale()
    empty_status = {"replicas": 0, "availableReplicas": 0}
    warns_of_name = False
    columns = (
        NAME,
        Column("Ready", description="Number of the pod with ready state"),
        AGE,
        CONTAINERS,
        IMAGES,
    )

    def default_own(self, obj: Object, spec: Object) -> None:
        if not spec.get("podManagementPolicy"):
            spec["podManagementPolicy"] = "OrderedReady"
        update: Object = spec.get("updateStrategy") or {}
        spec["updateStrategy"] = update
        if not update.get("type"):
            update["type"] = "RollingUpdate"
            if update.get("rollingUpdate") is None:
                update["rollingUpdate"] = {}
        if update["type"] == "RollingUpdate" and update.get("rollingUpdate") is not None:
            update["rollingUpdate"].setdefault("partition", 0)
        kept: Object = spec.get("persistentVolumeClaimRetentionPolicy") or {}
        spec["persistentVolumeClaimRetentionPolicy"] = kept
        for name in ("whenDeleted", "whenScaled"):
            if not kept.get(name):
                kept[name] = "Retain"
        if spec.get("replicas") is None:
            spec["replicas"] = 1
        if spec.get("revisionHistoryLimit") is None:
            spec["revisionHistoryLimit"] = 10
        for claim in spec.get("volumeClaimTemplates") or ():
            claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
            default_claim_spec(claim.setdefault("spec", {}))
            claim["status"] = {"phase": "Pending", **(claim.get("status") or {})}

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        super().prepare_create(obj, ctx)
        _drop_disabled(obj, None)

    def prepare_update(self, obj: Object, old: Object, ctx: WriteContext) -> None:
        _drop_disabled(obj, old)
        super().prepare_update(obj, old, ctx)

    def warnings(self, obj: Object, old: Object | None, ctx: WriteContext) -> Sequence[str]:
        found = list(super().warnings(obj, old, ctx))
        limit = dig(obj, "spec", "revisionHistoryLimit")
        if not ctx.subresource and limit is not None and limit < 0:
            found.append(_NEGATIVE_HISTORY)
        return found

    def row(self, obj: Object, now: float) -> list[Any]:
        return [
            columns.name(obj),
            f"{count(obj, 'status', 'readyReplicas')}/{replicas(obj)}",
            columns.age(obj, now),
            *container_cells(dig(obj, "spec", "template", "spec", "containers")),
        ]


class ControllerRevision(Plain):
    """apps/v1 ControllerRevision: a numbered snapshot that never changes."""

    columns = (
        NAME,
        Column("Controller", description="Controller of the object"),
        Column("Revision", description="Revision indicates the revision of the state represented by Data."),
        AGE,
    )

    def row(self, obj: Object, now: float) -> list[Any]:
        owner = next((item for item in meta(obj).get("ownerReferences") or () if item.get("controller")), None)
        return [columns.name(obj), _owner(owner), obj.get("revision") or 0, columns.age(obj, now)]


def _drop_disabled(obj: Object, old: Object | None) -> None:
    """How many Pods may be down during an update is a feature that is off; who had it keeps it."""
    rolling = dig(obj, "spec", "updateStrategy", "rollingUpdate", default={})
    if old is None or dig(old, "spec", "updateStrategy", "rollingUpdate", "maxUnavailable") is None:
        rolling.pop("maxUnavailable", None)


def _owner(owner: Object | None) -> str:
    if owner is None:
        return NONE
    group = str(owner.get("apiVersion") or "").rpartition("/")[0]
    kind = str(owner.get("kind") or "").lower()
    return f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"
