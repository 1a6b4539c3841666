"""Devices: classes, claims and what nodes offer. They can be written and read; nothing allocates."""

from __future__ import annotations

from typing import Any

from steersman_cluster.errors import FieldError
from steersman_cluster.json_access import get_list, get_object, get_string
from steersman_cluster.kinds import columns
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.plain import Plain
from steersman_cluster.objects import Object, Path, meta
from steersman_cluster.strategy import Column, WriteContext

__all__ = ["STRATEGIES", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"]


def _default_requests(spec: Object) -> None:
    devices = spec.setdefault("devices", {})
    devices.setdefault("requests", None)
    for request in get_list(devices, "requests"):
        subrequests = get_list(request, "firstAvailable")
        for asked in (request.get("exactly"), *subrequests):
            if asked is None:
                continue
            mode = asked["allocationMode"] = get_string(asked, "allocationMode") or "ExactCount"
            if mode == "ExactCount" and not asked.get("count"):
                asked["count"] = 1


class DeviceClass(Plain):
    """The rules of DeviceClass objects."""

    namespaced = False
    generation = True
    columns = (columns.NAME, columns.AGE)

    def row(self, obj: Object, now: float) -> list[Any]:
        return [columns.name(obj), columns.age(obj, now)]

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})


class ResourceClaim(Plain):
    """The rules of ResourceClaim objects."""

    has_status = True
    columns = (columns.NAME, Column("State", description="Whether it is allocated and used."), columns.AGE)

    def row(self, obj: Object, now: float) -> list[Any]:
        status = get_object(obj, "status")
        states = ["deleted"] if meta(obj).get("deletionTimestamp") else []
        allocated = status.get("allocation") is not None
        states.append("allocated" if allocated else "pending")
        if status.get("reservedFor"):
            states.append("reserved")
        return [columns.name(obj), ",".join(states), columns.age(obj, now)]

    def default(self, obj: Object) -> None:
        _default_requests(obj.setdefault("spec", {}))

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        obj["status"] = {}

    def changes(self, obj: Object, old: Object) -> list[FieldError]:
        return check.immutable(Path("spec"), obj.get("spec"), old.get("spec"))


class ResourceClaimTemplate(Plain):
    """The rules of ResourceClaimTemplate objects."""

    columns = (columns.NAME, columns.AGE)

    def row(self, obj: Object, now: float) -> list[Any]:
        return [columns.name(obj), columns.age(obj, now)]

    def default(self, obj: Object) -> None:
        _default_requests(obj.setdefault("spec", {}).setdefault("spec", {}))

    def changes(self, obj: Object, old: Object) -> list[FieldError]:
        return check.immutable(Path("spec"), obj.get("spec"), old.get("spec"))


class ResourceSlice(Plain):
    """The rules of ResourceSlice objects."""

    namespaced = False
    generation = True
    columns = (
        columns.NAME,
        Column("Node", description="Where the devices are."),
        Column("Driver", description="The driver of the devices."),
        Column("Pool", description="Which pool they belong to."),
        columns.AGE,
    )

    def row(self, obj: Object, now: float) -> list[Any]:
        spec = get_object(obj, "spec")
        node = "<all>" if spec.get("allNodes") else get_string(spec, "nodeName")
        pool = get_string(get_object(spec, "pool"), "name")
        return [columns.name(obj), node, get_string(spec, "driver"), pool, columns.age(obj, now)]


_GROUP = "resource.k8s.io"

STRATEGIES = {
    (_GROUP, "v1", "DeviceClass"): DeviceClass(),
    (_GROUP, "v1", "ResourceClaim"): ResourceClaim(),
    (_GROUP, "v1", "ResourceClaimTemplate"): ResourceClaimTemplate(),
    (_GROUP, "v1", "ResourceSlice"): ResourceSlice(),
}
