"""StatefulSets and the ControllerRevisions that remember their templates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steersman_cluster.errors import FieldError, field_forbidden, field_invalid, not_supported, required
from steersman_cluster.json_access import get_list, get_object
from steersman_cluster.kinds import columns
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.claims import claim_spec_errors
from steersman_cluster.kinds.columns import AGE, NAME, NONE
from steersman_cluster.kinds.plain import Plain
from steersman_cluster.kinds.pods.defaults import default_claim_spec
from steersman_cluster.kinds.workloads.base import Workload, replicas
from steersman_cluster.kinds.workloads.columns import CONTAINERS, IMAGES, container_cells, count
from steersman_cluster.kinds.workloads.validation import (
    always_errors,
    bounded_errors,
    collision_errors,
    go_struct,
    is_valid_selector,
    non_negative_errors,
    selected_template_errors,
    selector_errors,
)
from steersman_cluster.objects import Object, Path, dig, meta
from steersman_cluster.strategy import Column, WriteContext

__all__ = ["ControllerRevision", "StatefulSet"]

_SPEC, _STATUS = Path("spec"), Path("status")
_CHANGEABLE = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip
_FORBIDDEN = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_NEGATIVE_HISTORY = (
    "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
)


class StatefulSet(Workload):
    """apps/v1 StatefulSet."""

    counted = ("replicas", "availableReplicas")
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
        rolling: Object | None = update.get("rollingUpdate")
        if update["type"] == "RollingUpdate" and rolling is not None and rolling.get("partition") is None:
            rolling["partition"] = 0
        kept: Object = spec.get("persistentVolumeClaimRetentionPolicy") or {}
        spec["persistentVolumeClaimRetentionPolicy"] = kept
        for name in ("whenDeleted", "whenScaled"):
            if not kept.get(name):
                kept[name] = "Retain"
        if spec.get("replicas") is None:
            spec["replicas"] = 1
        if spec.get("revisionHistoryLimit") is None:
            spec["revisionHistoryLimit"] = 10
        for claim in get_list(spec, "volumeClaimTemplates"):
            claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
            default_claim_spec(claim.setdefault("spec", {}))
            claim["status"] = {"phase": "Pending", **get_object(claim, "status")}

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        super().prepare_create(obj, ctx)
        _drop_disabled(obj, None)

    def prepare_update(self, obj: Object, old: Object, ctx: WriteContext) -> None:
        _drop_disabled(obj, old)
        super().prepare_update(obj, old, ctx)

    name_rule = "label"
    revalidated_after = True

    def validate_create(self, obj: Object, ctx: WriteContext) -> list[FieldError]:
        found = _set_errors(obj["spec"])
        for index, claim in enumerate(obj["spec"].get("volumeClaimTemplates") or ()):
            at = (_SPEC / "volumeClaimTemplates").at(index) / "spec"
            found += claim_spec_errors(claim.get("spec") or {}, at)
        if service := obj["spec"].get("serviceName"):
            found += check.dns_label(_SPEC / "serviceName", service)
        return found

    def errors(self, obj: Object) -> list[FieldError]:
        return _set_errors(obj["spec"])

    def changes(self, obj: Object, old: Object) -> list[FieldError]:
        new, before = (
            {key: value for key, value in item["spec"].items() if key not in _CHANGEABLE} for item in (obj, old)
        )
        return [] if new == before else [field_forbidden(_SPEC, _FORBIDDEN)]

    def status_errors(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        status: Object = obj.get("status") or {}
        counts = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
        found = non_negative_errors(status, _STATUS, ("replicas", *counts, "observedGeneration", "collisionCount"))
        found += bounded_errors(status, _STATUS, counts)
        available = status.get("availableReplicas") or 0
        if available > (status.get("readyReplicas") or 0):
            text = "cannot be greater than status.readyReplicas"
            found.append(field_invalid(_STATUS / "availableReplicas", available, text))
        return found + collision_errors(status, old.get("status") or {}, _STATUS)

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

    def errors(self, obj: Object) -> list[FieldError]:
        return non_negative_errors(obj, Path(""), ("revision",))

    def validate_create(self, obj: Object, ctx: WriteContext) -> list[FieldError]:
        found = self.errors(obj)
        data = obj.get("data")
        if data is None:
            found.append(required("data", "data is mandatory"))
        elif not isinstance(data, dict):
            found.append(required("data", "data must be a valid JSON object"))
        return found

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        found = super().validate_update(obj, old, ctx)
        return found + check.immutable("data", obj.get("data"), old.get("data"))

    columns = (
        NAME,
        Column("Controller", description="Controller of the object"),
        Column("Revision", description="Revision indicates the revision of the state represented by Data."),
        AGE,
    )

    def row(self, obj: Object, now: float) -> list[Any]:
        owner = next((item for item in meta(obj).get("ownerReferences") or () if item.get("controller")), None)
        return [columns.name(obj), _owner(owner), obj.get("revision") or 0, columns.age(obj, now)]


def _set_errors(spec: Object) -> list[FieldError]:
    found: list[FieldError] = []
    if (policy := spec.get("podManagementPolicy")) not in ("OrderedReady", "Parallel"):
        found.append(field_invalid(_SPEC / "podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    found += _update_errors(get_object(spec, "updateStrategy"), _SPEC / "updateStrategy")
    for field in ("whenDeleted", "whenScaled"):
        kept = dig(spec, "persistentVolumeClaimRetentionPolicy", field)
        if kept not in ("Retain", "Delete"):
            at = _SPEC / "persistentVolumeClaimRetentionPolicy" / field
            found.append(not_supported(at, kept, ("Retain", "Delete")))
    found += non_negative_errors(spec, _SPEC, ("replicas", "minReadySeconds"))
    if (start := dig(spec, "ordinals", "start", default=0)) < 0:
        found += check.non_negative(_SPEC / "ordinals.start", start)
    selector = spec.get("selector")
    found += selector_errors(selector, _SPEC / "selector", "statefulset")
    template = _with_claims(spec)
    if not is_valid_selector(selector):
        found.append(field_invalid(_SPEC / "selector", selector, ""))
    else:
        found += selected_template_errors(template, selector, _SPEC / "template")
    return found + always_errors(template, _SPEC / "template", "StatefulSet")


def _update_errors(update: Object, path: Path) -> list[FieldError]:
    kind, rolling = update.get("type"), update.get("rollingUpdate")
    if kind == "OnDelete":
        if rolling is None:
            return []
        shown = go_struct(rolling, "partition", "maxUnavailable")
        return [field_invalid(path / "rollingUpdate", shown, "only allowed for updateStrategy 'RollingUpdate'")]
    if kind != "RollingUpdate":
        return [
            field_invalid(path, go_struct(update, "type", "rollingUpdate"), "must be 'RollingUpdate' or 'OnDelete'")
        ]
    return non_negative_errors(rolling or {}, path / "rollingUpdate", ("partition",))


def _with_claims(spec: Object) -> Object:
    """The template as Pods will have it: each claim is a volume; host names are the set's to give."""
    template: Object = spec.get("template") or {}
    pod: Object = {
        key: value for key, value in get_object(template, "spec").items() if key not in ("subdomain", "hostname")
    }
    names = [get_object(claim, "metadata").get("name") or "" for claim in get_list(spec, "volumeClaimTemplates")]
    if names:
        own = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
        pod["volumes"] = own + [item for item in get_list(pod, "volumes") if item.get("name") not in names]
    return {**template, "spec": pod}


def _drop_disabled(obj: Object, old: Object | None) -> None:
    """Remove `maxUnavailable`, a disabled feature, unless the stored object has it."""
    rolling = dig(obj, "spec", "updateStrategy", "rollingUpdate", default={})
    if old is None or dig(old, "spec", "updateStrategy", "rollingUpdate", "maxUnavailable") is None:
        rolling.pop("maxUnavailable", None)


def _owner(owner: Object | None) -> str:
    if owner is None:
        return NONE
    group = str(owner.get("apiVersion") or "").rpartition("/")[0]
    kind = str(owner.get("kind") or "").lower()
    return f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"
