"""LimitRanger: default requests and limits of a namespace, and its minima and maxima for Pods and claims.

Follows the API server's `plugin/pkg/admission/limitranger`; amounts are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from steersman.models.quantity import Quantity
from steersman_cluster.admission.lookups import Lookups
from steersman_cluster.admission.write import Write
from steersman_cluster.json_access import get_object, get_objects
from steersman_cluster.objects import Object, meta

__all__ = ["check_limits", "default_limits"]

_ANNOTATION = "kubernetes.io/limit-ranger"
_POD_LEVEL = ("cpu", "memory")
_ZERO = Quantity(0)
Amounts = Mapping[str, Quantity]


def default_limits(write: Write, lookups: Lookups) -> None:
    """Give a new Pod's containers the requests and limits that the namespace's LimitRanges set by default."""
    ranges = lookups.limit_ranges(write.namespace)
    if not ranges or write.obj is None:
        return
    for limit_range in ranges:
        _apply_defaults(write.obj, limit_range)


def _apply_defaults(pod: Object, limit_range: Object) -> None:
    requests: Object = {}
    limits: Object = {}
    for limit in _limits(limit_range, "Container"):
        requests.update(get_object(limit, "defaultRequest"))
        limits.update(get_object(limit, "default"))
    told: list[str] = []
    spec = get_object(pod, "spec")
    for kind, field in (("container", "containers"), ("init container", "initContainers")):
        for container in get_objects(spec, field):
            for what, defaults in (("request", requests), ("limit", limits)):
                given = get_object(get_object(container, "resources"), f"{what}s")
                missing = {name: amount for name, amount in defaults.items() if name not in given}
                if missing:
                    container.setdefault("resources", {})[f"{what}s"] = {**given, **missing}
                    told.append(f"{', '.join(sorted(missing))} {what} for {kind} {container.get('name')}")
    if told:
        annotations = meta(pod).setdefault("annotations", {})
        annotations[_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(told)}"


def check_limits(write: Write, lookups: Lookups) -> None:
    """Refuse a Pod or claim whose requests or limits are outside of a LimitRange of its namespace."""
    ranges = lookups.limit_ranges(write.namespace)
    if not ranges or write.obj is None or (write.old is not None and meta(write.old).get("deletionTimestamp")):
        return
    check = _pod_errors if write.resource == "pods" else _claim_errors
    for limit_range in ranges:
        errors = list(dict.fromkeys(check(write.obj, limit_range)))
        if errors:
            raise write.forbidden(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")


def _limits(limit_range: Object, kind: str) -> Iterator[Object]:
    return (limit for limit in get_objects(get_object(limit_range, "spec"), "limits") if limit.get("type") == kind)


def _claim_errors(claim: Object, limit_range: Object) -> Iterator[str]:
    requests = _amounts(get_object(get_object(get_object(claim, "spec"), "resources"), "requests"))
    kind = "PersistentVolumeClaim"
    for limit in _limits(limit_range, kind):
        for name, least in _sorted(limit, "min"):
            yield from _below(kind, name, least, requests, {})
        for name, most in _sorted(limit, "max"):
            request = requests.get(name)
            said = f"maximum {name} usage per {kind} is {most}"
            if request is None:
                yield f"{said}.  No request is specified"
            elif request > most:
                yield f"{said}, but request is {request}"


def _pod_errors(pod: Object, limit_range: Object) -> Iterator[str]:
    spec = get_object(pod, "spec")
    for limit in _limits(limit_range, "Container"):
        for container in (*get_objects(spec, "containers"), *get_objects(spec, "initContainers")):
            resources = get_object(container, "resources")
            amounts = _amounts(get_object(resources, "requests")), _amounts(get_object(resources, "limits"))
            yield from _errors("Container", limit, *amounts)
    for limit in _limits(limit_range, "Pod"):
        yield from _errors("Pod", limit, _of_pod(spec, "requests"), _of_pod(spec, "limits"))


def _errors(kind: str, limit: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, least in _sorted(limit, "min"):
        yield from _below(kind, name, least, requests, limits)
    for name, most in _sorted(limit, "max"):
        yield from _above(kind, name, most, requests, limits)
    for name, ratio in _sorted(limit, "maxLimitRequestRatio"):
        yield from _ratio(kind, name, ratio, requests, limits)


def _below(kind: str, name: str, least: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    request, limit = requests.get(name), limits.get(name)
    said = f"minimum {name} usage per {kind} is {least}"
    if request is None:
        yield f"{said}.  No request is specified"
    elif request < least:
        yield f"{said}, but request is {request}"
    elif limit is not None and limit < least:
        yield f"{said}, but limit is {limit}"


def _above(kind: str, name: str, most: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    request, limit = requests.get(name), limits.get(name)
    said = f"maximum {name} usage per {kind} is {most}"
    if limit is None:
        yield f"{said}.  No limit is specified"
    elif limit > most:
        yield f"{said}, but limit is {limit}"
    elif request is not None and request > most:
        yield f"{said}, but request is {request}"


def _ratio(kind: str, name: str, ratio: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    request, limit = requests.get(name, _ZERO), limits.get(name, _ZERO)
    said = f"{name} max limit to request ratio per {kind} is {ratio}"
    if not request:
        yield f"{said}, but no request is specified or request is 0"
    elif not limit:
        yield f"{said}, but no limit is specified or limit is 0"
    elif (given := float(limit) / float(request)) > float(ratio):
        yield f"{said}, but provided ratio is {given:f}"


def _of_pod(spec: Object, field: str) -> dict[str, Quantity]:
    """Return the requests of a Pod: the sum of containers and sidecars, or its largest init container."""
    total: dict[str, Quantity] = {}
    for container in get_objects(spec, "containers"):
        _add(total, _amounts(get_object(get_object(container, "resources"), field)))
    sidecars: dict[str, Quantity] = {}
    largest: dict[str, Quantity] = {}
    for container in get_objects(spec, "initContainers"):
        amounts = _amounts(get_object(get_object(container, "resources"), field))
        if container.get("restartPolicy") == "Always":
            _add(total, amounts)
            _add(sidecars, amounts)
            while_running = sidecars
        else:
            while_running = {**amounts}
            _add(while_running, sidecars)
        _raise(largest, while_running)
    _raise(total, largest)
    whole = _amounts(get_object(get_object(spec, "resources"), field))
    return total | {name: amount for name, amount in whole.items() if name in _POD_LEVEL or "hugepages-" in name}


def _add(total: dict[str, Quantity], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = total[name] + amount if name in total else amount


def _raise(total: dict[str, Quantity], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        if name not in total or total[name] < amount:
            total[name] = amount


def _sorted(limit: Object, field: str) -> Iterable[tuple[str, Quantity]]:
    return sorted(_amounts(get_object(limit, field)).items())


def _amounts(values: Object) -> dict[str, Quantity]:
    found: dict[str, Quantity] = {}
    for name, value in values.items():
        try:
            found[name] = Quantity(str(value))
        except ValueError:
            # Validation refuses it later, with a better message.
            continue
    return found
