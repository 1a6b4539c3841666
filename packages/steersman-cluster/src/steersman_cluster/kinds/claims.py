"""PersistentVolumeClaim: defaults, validation, and the few fields that may change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from steersman_cluster.errors import FieldError, field_forbidden, field_invalid, not_supported, required
from steersman_cluster.json_access import get_list, get_object, get_string
from steersman_cluster.kinds import columns, diffs
from steersman_cluster.kinds import meta as metadata
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.plain import Plain
from steersman_cluster.objects import Object, Path, annotations_of, dig, meta
from steersman_cluster.strategy import Column, WriteContext

__all__ = ["PersistentVolumeClaim", "claim_spec_errors", "mode_errors", "short_modes"]

_SPEC = Path("spec")
_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_SHORT = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_FIXED_TEXT = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


def mode_errors(modes: Sequence[str], path: Path = _SPEC) -> list[FieldError]:
    """Access modes of volumes and claims."""
    at = path / "accessModes"
    found = [not_supported(at, mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and any(mode in _MODES[:3] for mode in modes):
        found.append(field_forbidden(at, "may not use ReadWriteOncePod with other access modes"))
    return found


def short_modes(modes: Sequence[str]) -> str:
    """`RWO,ROX`, each once, in kubectl's order."""
    return ",".join(short for mode, short in _SHORT.items() if mode in modes)


def claim_spec_errors(spec: Object, path: Path) -> list[FieldError]:
    """Return the errors of a claim's spec, which also occurs in templates (StatefulSets, ephemeral volumes)."""
    modes = get_list(spec, "accessModes")
    found = [] if modes else [required(path / "accessModes", "at least 1 access mode is required")]
    found += check.label_selector(path / "selector", spec.get("selector"))
    found += mode_errors(modes, path)
    at = (path / "resources").key("storage")
    size = dig(spec, "resources", "requests", "storage")
    if size is None:
        found.append(required(at))
    elif (amount := check.amount(size)) is not None and amount <= 0:
        found.append(field_invalid(at, str(amount), "must be greater than zero"))
    if storage_class := get_string(spec, "storageClassName"):
        found += check.dns_subdomain(path / "storageClassName", storage_class)
    if (mode := spec.get("volumeMode")) is not None:
        found += check.enum(path / "volumeMode", mode, ("Block", "Filesystem"))
    for field in ("dataSource", "dataSourceRef"):
        if spec.get(field) is not None:
            found += _data_source(path / field, spec[field])
    if attributes := get_string(spec, "volumeAttributesClassName"):
        found += check.dns_subdomain(path / "volumeAttributesClassName", attributes)
    return found


def _data_source(path: Path, source: Object) -> list[FieldError]:
    kind, group = get_string(source, "kind"), get_string(source, "apiGroup")
    found = [required(path / field) for field in ("name", "kind") if not source.get(field)]
    if not group and kind != "PersistentVolumeClaim":
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        found.append(field_invalid(path, kind, text))
    return found + (check.dns_subdomain(path / "apiGroup", group) if group else [])


class PersistentVolumeClaim(Plain):
    """The rules of PersistentVolumeClaim objects."""

    has_status = True
    columns = (
        columns.NAME,
        Column("Status", description="The phase."),
        Column("Volume", description="The volume it is bound to."),
        Column("Capacity", description="How much the volume holds."),
        Column("Access Modes", description="How it may be mounted."),
        Column("StorageClass", description="Its class."),
        Column("VolumeAttributesClass", description="Its attributes' class."),
        columns.AGE,
        Column("VolumeMode", description="Filesystem or Block.", priority=1),
    )
    selectable = ("name",)

    def fields(self, obj: Object) -> Mapping[str, str]:
        return {"name": columns.name(obj)}

    def row(self, obj: Object, now: float) -> list[Any]:
        spec, status = get_object(obj, "spec"), get_object(obj, "status")
        volume = get_string(spec, "volumeName")
        gone = meta(obj).get("deletionTimestamp") is not None
        return [
            columns.name(obj),
            "Terminating" if gone else get_string(status, "phase"),
            volume,
            (get_object(status, "capacity").get("storage") or "0") if volume else "",
            short_modes(get_list(status, "accessModes")) if volume else "",
            annotations_of(obj).get(_BETA_CLASS) or get_string(spec, "storageClassName"),
            spec.get("volumeAttributesClassName") or columns.UNSET,
            columns.age(obj, now),
            spec.get("volumeMode") or columns.UNSET,
        ]

    def default(self, obj: Object) -> None:
        status = obj.setdefault("status", {})
        status["phase"] = get_string(status, "phase") or "Pending"
        obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        obj["status"] = {"phase": "Pending"}
        _align_sources(obj["spec"], None)

    def prepare_update(self, obj: Object, old: Object, ctx: WriteContext) -> None:
        super().prepare_update(obj, old, ctx)
        if not ctx.subresource:
            _align_sources(obj["spec"], get_object(old, "spec"))

    def errors(self, obj: Object) -> list[FieldError]:
        return claim_spec_errors(get_object(obj, "spec"), _SPEC)

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        again = metadata.repeated_update(obj, old)
        if ctx.subresource:
            return again
        whole = metadata.repeated_create(obj, old, self.name_rule, namespaced=True) + self.errors(obj)
        return again + whole + self.changes(obj, old)

    def changes(self, obj: Object, old: Object) -> list[FieldError]:
        spec, before = get_object(obj, "spec"), get_object(old, "spec")
        found = _annotation_change(obj, old)
        if (text := _spec_change(obj, spec, before)) is not None:
            found.append(field_forbidden(_SPEC, text))
        size, was, has = (
            check.amount(dig(value, *names, default="0"))
            for value, names in (
                (spec, ("resources", "requests", "storage")),
                (before, ("resources", "requests", "storage")),
                (old, ("status", "capacity", "storage")),
            )
        )
        if size is not None and was is not None and has is not None and size < was and size <= has:
            at = _SPEC / "resources" / "requests" / "storage"
            found.append(field_forbidden(at, "field can not be less than status.capacity"))
        return found + check.immutable("volumeMode", spec.get("volumeMode"), before.get("volumeMode"))


