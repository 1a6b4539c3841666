"""The usage of a ResourceQuota: counts, requests of Pods, storage and devices of claims, Service types.

Pure functions of objects as JSON, for admission and for the controller that writes the status. Follows Kubernetes'
`pkg/quota/v1/evaluator`. Devices are counted by class, and by the extended resource that a class stands for (KEP-5004).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

from steersman.models.quantity import Quantity
from steersman_cluster.objects import Object, dig, name_of

__all__ = [
    "CLAIMS",
    "NO_DEVICES",
    "PODS",
    "Amounts",
    "Devices",
    "applies",
    "counts_extended_resources",
    "devices_of",
    "missing",
    "names_of",
    "printed",
    "quantities",
    "resource_of",
    "usage",
]

CLAIMS: Final = ("resource.k8s.io", "resourceclaims")
PODS: Final = ("", "pods")

Amounts = dict[str, Quantity]

_ONE: Final = Quantity(1)
_COUNTED: Final = (
    *("pods", "services", "secrets", "configmaps", "persistentvolumeclaims", "replicationcontrollers"),
    "resourcequotas",
)
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_POD_RESOURCES: Final = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
_CLASS: Final = ".storageclass.storage.k8s.io/"
_DEVICES: Final = ".deviceclass.resource.k8s.io/devices"
_IMPLICIT: Final = "requests.deviceclass.resource.kubernetes.io/"
_EXTENDED_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
_MAX_DEVICES: Final = 32
"""The most devices of one claim, which `allocationMode: All` counts as."""


class Devices(NamedTuple):
    """The facts beside a ResourceClaim on which its usage depends."""

    extended: Mapping[str, str] = MappingProxyType({})
    """The extended resource of each DeviceClass; empty for a class without one."""
    pods: Mapping[str, Object] = MappingProxyType({})
    """The Pods of the namespace, by name."""
    claims: Sequence[Object] = ()
    """The ResourceClaims of the namespace."""

    def counted(self) -> set[str]:
        """Return the names under `hard` that count Pods and claims of devices alike."""
        explicit = {f"requests.{resource}" for resource in self.extended.values() if resource}
        return explicit | {f"{_IMPLICIT}{name}" for name in self.extended}


NO_DEVICES: Final = Devices()


def devices_of(classes: Iterable[Object], pods: Iterable[Object], claims: Sequence[Object]) -> Devices:
    """Return the facts that the usage of claims depends on, from DeviceClasses, and Pods and claims of a namespace."""
    extended = {name_of(each): str(dig(each, "spec", "extendedResourceName") or "") for each in classes}
    return Devices(extended, {name_of(pod): pod for pod in pods}, claims)


def counts_extended_resources(hard: Iterable[str]) -> bool:
    """Return whether a name under `hard` may count the devices of claims as an extended resource."""
    return any(name.startswith("requests.") and "/" in name for name in hard)


def resource_of(name: str) -> tuple[str, str]:
    """The group and resource that a name under `hard` counts; `("", "")` for one that nothing counts."""
    if name.startswith("count/"):
        resource, _, group = name.removeprefix("count/").partition(".")
        return group, resource
    if name in _COUNTED:
        return "", name
    if name.startswith("services."):
        return "", "services"
    if name == "requests.storage" or _CLASS in name:
        return "", "persistentvolumeclaims"
    if name.endswith(_DEVICES):
        return "resource.k8s.io", "resourceclaims"
    plain = name.removeprefix("requests.").removeprefix("limits.")
    known = plain in _COMPUTE or plain.startswith("hugepages-") or "/" in plain
    return ("", "pods") if known else ("", "")


def names_of(hard: Iterable[str], group: str, resource: str, devices: Devices = NO_DEVICES) -> list[str]:
    """Return those names under `hard` that objects of a resource count for, sorted."""
    extended = devices.counted() if (group, resource) == CLAIMS else set[str]()
    return sorted(name for name in hard if resource_of(name) == (group, resource) or name in extended)


def quantities(raw: Mapping[str, Any] | None) -> Amounts:
    """Amounts as they stand in `hard` and `used`."""
    return {name: Quantity(str(value)) for name, value in (raw or {}).items()}


def printed(amounts: Mapping[str, Quantity]) -> str:
    """As refusals show them."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def usage(group: str, resource: str, obj: Object, devices: Devices = NO_DEVICES) -> Amounts:
    """Return all that one object uses, by the names of quotas."""
    found: Amounts = {f"count/{resource}.{group}" if group else f"count/{resource}": _ONE}
    if (group, resource) == CLAIMS:
        by_class = _of_devices(obj)
        return found | by_class | _of_extended(by_class, obj, devices)
    if group:
        return found
    if resource == "pods":
        if dig(obj, "status", "phase") not in ("Succeeded", "Failed"):
            found["pods"] = _ONE
            found |= _of_pod(cast(Object, obj.get("spec") or {}))
    elif resource == "services":
        found |= _of_service(cast(Object, obj.get("spec") or {}))
    elif resource == "persistentvolumeclaims":
        found |= _of_claim(obj)
    elif resource in _COUNTED:
        found[resource] = _ONE
    return found


