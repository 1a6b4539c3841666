"""Validation of Pods: create, update, resize, ephemeral containers and status."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

from steersman_cluster.errors import FieldError, field_forbidden, field_invalid, required
from steersman_cluster.json_access import get_list, get_object
from steersman_cluster.kinds import meta as metadata
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.diffs import unified
from steersman_cluster.kinds.pods.qos import qos_class
from steersman_cluster.kinds.pods.scheduling import toleration_errors
from steersman_cluster.kinds.pods.security_profiles import profile_change_errors, profile_conflicts
from steersman_cluster.kinds.pods.spec import annotation_errors, spec_errors
from steersman_cluster.objects import Object, Path, dig, meta

__all__ = ["create_errors", "ephemeral_change_errors", "pod_errors", "resize_errors", "status_errors", "update_errors"]

_SPEC, _STATUS, _ANNOTATIONS = Path("spec"), Path("status"), Path("metadata.annotations")
_MAX_INT32 = 2147483647
_MIRROR = "kubernetes.io/config.mirror"
_MUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)
_SPACES = "must not have leading or trailing whitespace"


def create_errors(pod: Object) -> list[FieldError]:
    """A new Pod, beyond ObjectMeta."""
    found = pod_errors(pod)
    spec: Object = pod.get("spec") or {}
    if spec.get("ephemeralContainers"):
        found.append(field_forbidden(_SPEC / "ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        found.append(field_forbidden(_SPEC / "nodeName", text))
    return found + profile_conflicts(meta(pod).get("annotations") or {}, spec, _SPEC)


def pod_errors(pod: Object) -> list[FieldError]:
    """Any Pod: annotations, spec, and what only Pods and not templates must keep."""
    spec: Object = pod.get("spec") or {}
    found: list[FieldError] = []
    if annotations := meta(pod).get("annotations"):
        found += annotation_errors(annotations, spec, _ANNOTATIONS)
    spec_errors(found, spec, _SPEC, meta(pod).get("name") or "", is_pod=True)
    if not spec.get("serviceAccountName"):
        for index, volume in enumerate(get_list(spec, "volumes")):
            for number, source in enumerate(get_object(volume, "projected").get("sources") or ()):
                if source.get("serviceAccountToken") is not None:
                    at = ((_SPEC / "volumes").at(index) / "projected" / "sources").at(number)
                    text = "must not be specified when serviceAccountName is not set"
                    found.append(field_forbidden(at / "serviceAccountToken", text))
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            image = container.get("image") or ""
            if image.strip() != image:
                found.append(field_invalid((_SPEC / field).at(index) / "image", image, _SPACES))
    return found


def _changed(pod: Object, old: Object) -> list[FieldError]:
    """Return the errors that every change of a Pod's spec can have: metadata, then the Pod as a whole."""
    return [
        *metadata.repeated_update(pod, old),
        *metadata.repeated_create(pod, old, "subdomain", namespaced=True),
        *pod_errors(pod),
        *_annotation_changes(pod, old),
    ]


def _annotation_changes(pod: Object, old: Object) -> list[FieldError]:
    new: dict[str, str] = meta(pod).get("annotations") or {}
    before: dict[str, str] = meta(old).get("annotations") or {}
    found = profile_change_errors(new, before, _ANNOTATIONS)
    if _MIRROR in before and new.get(_MIRROR) != before[_MIRROR]:
        found.append(field_forbidden(_ANNOTATIONS.key(_MIRROR), "may not remove or update mirror pod annotation"))
    if _MIRROR in new and _MIRROR not in before:
        found.append(field_forbidden(_ANNOTATIONS.key(_MIRROR), "may not add mirror pod annotation"))
    return found + (annotation_errors(new, pod.get("spec") or {}, _ANNOTATIONS) if new else [])