def _align_sources(spec: Object, before: Object | None) -> None:
    """Copy between `dataSource` and `dataSourceRef`; drop sources that the old field does not support."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if before and (before.get("dataSource") or before.get("dataSourceRef")):
        return
    if source is not None and reference is None:
        kind, group = get_string(source, "kind"), get_string(source, "apiGroup")
        if (kind, group) not in {("PersistentVolumeClaim", ""), ("VolumeSnapshot", "snapshot.storage.k8s.io")}:
            del spec["dataSource"]
        elif before is None:
            spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and before is None and not reference.get("namespace"):
        spec["dataSource"] = {field: value for field, value in reference.items() if field != "namespace"}


def _annotation_change(obj: Object, old: Object) -> list[FieldError]:
    new, was = annotations_of(obj).get(_BETA_CLASS, ""), annotations_of(old).get(_BETA_CLASS, "")
    upgraded = was and dig(old, "spec", "storageClassName") is None and dig(obj, "spec", "storageClassName") == was
    if new == was or (upgraded and not new):
        return []
    return [field_invalid(Path("metadata.annotations") / _BETA_CLASS, new, check.IMMUTABLE)]


def _spec_change(obj: Object, spec: Object, before: Object) -> str | None:
    """The refusal of a changed spec, with the differences; `None` where all that changed may change."""
    new, old = dict(spec), dict(before)
    if not old.get("volumeName") and new.get("volumeName"):
        old["volumeName"] = new["volumeName"]
    if old.get("storageClassName") is None and new.get("storageClassName") is not None:
        # A class may be given later to a claim that had none, by a default class that came later.
        new.pop("storageClassName")
        if annotations_of(obj).get(_BETA_CLASS):
            new["storageClassName"] = spec["storageClassName"]
    if dig(obj, "status", "phase") == "Bound" and dig(new, "resources", "requests") is not None:
        size = dig(old, "resources", "requests", "storage")
        requests = {**new["resources"]["requests"], "storage": size}
        new["resources"] = {**new["resources"], "requests": requests}
        for kept in (new, old):
            kept.pop("volumeAttributesClassName", None)
    if new == old:
        return None
    return f"{_FIXED_TEXT}\n{diffs.unified(_internal(old), _internal(new))}"


def _internal(spec: Object) -> Object:
    """Return a claim's spec in the API server's internal form, for the difference that a refusal shows."""
    resources = get_object(spec, "resources")
    return {
        "AccessModes": spec.get("accessModes"),
        "Selector": spec.get("selector"),
        "Resources": {"Limits": resources.get("limits"), "Requests": resources.get("requests")},
        "VolumeName": get_string(spec, "volumeName"),
        "StorageClassName": spec.get("storageClassName"),
        "VolumeMode": spec.get("volumeMode"),
        "DataSource": _internal_source(spec.get("dataSource"), ("APIGroup", "Kind", "Name")),
        "DataSourceRef": _internal_source(spec.get("dataSourceRef"), ("APIGroup", "Kind", "Name", "Namespace")),
        "VolumeAttributesClassName": spec.get("volumeAttributesClassName"),
    }


def _internal_source(source: Object | None, names: Sequence[str]) -> Object | None:
    if source is None:
        return None
    return {name: source.get("apiGroup" if name == "APIGroup" else name.lower()) for name in names}