def missing(names: Iterable[str], pod: Object) -> str:
    """Return the requests and limits that a Pod lacks, as a text; empty if none."""
    wanted = [name for name in names if name in _POD_RESOURCES]
    if not wanted:
        return ""
    whole = _of_pod({"resources": dig(pod, "spec", "resources", default={})})
    lacking: dict[str, list[str]] = {}
    for container in (*_items(pod, "containers"), *_items(pod, "initContainers")):
        has = _of_pod({"containers": [container]})
        for name in wanted:
            if name not in has and name not in whole:
                lacking.setdefault(name, []).append(str(container.get("name")))
    if not lacking:
        return ""
    return "must specify " + "; ".join(f"{name} for: {','.join(who)}" for name, who in sorted(lacking.items()))


def applies(quota: Object, obj: Object) -> bool:
    """Return whether a quota's scopes are those of an object; only Pods and PersistentVolumeClaims have scopes."""
    spec = cast(Object, quota.get("spec") or {})
    rules = dig(spec, "scopeSelector", "matchExpressions", default=[])
    in_scope = {"Pod": _in_scope, "PersistentVolumeClaim": _is_claim_in_scope}.get(str(obj.get("kind")), _has_no_scope)
    return all(in_scope(obj, str(scope), "Exists", ()) for scope in spec.get("scopes") or ()) and all(
        in_scope(obj, str(rule["scopeName"]), str(rule["operator"]), tuple(rule.get("values") or ())) for rule in rules
    )


def _in_scope(pod: Object, scope: str, operator: str, values: tuple[str, ...]) -> bool:
    spec = cast(Object, pod.get("spec") or {})
    match scope:
        case "Terminating":
            return spec.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return spec.get("activeDeadlineSeconds") is None
        case "BestEffort":
            return _is_best_effort(pod)
        case "NotBestEffort":
            return not _is_best_effort(pod)
        case "PriorityClass":
            name = spec.get("priorityClassName") or ""
            match operator:
                case "In":
                    return name in values
                case "NotIn":
                    return name not in values
                case "DoesNotExist":
                    return not name
                case _:
                    return bool(name)
        case "CrossNamespacePodAffinity":
            return any(map(_reaches_other_namespaces, _affinity_terms(spec)))
        case _:
            return False


def _has_no_scope(obj: Object, scope: str, operator: str, values: tuple[str, ...]) -> bool:
    return False


def _is_claim_in_scope(claim: Object, scope: str, operator: str, values: tuple[str, ...]) -> bool:
    if scope != "VolumeAttributesClass":
        return False
    named = (
        dig(claim, "spec", "volumeAttributesClassName"),
        dig(claim, "status", "currentVolumeAttributesClassName"),
        dig(claim, "status", "modifyVolumeStatus", "targetVolumeAttributesClassName"),
    )
    classes = {name for name in named if name}
    match operator:
        case "In":
            return bool(classes & set(values))
        case "NotIn":
            return not classes or bool(classes - set(values))
        case "DoesNotExist":
            return not classes
        case _:
            return bool(classes)


def _affinity_terms(spec: Object) -> Iterator[Object]:
    """The terms of a Pod's affinity and anti-affinity to other Pods, required and preferred ones."""
    for field in ("podAffinity", "podAntiAffinity"):
        rules = cast(Object, dig(spec, "affinity", field, default={}))
        yield from rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for weighted in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield weighted.get("podAffinityTerm") or {}


def _reaches_other_namespaces(term: Object) -> bool:
    return bool(term.get("namespaces")) or term.get("namespaceSelector") is not None


def _is_best_effort(pod: Object) -> bool:
    containers = (*_items(pod, "containers"), *_items(pod, "initContainers"))
    return not any(
        Quantity(str(amount))
        for container in containers
        for field in ("requests", "limits")
        for amount in dig(container, "resources", field, default={}).values()
    )


def _of_pod(spec: Object) -> Amounts:
    found: Amounts = {}
    for field in ("requests", "limits"):
        for name, amount in _of_containers(spec, field).items():
            found[f"{field}.{name}"] = amount
            if field == "requests" and (name in _COMPUTE or name.startswith("hugepages-")):
                found[name] = amount
    return found


