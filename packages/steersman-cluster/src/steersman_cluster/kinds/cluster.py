"""Node: taints, Pod CIDRs, and the status that the kubelet reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from steersman_cluster.errors import ErrorType, FieldError, field_forbidden, field_invalid, required
from steersman_cluster.json_access import get_list, get_object, get_string
from steersman_cluster.kinds import columns, formats
from steersman_cluster.kinds import meta as metadata
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.plain import Plain
from steersman_cluster.objects import Object, Path, labels_of
from steersman_cluster.strategy import Column, WriteContext

__all__ = ["STRATEGIES", "ComponentStatus", "Node"]

_SPEC = Path("spec")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_ROLE = "node-role.kubernetes.io/"
_INFO = (
    "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion",
    "kubeProxyVersion", "operatingSystem", "architecture",
)  # fmt: skip


class Node(Plain):
    """The rules of Node objects."""

    namespaced = False
    has_status = True
    columns = (
        columns.NAME,
        Column("Status", description="Whether it is ready, and takes Pods."),
        Column("Roles", description="The roles of the node."),
        columns.AGE,
        Column("Version", description="The kubelet's version."),
        Column("Internal-IP", description="Its address inside.", priority=1),
        Column("External-IP", description="Its address outside.", priority=1),
        Column("OS-Image", description="The operating system of the node.", priority=1),
        Column("Kernel-Version", description="Which kernel.", priority=1),
        Column("Container-Runtime", description="Which runtime.", priority=1),
    )
    selectable = ("spec.unschedulable",)

    def fields(self, obj: Object) -> Mapping[str, str]:
        return {"spec.unschedulable": "true" if get_object(obj, "spec").get("unschedulable") else "false"}

    def row(self, obj: Object, now: float) -> list[Any]:
        status = get_object(obj, "status")
        info, addresses = get_object(status, "nodeInfo"), get_list(status, "addresses")
        machine = f" ({info['architecture']})" if info.get("architecture") else ""
        return [
            columns.name(obj),
            _shown_status(obj),
            _roles(obj),
            columns.age(obj, now),
            get_string(info, "kubeletVersion"),
            _address(addresses, "InternalIP"),
            _address(addresses, "ExternalIP"),
            info.get("osImage") or columns.UNKNOWN,
            (info.get("kernelVersion") or columns.UNKNOWN) + machine,
            info.get("containerRuntimeVersion") or columns.UNKNOWN,
        ]

    def default(self, obj: Object) -> None:
        spec, status = obj.setdefault("spec", {}), obj.setdefault("status", {})
        if spec.get("podCIDR") and not spec.get("podCIDRs"):
            spec["podCIDRs"] = [spec["podCIDR"]]
        elif spec.get("podCIDRs") and not spec.get("podCIDR"):
            spec["podCIDR"] = spec["podCIDRs"][0]
        if status.get("capacity") and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])
        status.setdefault("daemonEndpoints", {}).setdefault("kubeletEndpoint", {}).setdefault("Port", 0)
        status["nodeInfo"] = {**dict.fromkeys(_INFO, ""), **get_object(status, "nodeInfo")}

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        """A node registers with its status, so that it is kept."""

    def errors(self, obj: Object) -> list[FieldError]:
        spec = get_object(obj, "spec")
        found = _taints(get_list(spec, "taints"))
        path = _SPEC / "podCIDRs"
        ranges = get_list(spec, "podCIDRs")
        for index, text in enumerate(ranges):
            found += check.cidr(path.at(index), text)
        if len(ranges) > 2 and not any(formats.cidr(text) for text in ranges):
            text = "must specify no more than one CIDR for each IP family"
            found.append(field_invalid(path, ranges, text))
        return found

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        spec, before = get_object(obj, "spec"), get_object(old, "spec")
        found = metadata.repeated_update(obj, old) + _status_errors(get_object(obj, "status"))
        new, was = get_list(spec, "podCIDRs"), get_list(before, "podCIDRs")
        if was and new != was:
            text = 'node updates may not change podCIDR except from "" to valid'
            found.append(field_forbidden(_SPEC / "podCIDRs", text))
        if before.get("providerID") and spec.get("providerID") != before["providerID"]:
            text = 'node updates may not change providerID except from "" to valid'
            found.append(field_forbidden(_SPEC / "providerID", text))
        if before.get("externalID") != spec.get("externalID"):
            found.append(field_forbidden(_SPEC / "externalID", "may not be updated"))
        return found + _taints(get_list(spec, "taints"))


def _taints(taints: Sequence[Object]) -> list[FieldError]:
    path = Path("metadata.taints")
    seen: set[tuple[str, str]] = set()
    found: list[FieldError] = []
    for index, taint in enumerate(taints):
        at, key, effect = path.at(index), get_string(taint, "key"), get_string(taint, "effect")
        value = get_string(taint, "value")
        found += check.qualified_name(at / "key", key)
        found += check.label_value(at / "value", value)
        found += check.enum(at / "effect", effect, _EFFECTS) if effect else [required(at / "effect")]
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            text = "taints must be unique by key and effect pair"
            found.append(FieldError(ErrorType.DUPLICATE, at, shown, text))
        seen.add((key, effect))
    return found


def _status_errors(status: Object) -> list[FieldError]:
    path = Path("status.addresses")
    found: list[FieldError] = []
    seen: list[tuple[str, str]] = []
    for index, address in enumerate(get_list(status, "addresses")):
        key = get_string(address, "type"), get_string(address, "address")
        if key in seen:
            shown = {"Type": key[0], "Address": key[1]}
            found.append(FieldError(ErrorType.DUPLICATE, path.at(index), shown))
        seen.append(key)
    for field in ("capacity", "allocatable"):
        for name, value in get_object(status, field).items():
            found += check.quantity((Path("status") / field).key(name), value)
    return found


def _shown_status(obj: Object) -> str:
    conditions: Sequence[Object] = get_list(get_object(obj, "status"), "conditions")
    ready = [item for item in conditions if item.get("type") == "Ready"]
    shown = ("Ready" if ready[-1].get("status") == "True" else "NotReady") if ready else "Unknown"
    return f"{shown},SchedulingDisabled" if get_object(obj, "spec").get("unschedulable") else shown


def _roles(obj: Object) -> str:
    labels = labels_of(obj)
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE) and key != _ROLE}
    roles |= {value for key, value in labels.items() if key == "kubernetes.io/role" and value}
    return columns.join(sorted(roles))


def _address(addresses: Sequence[Object], kind: str) -> str:
    return next((get_string(item, "address") for item in addresses if item.get("type") == kind), columns.NONE)


class ComponentStatus(Plain):
    """The rules of ComponentStatus objects."""

    namespaced = False
    deprecation = "v1 ComponentStatus is deprecated in v1.19+"
    columns = (
        columns.NAME,
        Column("Status", description="Status of the component conditions"),
        Column("Message", description="Message of the component conditions"),
        Column("Error", description="Error of the component conditions"),
    )

    def row(self, obj: Object, now: float) -> list[Any]:
        healthy: Object = next((c for c in get_list(obj, "conditions") if c.get("type") == "Healthy"), Object())
        shown = {"True": "Healthy", "False": "Unhealthy"}.get(get_string(healthy, "status"), "Unknown")
        return [columns.name(obj), shown, get_string(healthy, "message"), get_string(healthy, "error")]


STRATEGIES = {("", "v1", "Node"): Node(), ("", "v1", "ComponentStatus"): ComponentStatus()}