def update_errors(pod: Object, old: Object) -> list[FieldError]:  # noqa: C901
    """A change of a Pod: nearly nothing of its spec may change."""
    if pod.get("spec") == old.get("spec") and meta(pod).get("annotations") == meta(old).get("annotations"):
        # The stored spec is valid; only metadata can have errors.
        return metadata.repeated_update(pod, old) + metadata.repeated_create(pod, old, "subdomain", namespaced=True)
    found = _changed(pod, old)
    spec, before = pod["spec"], old["spec"]
    for field in ("containers", "initContainers"):
        new: Sequence[Object] = spec.get(field) or ()
        if len(new) != len(before.get(field) or ()):
            return [*found, field_forbidden(_SPEC / field, "pod updates may not add or remove containers")]
        for index, container in enumerate(new):
            image = container.get("image") or ""
            if not image:
                found.append(required((_SPEC / field).at(index) / "image"))
            elif image.strip() != image:
                found.append(field_invalid((_SPEC / field).at(index) / "image", image, _SPACES))
    wrong, stop = _deadline(spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds"))
    found += wrong
    if stop:
        return found
    _tolerations(found, spec.get("tolerations") or [], before.get("tolerations") or [])
    known = {gate.get("name") for gate in get_list(before, "schedulingGates")}
    for index, gate in enumerate(get_list(spec, "schedulingGates")):
        if gate.get("name") not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            found.append(field_forbidden((_SPEC / "schedulingGates").at(index) / "name", text))
    rest = _without_mutable(spec, before)
    if rest != before:
        # The API server prints its internal types here; JSON shows the same fields.
        found.append(field_forbidden(_SPEC, _MUTABLE + unified(before, rest)))
    return found


def _deadline(new: int | None, old: int | None) -> tuple[list[FieldError], bool]:
    path = _SPEC / "activeDeadlineSeconds"
    if new is None:
        if old is None:
            return [], False
        return [field_invalid(path, None, "must not update from a positive integer to nil value")], False
    if not 0 <= new <= _MAX_INT32:
        return check.in_range(path, new, 0, _MAX_INT32), True
    if old is not None and old < new:
        return [field_invalid(path, new, "must be less than or equal to previous value")], True
    return [], False


def _tolerations(found: list[FieldError], new: list[Object], old: list[Object]) -> None:
    if new == old:
        return

    def timeless(item: Object) -> Object:
        return {key: value for key, value in item.items() if key != "tolerationSeconds"}

    left = [timeless(item) for item in new]
    if any(timeless(item) not in left for item in old):
        text = "existing toleration can not be modified except its tolerationSeconds"
        found.append(field_forbidden(_SPEC / "tolerations", text))
        return
    toleration_errors(found, new, _SPEC / "tolerations")


def _without_mutable(spec: Object, before: Object) -> Object:
    """Return the new spec with the mutable fields set to their old values."""
    rest = dict(spec)
    for field in ("containers", "initContainers"):
        if field in spec:
            rest[field] = [
                {**container, "image": old.get("image")}
                for container, old in zip(spec[field], before.get(field) or (), strict=True)
            ]
    fields = ["activeDeadlineSeconds", "schedulingGates", "tolerations"]
    if before.get("schedulingGates"):
        fields.append("nodeSelector")
    for field in fields:
        rest.pop(field, None)
        if field in before:
            rest[field] = before[field]
    return rest


def ephemeral_change_errors(pod: Object, old: Object) -> list[FieldError]:
    """Containers for debugging are added and never changed or taken away."""
    found = _changed(pod, old)
    if _MIRROR in (meta(old).get("annotations") or {}):
        return [field_forbidden("", "static pods do not support ephemeral containers")]
    new = {item.get("name"): item for item in dig(pod, "spec", "ephemeralContainers", default=())}
    for container in dig(old, "spec", "ephemeralContainers", default=()):
        name = container.get("name")
        if name not in new:
            text = f'existing ephemeral containers "{name}" may not be removed\n'
            found.append(field_forbidden(_SPEC / "ephemeralContainers", text))
        elif new[name] != container:
            text = f'existing ephemeral containers "{name}" may not be changed\n'
            found.append(field_forbidden(_SPEC / "ephemeralContainers", text + unified(container, new[name])))
    return found


def resize_errors(pod: Object, old: Object) -> list[FieldError]:
    """A resize changes cpu and memory of containers, and not the quality of service."""
    found = [
        *metadata.repeated_update(pod, old),
        *metadata.repeated_create(pod, old, "subdomain", namespaced=True),
        *pod_errors(pod),
    ]
    if _MIRROR in (meta(old).get("annotations") or {}):
        return [field_forbidden("", "static pods cannot be resized")]
    spec, before = pod["spec"], old["spec"]
    was = dig(old, "status", "qosClass") or qos_class(before)
    if qos_class(spec) != was:
        text = "Pod QOS Class may not change as a result of resizing"
        found.append(field_invalid(_SPEC, was, text))
    for field in ("containers", "initContainers"):
        new: list[Object] = spec.get(field) or []
        kept: list[Object] = before.get(field) or []
        if [item.get("name") for item in new] != [item.get("name") for item in kept]:
            text = "containers may not be renamed or reordered on resize"
            if len(new) != len(kept):
                text = "containers may not be added or removed on resize"
            return [*found, field_forbidden(_SPEC / field, text)]
        for index, (after, container) in enumerate(zip(new, kept, strict=True)):
            at = (_SPEC / field).at(index) / "resources"
            _resized(found, after.get("resources") or {}, container.get("resources") or {}, at)
    return found


def _resized(found: list[FieldError], new: Object, old: Object, path: Path) -> None:
    for kind in ("requests", "limits"):
        after: Object = new.get(kind) or {}
        before: Object = old.get(kind) or {}
        if any(name not in after for name in before if name in ("cpu", "memory")):
            found.append(field_forbidden(path / kind, f"resource {kind} cannot be removed"))
        if any(after.get(name) != before.get(name) for name in {*after, *before} - {"cpu", "memory"}):
            found.append(field_forbidden(_SPEC, "only cpu and memory resources are mutable"))


def status_errors(pod: Object, old: Object) -> list[FieldError]:
    """Return the errors of a status that a kubelet reports."""
    status: Object = pod.get("status") or {}
    before: Object = old.get("status") or {}
    found = metadata.repeated_update(pod, old) + _annotation_changes(pod, old)
    for index, condition in enumerate(get_list(status, "conditions")):
        if (condition.get("observedGeneration") or 0) < 0:
            at = (_STATUS / "conditions").at(index) / "observedGeneration"
            found.append(field_invalid(at, condition["observedGeneration"], "must be a non-negative integer"))
    node = status.get("nominatedNodeName") or ""
    if node and node != before.get("nominatedNodeName"):
        found += check.dns_subdomain(_STATUS / "nominatedNodeName", node)
        if dig(old, "spec", "nodeName"):
            text = "may not be set on pods that are already bound to a node"
            found.append(field_forbidden(_STATUS / "nominatedNodeName", text))
    if (count := status.get("observedGeneration") or 0) < 0:
        found.append(field_invalid(_STATUS / "observedGeneration", count, "must be a non-negative integer"))
    found += check.immutable(_STATUS / "qosClass", status.get("qosClass") or "", before.get("qosClass") or "")
    _transitions(found, status, before, pod.get("spec") or {})
    _addresses(found, "podIPs", get_list(status, "podIPs"), before)
    hosts: Sequence[Object] = get_list(status, "hostIPs")
    if hosts and (status.get("hostIP") or "") != (hosts[0].get("ip") or ""):
        at = (_STATUS / "hostIPs").at(0) / "ip"
        found.append(field_invalid(at, hosts[0].get("ip") or "", "must be equal to `hostIP`"))
    _addresses(found, "hostIPs", hosts, before)
    return found


def _transitions(found: list[FieldError], status: Object, before: Object, spec: Object) -> None:
    """A container that ended for good does not run again."""
    containers = {item.get("name"): item for item in get_list(spec, "containers")}
    policy = spec.get("restartPolicy")
    new = {item.get("name"): item for item in get_list(status, "containerStatuses")}
    for index, item in enumerate(get_list(before, "containerStatuses")):
        ended = dig(item, "state", "terminated")
        after = new.get(item.get("name"))
        if ended is None or after is None or dig(after, "state", "terminated") is not None:
            continue
        container: Object = containers.get(item.get("name")) or {}
        if not _restarts(container, container.get("restartPolicy") or policy, ended.get("exitCode") or 0):
            at = (_STATUS / "containerStatuses").at(index) / "state"
            found.append(field_forbidden(at, "may not be transitioned to non-terminated state"))


def _restarts(container: Object, policy: Any, code: int) -> bool:
    for rule in get_list(container, "restartPolicyRules"):
        codes: Object = rule.get("exitCodes") or {}
        if (code in (get_list(codes, "values"))) == (codes.get("operator") == "In"):
            return True
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def _addresses(found: list[FieldError], field: str, items: Sequence[Object], before: Object) -> None:
    path = _STATUS / field
    known = {item.get("ip") for item in before.get(field) or ()}
    found += [
        error
        for index, item in enumerate(items)
        if item.get("ip") not in known
        for error in check.ip_address(path.at(index), item.get("ip") or "")
    ]
    if len(items) > 1:
        try:
            families = {ip_address(item.get("ip") or "").version for item in items}
        except ValueError:
            return
        if len(families) != 2 or len(items) > 2:
            text = "may specify no more than one IP for each IP family"
            found.append(field_invalid(path, [{"IP": item.get("ip") or ""} for item in items], text))
