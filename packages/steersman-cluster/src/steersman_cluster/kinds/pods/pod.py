"""Pods: defaults, fields set on creation, mutable fields by subresource, deletion, columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from steersman_cluster.errors import FieldError
from steersman_cluster.json_access import get_list, get_object
from steersman_cluster.kinds.plain import Plain
from steersman_cluster.kinds.pods.columns import POD_COLUMNS, pod_row
from steersman_cluster.kinds.pods.defaults import default_pod, drop_disabled
from steersman_cluster.kinds.pods.qos import qos_class
from steersman_cluster.kinds.pods.security_profiles import apparmor_warnings, set_apparmor_fields
from steersman_cluster.kinds.pods.validation import (
    create_errors,
    ephemeral_change_errors,
    resize_errors,
    status_errors,
    update_errors,
)
from steersman_cluster.kinds.pods.warnings import name_warnings, seccomp_warnings, spec_warnings
from steersman_cluster.objects import Object, Path, dig, meta
from steersman_cluster.strategy import Column, WriteContext

__all__ = ["Pod"]

_SPEC = Path("spec")
_KEPT_METADATA = (
    "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "labels", "annotations", "finalizers",
    "ownerReferences",
)  # fmt: skip
_SUBRESOURCE_RULES = {"status": status_errors, "ephemeralcontainers": ephemeral_change_errors, "resize": resize_errors}
_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


class Pod(Plain):
    """v1 Pod. Endpoints: the Pod, `status`, `binding`, `ephemeralcontainers`, `resize`."""

    has_status = True
    generation = True
    graceful = True
    revalidated = False
    columns: tuple[Column, ...] = POD_COLUMNS
    selectable = (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    )

    def default(self, obj: Object) -> None:
        default_pod(obj)

    def early_warnings(self, obj: Object) -> Iterable[str]:
        """Return warnings that precede those of other checks."""
        return apparmor_warnings(obj)

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        spec: Object = obj.setdefault("spec", {})
        drop_disabled(spec)
        status: Object = {"phase": "Pending", "qosClass": qos_class(spec)}
        if spec.get("schedulingGates"):
            status["conditions"] = [{**_GATED, "lastProbeTime": None, "lastTransitionTime": ctx.now}]
        obj["status"] = status
        meta(obj)["generation"] = 1
        _select_by_own_labels(spec, meta(obj).get("labels") or {})
        set_apparmor_fields(obj)

    def prepare_update(self, obj: Object, old: Object, ctx: WriteContext) -> None:
        subresource = ctx.subresource
        if subresource == "binding":
            return
        if subresource == "status":
            _prepare_status(obj, old)
            return
        if subresource == "ephemeralcontainers":
            added = dig(obj, "spec", "ephemeralContainers")
            obj["spec"] = dict(get_object(old, "spec"))
            obj["spec"].pop("ephemeralContainers", None)
            if added:
                obj["spec"]["ephemeralContainers"] = added
            _keep_metadata(obj, old)
        elif subresource == "resize":
            _keep_all_but_resources(obj, old)
        drop_disabled(obj["spec"])
        obj["status"] = old.get("status") or {}
        count = meta(old).get("generation") or 0
        meta(obj)["generation"] = count + (obj.get("spec") != old.get("spec"))
        if not meta(obj)["generation"]:
            del meta(obj)["generation"]

    def validate_create(self, obj: Object, ctx: WriteContext) -> list[FieldError]:
        return create_errors(obj)

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        if ctx.subresource == "binding":
            return []
        return _SUBRESOURCE_RULES.get(ctx.subresource, update_errors)(obj, old)

    def warnings(self, obj: Object, old: Object | None, ctx: WriteContext) -> Sequence[str]:
        if old is not None or ctx.subresource:
            return ()
        found = list(name_warnings(obj, "the Pod's hostname"))
        spec = get_object(obj, "spec")
        found += [*seccomp_warnings(Path("metadata"), obj, spec), *spec_warnings(_SPEC, spec)]
        return found

    def fields(self, obj: Object) -> Mapping[str, str]:
        spec: Object = obj.get("spec") or {}
        status: Object = obj.get("status") or {}
        addresses: Sequence[Object] = get_list(status, "podIPs")
        address = (addresses[0].get("ip") or "") if addresses else ""
        return {
            "spec.nodeName": spec.get("nodeName") or "",
            "spec.restartPolicy": spec.get("restartPolicy") or "",
            "spec.schedulerName": spec.get("schedulerName") or "",
            "spec.serviceAccountName": spec.get("serviceAccountName") or "",
            "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
            "status.phase": status.get("phase") or "",
            "status.podIP": address,
            "status.podIPs": address,
            "status.nominatedNodeName": status.get("nominatedNodeName") or "",
        }

    def grace(self, obj: Object, asked: int | None) -> int:
        """Return the grace period of the client or of the Pod; none if no kubelet has to stop it."""
        period = dig(obj, "spec", "terminationGracePeriodSeconds", default=0) if asked is None else asked
        if not dig(obj, "spec", "nodeName") or dig(obj, "status", "phase") in ("Failed", "Succeeded"):
            return 0
        return 1 if period < 0 else period

    def row(self, obj: Object, now: float) -> list[Any]:
        return pod_row(obj, now)


def _prepare_status(obj: Object, old: Object) -> None:
    """A status write changes neither the spec nor owners, and loses no observed generation."""
    obj["spec"] = old.get("spec") or {}
    status: Object = obj.get("status") or {}
    before: Object = old.get("status") or {}
    obj["status"] = status
    for name in ("deletionTimestamp", "ownerReferences", "generation"):
        if name in meta(old):
            meta(obj)[name] = meta(old)[name]
        else:
            meta(obj).pop(name, None)
    for name in ("qosClass", "observedGeneration"):
        if not status.get(name) and before.get(name):
            status[name] = before[name]
    seen: dict[str, list[int]] = {}
    for condition in get_list(before, "conditions"):
        seen.setdefault(condition.get("type") or "", []).append(condition.get("observedGeneration") or 0)
    for condition in get_list(status, "conditions"):
        generations = seen.get(condition.get("type") or "")
        generation = generations.pop(0) if generations else 0
        if not condition.get("observedGeneration") and generation:
            condition["observedGeneration"] = generation


def _keep_metadata(obj: Object, old: Object) -> None:
    for name in _KEPT_METADATA:
        if name in meta(old):
            meta(obj)[name] = meta(old)[name]
        else:
            meta(obj).pop(name, None)


def _keep_all_but_resources(obj: Object, old: Object) -> None:
    """The old Pod with the new resources; where containers were added or renamed, all is left for validation."""
    new, before = obj["spec"], old["spec"]
    for field in ("containers", "initContainers"):
        if len(new.get(field) or ()) != len(before.get(field) or ()):
            return
    kept = dict(before)
    for field in ("containers", "initContainers"):
        if new.get(field):
            kept[field] = _resized(new[field], before[field])
    kept.pop("resources", None)
    if "resources" in new:
        kept["resources"] = new["resources"]
    obj["spec"] = kept
    _keep_metadata(obj, old)


def _resized(new: list[Object], old: list[Object]) -> list[Object]:
    merged: list[Object] = []
    for after, before in zip(new, old, strict=True):
        if after.get("name") != before.get("name"):
            return new
        container = {key: value for key, value in before.items() if key not in ("resources", "resizePolicy")}
        for name in ("resources", "resizePolicy"):
            if name in after:
                container[name] = after[name]
        merged.append(container)
    return merged


def _select_by_own_labels(spec: Object, labels: Mapping[str, str]) -> None:
    """`matchLabelKeys` become requirements of the selector, with the values that the Pod has."""
    affinity: Object = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        for term in _terms(affinity.get(kind) or {}):
            if (selector := term.get("labelSelector")) is not None:
                _require(selector, get_list(term, "matchLabelKeys"), "In", labels)
                _require(selector, get_list(term, "mismatchLabelKeys"), "NotIn", labels)
    for constraint in get_list(spec, "topologySpreadConstraints"):
        if (selector := constraint.get("labelSelector")) is not None:
            _require(selector, get_list(constraint, "matchLabelKeys"), "In", labels)


def _terms(affinity: Object) -> Iterable[Object]:
    for weighted in get_list(affinity, "preferredDuringSchedulingIgnoredDuringExecution"):
        yield weighted.get("podAffinityTerm") or {}
    yield from get_list(affinity, "requiredDuringSchedulingIgnoredDuringExecution")


def _require(selector: Object, keys: Iterable[str], operator: str, labels: Mapping[str, str]) -> None:
    for key in keys:
        if key in labels:
            expressions: list[Object] = selector.setdefault("matchExpressions", [])
            expressions.append({"key": key, "operator": operator, "values": [labels[key]]})