def _of_containers(spec: Object, field: str) -> Amounts:
    """Containers and sidecars together, or the largest init container if that is more; and the overhead."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        _add(total, quantities(dig(container, "resources", field)))
    sidecars: Amounts = {}
    for container in spec.get("initContainers") or ():
        amounts = quantities(dig(container, "resources", field))
        if container.get("restartPolicy") == "Always":
            _add(total, amounts)
            _add(sidecars, amounts)
            amounts = dict(sidecars)
        else:
            _add(amounts, sidecars)
        for name, amount in amounts.items():
            total[name] = max(total.get(name, amount), amount)
    total |= quantities(dig(spec, "resources", field))
    _add(total, quantities(spec.get("overhead")))
    return total


def _of_service(spec: Object) -> Amounts:
    ports = len(spec.get("ports") or ())
    found: Amounts = {"services": _ONE}
    kind = spec.get("type") or "ClusterIP"
    if kind == "LoadBalancer":
        found["services.loadbalancers"] = _ONE
        held = spec.get("allocateLoadBalancerNodePorts")
        found["services.nodeports"] = Quantity(0 if held is False else ports)
    elif kind == "NodePort":
        found["services.nodeports"] = Quantity(ports)
    return found


def _of_claim(claim: Object) -> Amounts:
    found: Amounts = {"persistentvolumeclaims": _ONE}
    size = dig(claim, "spec", "resources", "requests", "storage")
    of = dig(claim, "spec", "storageClassName") or ""
    if of:
        found[f"{of}{_CLASS}persistentvolumeclaims"] = _ONE
    if size is not None:
        allocated = dig(claim, "status", "allocatedResources", "storage")
        requested = Quantity(str(size))
        found["requests.storage"] = requested if allocated is None else max(requested, Quantity(str(allocated)))
        if of:
            found[f"{of}{_CLASS}requests.storage"] = found["requests.storage"]
    return found


def _of_devices(claim: Object) -> Amounts:
    """The devices that a ResourceClaim may get, by device class: of alternatives, the largest number."""
    found: Amounts = {}
    requests = cast("list[Object]", dig(claim, "spec", "devices", "requests", default=[]))
    for request in requests:
        most: Amounts = {}
        for one in request.get("firstAvailable") or (request.get("exactly") or request,):
            if name := one.get("deviceClassName"):
                exact = one.get("allocationMode") in (None, "", "ExactCount")
                count = Quantity(one.get("count") or 1 if exact else _MAX_DEVICES)
                most[f"{name}{_DEVICES}"] = max(most.get(f"{name}{_DEVICES}", count), count)
        _add(found, most)
    return found


def _of_extended(by_class: Amounts, claim: Object, devices: Devices) -> Amounts:
    """The devices of a claim as extended resources, without those that its Pod requests and thereby counts already."""
    found: Amounts = {}
    for name, amount in by_class.items():
        device_class = name.removesuffix(_DEVICES)
        found[f"{_IMPLICIT}{device_class}"] = amount
        if resource := devices.extended.get(device_class):
            found[f"requests.{resource}"] = amount
    pod = _pod_of_extended_claim(claim, devices)
    counted = _of_pod(cast(Object, pod.get("spec") or {})) if pod is not None else {}
    rest = {name: amount - counted[name] if name in counted else amount for name, amount in found.items()}
    return {name: amount for name, amount in rest.items() if amount > 0}


def _pod_of_extended_claim(claim: Object, devices: Devices) -> Object | None:
    """The Pod whose requests of extended resources a claim was made for; `None` for any other claim."""
    if dig(claim, "metadata", "annotations", _EXTENDED_CLAIM) != "true":
        return None
    owner = _controller_of(claim)
    if owner is None or (owner.get("apiVersion"), owner.get("kind")) != ("v1", "Pod"):
        return None
    pod = devices.pods.get(str(owner.get("name")))
    if pod is None or dig(pod, "metadata", "uid") != owner.get("uid"):
        return None
    named = dig(pod, "status", "extendedResourceClaimStatus")
    if named is not None:
        return pod if named.get("resourceClaimName") == name_of(claim) else None
    of_pod = [each for each in devices.claims if (_controller_of(each) or {}).get("uid") == owner.get("uid")]
    return pod if all(_age(claim) <= _age(other) for other in of_pod) else None


def _controller_of(obj: Object) -> Object | None:
    references = cast("list[Object]", dig(obj, "metadata", "ownerReferences", default=[]))
    return next((each for each in references if each.get("controller")), None)


def _age(obj: Object) -> tuple[str, str]:
    """A claim that is not stored yet is the youngest."""
    return str(dig(obj, "metadata", "creationTimestamp") or "~"), name_of(obj)


def _add(total: Amounts, more: Mapping[str, Quantity]) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _items(pod: Object, field: str) -> list[Object]:
    return cast("list[Object]", dig(pod, "spec", field, default=[]))
