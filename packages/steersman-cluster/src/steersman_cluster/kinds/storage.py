"""PersistentVolumes, storage classes, and the objects of CSI drivers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from steersman_cluster.errors import FieldError, field_forbidden, field_invalid, not_supported, required
from steersman_cluster.json_access import get_list, get_object, get_string
from steersman_cluster.kinds import columns
from steersman_cluster.kinds import meta as metadata
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.claims import PersistentVolumeClaim, mode_errors, short_modes
from steersman_cluster.kinds.plain import Plain
from steersman_cluster.objects import Object, Path, annotations_of, dig, meta
from steersman_cluster.strategy import Column, WriteContext

__all__ = ["STRATEGIES", "PersistentVolume", "StorageClass"]

_SPEC = Path("spec")
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_SOURCES = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte",
    "cephfs", "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk",
    "portworxVolume", "azureDisk", "scaleIO", "local", "storageos", "csi",
)  # fmt: skip
_PARAMETERS_SIZE, _PARAMETERS_COUNT = 262144, 512


class PersistentVolume(Plain):
    """The rules of PersistentVolume objects."""

    namespaced = False
    has_status = True
    revalidated_first = True
    columns = (
        columns.NAME,
        Column("Capacity", description="How much it holds."),
        Column("Access Modes", description="How it may be mounted."),
        Column("Reclaim Policy", description="What becomes of it when released."),
        Column("Status", description="The phase."),
        Column("Claim", description="Which claim has it."),
        Column("StorageClass", description="Its class."),
        Column("VolumeAttributesClass", description="Its attributes' class."),
        Column("Reason", description="Why it is in that phase."),
        columns.AGE,
        Column("VolumeMode", description="Filesystem or Block.", priority=1),
    )
    selectable = ("name",)

    def fields(self, obj: Object) -> Mapping[str, str]:
        return {"name": columns.name(obj)}

    def row(self, obj: Object, now: float) -> list[Any]:
        spec, status = get_object(obj, "spec"), get_object(obj, "status")
        claim = spec.get("claimRef")
        gone = meta(obj).get("deletionTimestamp") is not None
        return [
            columns.name(obj),
            get_object(spec, "capacity").get("storage") or "0",
            short_modes(get_list(spec, "accessModes")),
            get_string(spec, "persistentVolumeReclaimPolicy"),
            "Terminating" if gone else get_string(status, "phase"),
            f"{get_string(claim, 'namespace')}/{get_string(claim, 'name')}" if claim else "",
            get_string(spec, "storageClassName"),
            spec.get("volumeAttributesClassName") or columns.UNSET,
            get_string(status, "reason"),
            columns.age(obj, now),
            spec.get("volumeMode") or columns.UNSET,
        ]

    def default(self, obj: Object) -> None:
        spec, status = obj.setdefault("spec", {}), obj.setdefault("status", {})
        status["phase"] = get_string(status, "phase") or "Pending"
        spec["persistentVolumeReclaimPolicy"] = get_string(spec, "persistentVolumeReclaimPolicy") or "Retain"
        spec.setdefault("volumeMode", "Filesystem")
        if (host := spec.get("hostPath")) is not None:
            host.setdefault("type", "")

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": ctx.now}

    def prepare_update(self, obj: Object, old: Object, ctx: WriteContext) -> None:
        super().prepare_update(obj, old, ctx)
        if ctx.subresource == "status":
            status, before = get_object(obj, "status"), get_object(old, "status")
            same_time = status.get("lastPhaseTransitionTime") == before.get("lastPhaseTransitionTime")
            if get_string(status, "phase") != get_string(before, "phase") and same_time:
                status["lastPhaseTransitionTime"] = ctx.now

    def errors(self, obj: Object) -> list[FieldError]:
        spec = get_object(obj, "spec")
        modes, policy = get_list(spec, "accessModes"), get_string(spec, "persistentVolumeReclaimPolicy")
        found = mode_errors(modes) if modes else [required(_SPEC / "accessModes")]
        found += _capacity(get_object(spec, "capacity"))
        found += check.enum(_SPEC / "persistentVolumeReclaimPolicy", policy, ("Delete", "Recycle", "Retain"))
        found += _sources(spec)
        if storage_class := get_string(spec, "storageClassName"):
            found += check.dns_subdomain(_SPEC / "storageClassName", storage_class)
        if (mode := spec.get("volumeMode")) is not None:
            found += check.enum(_SPEC / "volumeMode", mode, ("Block", "Filesystem"))
        return found

    def changes(self, obj: Object, old: Object) -> list[FieldError]:
        spec, before = get_object(obj, "spec"), get_object(old, "spec")
        found: list[FieldError] = []
        changed = [source for source in _SOURCES if spec.get(source) != before.get(source)]
        if changed and not _only_adds_expand_secret(spec, before, changed):
            text = "spec.persistentvolumesource is immutable after creation"
            found.append(field_forbidden("spec.persistentvolumesource", text))
        return found + check.immutable("volumeMode", spec.get("volumeMode"), before.get("volumeMode"))


def _only_adds_expand_secret(spec: Object, before: Object, changed: Sequence[str]) -> bool:
    new, old = get_object(spec, "csi"), get_object(before, "csi")
    key = "controllerExpandSecretRef"
    return changed == ["csi"] and key not in old and {**new, key: None} == {**old, key: None}


def _capacity(capacity: Object) -> list[FieldError]:
    path = _SPEC / "capacity"
    found = [] if capacity else [required(path)]
    if list(capacity) != ["storage"]:
        found.append(not_supported(path, capacity or None, ("storage",)))
    for name, value in capacity.items():
        amount = check.amount(value)
        if amount is not None and amount <= 0:
            found.append(field_invalid(path.key(name), str(amount), "must be greater than zero"))
    return found


def _sources(spec: Object) -> list[FieldError]:
    given = [source for source in _SOURCES if spec.get(source) is not None]
    if not given:
        return [required(_SPEC, "must specify a volume type")]
    found = _source(given[0], spec[given[0]])
    if given[0] == "local" and not spec.get("nodeAffinity"):
        found.append(required(_SPEC / "nodeAffinity", "Local volume requires node affinity"))
    many = "may not specify more than 1 volume type"
    return found + [field_forbidden(_SPEC / source, many) for source in given[1:]]


_NEEDED = {
    "hostPath": ("path",),
    "nfs": ("server", "path"),
    "local": ("path",),
    "csi": ("driver", "volumeHandle"),
    "iscsi": ("targetPortal", "iqn"),
}


def _source(kind: str, source: Object) -> list[FieldError]:
    path = _SPEC / kind
    found = [required(path / field) for field in _NEEDED.get(kind, ()) if not source.get(field)]
    if kind == "csi" and (driver := get_string(source, "driver")):
        found += _driver_name(path / "driver", driver)
    if kind in ("hostPath", "local") and ".." in get_string(source, "path").split("/"):
        found.append(field_invalid(path / "path", source["path"], "must not contain '..'"))
    return found


def _driver_name(path: Path, name: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    found = [check.too_long(path, 63)] if len(name) > 63 else []
    return found + [field_invalid(path, name, error.detail) for error in check.dns_subdomain(path, name.lower())]


class StorageClass(Plain):
    """The rules of StorageClass objects."""

    namespaced = False
    revalidated = False
    columns = (
        columns.NAME,
        Column("Provisioner", description="The provisioner of volumes."),
        Column("ReclaimPolicy", description="What becomes of released volumes."),
        Column("VolumeBindingMode", description="When volumes are bound."),
        Column("AllowVolumeExpansion", description="Whether claims may grow."),
        columns.AGE,
    )

    def row(self, obj: Object, now: float) -> list[Any]:
        default = " (default)" if annotations_of(obj).get(_DEFAULT_CLASS) == "true" else ""
        return [
            columns.name(obj) + default,
            get_string(obj, "provisioner"),
            obj.get("reclaimPolicy") or "Delete",
            obj.get("volumeBindingMode") or "Immediate",
            obj.get("allowVolumeExpansion") is True,
            columns.age(obj, now),
        ]

    def default(self, obj: Object) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        return metadata.repeated_update(obj, old) + self.changes(obj, old)

    def errors(self, obj: Object) -> list[FieldError]:
        provisioner = get_string(obj, "provisioner")
        found = [] if provisioner else [required("provisioner")]
        if provisioner:
            found += check.qualified_name("provisioner", provisioner.lower())
        found += _parameters(get_object(obj, "parameters"))
        if policy := get_string(obj, "reclaimPolicy"):
            found += check.enum("reclaimPolicy", policy, ("Delete", "Retain"))
        mode = get_string(obj, "volumeBindingMode")
        return found + check.enum("volumeBindingMode", mode, ("Immediate", "WaitForFirstConsumer"))

    def changes(self, obj: Object, old: Object) -> list[FieldError]:
        fields = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
        return [error for field in fields for error in check.immutable(field, obj.get(field), old.get(field))]


def _parameters(parameters: Mapping[str, str]) -> list[FieldError]:
    if len(parameters) > _PARAMETERS_COUNT:
        return [check.too_long("parameters", _PARAMETERS_COUNT)]
    found = [field_invalid("parameters", key, "field can not be empty.") for key in parameters if not key]
    if sum(len(key) + len(value) for key, value in parameters.items()) > _PARAMETERS_SIZE:
        found.append(check.too_long("parameters", _PARAMETERS_SIZE))
    return found


class CSIDriver(Plain):
    unconditional_update = False

    namespaced = False
    columns = (
        columns.NAME,
        Column("AttachRequired", "boolean", description="Whether volumes are attached to nodes."),
        Column("PodInfoOnMount", "boolean", description="Whether mounts receive information about Pods."),
        Column("StorageCapacity", "boolean", description="Whether capacity is published."),
        Column("TokenRequests", description="Audiences of tokens."),
        Column("RequiresRepublish", "boolean", description="Whether mounts are repeated."),
        Column("Modes", description="Persistent or ephemeral."),
        columns.AGE,
    )
    revalidated_first = True
    generation = True

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        # The generation of a driver is not set on creation, only counted on changes.
        return

    def row(self, obj: Object, now: float) -> list[Any]:
        spec = get_object(obj, "spec")
        audiences = [get_string(request, "audience") for request in get_list(spec, "tokenRequests")]
        return [
            columns.name(obj),
            spec.get("attachRequired", True),
            spec.get("podInfoOnMount", False),
            spec.get("storageCapacity", False),
            ",".join(audiences) or columns.UNSET,
            spec.get("requiresRepublish", False),
            columns.join(get_list(spec, "volumeLifecycleModes")),
            columns.age(obj, now),
        ]

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("attachRequired", True)
        for field in ("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"):
            spec.setdefault(field, False)
        spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
        if not spec.get("volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]

    def errors(self, obj: Object) -> list[FieldError]:
        spec = get_object(obj, "spec")
        found = _driver_name(Path("metadata.name"), columns.name(obj))
        policy = get_string(spec, "fsGroupPolicy")
        policies = ("File", "None", "ReadWriteOnceWithFSType")
        found += check.enum(_SPEC / "fsGroupPolicy", policy, policies)
        for mode in get_list(spec, "volumeLifecycleModes"):
            found += check.enum(_SPEC / "volumeLifecycleModes", mode, ("Persistent", "Ephemeral"))
        return found

    def changes(self, obj: Object, old: Object) -> list[FieldError]:
        path, spec, before = _SPEC, get_object(obj, "spec"), get_object(old, "spec")
        return check.immutable(path / "attachedRequired", spec.get("attachRequired"), before.get("attachRequired"))


class CSINode(Plain):
    unconditional_update = False

    namespaced = False
    columns = (columns.NAME, Column("Drivers", "integer", description="How many drivers there are."), columns.AGE)

    def row(self, obj: Object, now: float) -> list[Any]:
        return [columns.name(obj), len(get_list(get_object(obj, "spec"), "drivers")), columns.age(obj, now)]

    def errors(self, obj: Object) -> list[FieldError]:
        found: list[FieldError] = []
        for index, driver in enumerate(get_list(get_object(obj, "spec"), "drivers")):
            path = (_SPEC / "drivers").at(index)
            found += _driver_name(path / "name", get_string(driver, "name"))
            if not driver.get("nodeID"):
                found.append(required(path / "nodeID"))
        return found


class VolumeAttachment(Plain):
    unconditional_update = False

    namespaced = False
    has_status = True
    columns = (
        columns.NAME,
        Column("Attacher", format="name", description="The driver that attaches the volume."),
        Column("PV", description="The attached volume."),
        Column("Node", description="Where."),
        Column("Attached", "boolean", description="Whether it is."),
        columns.AGE,
    )

    def row(self, obj: Object, now: float) -> list[Any]:
        spec = get_object(obj, "spec")
        volume = dig(spec, "source", "persistentVolumeName", default="")
        attached = dig(obj, "status", "attached", default=False)
        return [
            columns.name(obj), get_string(spec, "attacher"), volume, get_string(spec, "nodeName"), attached,
            columns.age(obj, now),
        ]  # fmt: skip

    def default(self, obj: Object) -> None:
        obj.setdefault("status", {}).setdefault("attached", False)

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        obj["status"] = {"attached": False}

    def errors(self, obj: Object) -> list[FieldError]:
        spec = get_object(obj, "spec")
        source, path = get_object(spec, "source"), _SPEC / "source"
        found = _driver_name(_SPEC / "attacher", get_string(spec, "attacher"))
        given = [field for field in ("inlineVolumeSpec", "persistentVolumeName") if source.get(field) is not None]
        text = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        if not given:
            found.append(required(path, text))
        elif len(given) > 1:
            found.append(field_forbidden(path, text))
        return found + check.dns_subdomain(_SPEC / "nodeName", get_string(spec, "nodeName"))

    def changes(self, obj: Object, old: Object) -> list[FieldError]:
        return check.immutable(_SPEC, obj.get("spec"), old.get("spec"))


class CSIStorageCapacity(Plain):
    unconditional_update = False

    def errors(self, obj: Object) -> list[FieldError]:
        found = check.dns_subdomain("storageClassName", get_string(obj, "storageClassName"))
        for field in ("capacity", "maximumVolumeSize"):
            if obj.get(field) is not None:
                found += check.quantity(field, obj[field])
        return found + check.label_selector(Path("nodeTopology"), obj.get("nodeTopology"))

    def changes(self, obj: Object, old: Object) -> list[FieldError]:
        fields = ("nodeTopology", "storageClassName")
        return [error for field in fields for error in check.immutable(field, obj.get(field), old.get(field))]


class VolumeAttributesClass(Plain):
    namespaced = False
    columns = (columns.NAME, Column("DriverName", description="The driver of the attributes."), columns.AGE)

    def row(self, obj: Object, now: float) -> list[Any]:
        return [columns.name(obj), get_string(obj, "driverName"), columns.age(obj, now)]

    def errors(self, obj: Object) -> list[FieldError]:
        found = _driver_name(Path("driverName"), get_string(obj, "driverName"))
        parameters = get_object(obj, "parameters")
        if not parameters:
            found.append(required("parameters", "must contain at least one key/value pair"))
        return found + _parameters(parameters)

    def changes(self, obj: Object, old: Object) -> list[FieldError]:
        fields = ("driverName", "parameters")
        return [error for field in fields for error in check.immutable(field, obj.get(field), old.get(field))]


_GROUP = "storage.k8s.io"

STRATEGIES = {
    ("", "v1", "PersistentVolume"): PersistentVolume(),
    ("", "v1", "PersistentVolumeClaim"): PersistentVolumeClaim(),
    (_GROUP, "v1", "StorageClass"): StorageClass(),
    (_GROUP, "v1", "CSIDriver"): CSIDriver(),
    (_GROUP, "v1", "CSINode"): CSINode(),
    (_GROUP, "v1", "VolumeAttachment"): VolumeAttachment(),
    (_GROUP, "v1", "CSIStorageCapacity"): CSIStorageCapacity(),
    (_GROUP, "v1", "VolumeAttributesClass"): VolumeAttributesClass(),
}
