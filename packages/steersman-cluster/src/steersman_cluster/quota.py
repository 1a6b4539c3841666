"""The usage of a ResourceQuota: counts, requests of Pods, storage and devices of claims, Service types.

Pure functions of objects as JSON, for admission and for the controller that writes the status. Follows Kubernetes'
`pkg/quota/v1/evaluator`. Devices are counted by class; extended resources that a class stands for are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from steersman.models.quantity import Quantity
from steersman_cluster.objects import Object, dig

__all__ = ["Amounts", "applies", "missing", "names_of", "printed", "quantities", "resource_of", "usage"]

Amounts = dict[str, Quantity]

_ONE: Final = Quantity(1)
_COUNTED: Final = (
    *("pods", "services", "secrets", "configmaps", "persistentvolumeclaims", "replicationcontrollers"),
    "resourcequotas",
)
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_DEMANDED: Final = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
_CLASS: Final = ".storageclass.storage.k8s.io/"
_DEVICES: Final = ".deviceclass.resource.k8s.io/devices"
_MAX_DEVICES: Final = 32
"""The most devices of one claim, which `allocationMode: All` counts as."""


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


def names_of(hard: Iterable[str], group: str, resource: str) -> list[str]:
    """Those names under `hard` that objects of a resource count for, sorted."""
    return sorted(name for name in hard if resource_of(name) == (group, resource))


def quantities(raw: Mapping[str, Any] | None) -> Amounts:
    """Amounts as they stand in `hard` and `used`."""
    return {name: Quantity(str(value)) for name, value in (raw or {}).items()}


def printed(amounts: Mapping[str, Quantity]) -> str:
    """As refusals show them."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def usage(group: str, resource: str, obj: Object) -> Amounts:
    """All that one object uses, by the names of quotas."""
    found: Amounts = {f"count/{resource}.{group}" if group else f"count/{resource}": _ONE}
    if (group, resource) == ("resource.k8s.io", "resourceclaims"):
        return found | _of_devices(obj)
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
    wanted = [name for name in names if name in _DEMANDED]
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


def _add(total: Amounts, more: Mapping[str, Quantity]) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _items(pod: Object, field: str) -> list[Object]:
    return cast("list[Object]", dig(pod, "spec", field, default=[]))
