"""Validation of the spec of a Service, and of its immutable fields."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from steersman_cluster.errors import (
    ErrorType,
    FieldError,
    duplicate,
    field_forbidden,
    field_invalid,
    required,
)
from steersman_cluster.json_access import get_list, get_object, get_string
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.services.addresses import (
    is_external,
    is_headless,
    needs_health_check,
    related_errors,
)
from steersman_cluster.objects import Object, Path, annotations_of, dig

__all__ = ["endpoint_ip", "port_or_name", "service_changes", "service_errors"]

_SPEC = Path("spec")
_AFFINITY_LIMIT = 86400
_IMMUTABLE_ONCE_SET = "may not change once set"
_BALANCER_ONLY = "may only be used when `type` is 'LoadBalancer'"
_HINTS, _MODE = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"
_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"


def service_errors(obj: Object, old: Object | None = None) -> list[FieldError]:
    """Return the errors of a Service; addresses of `old` that were valid under earlier rules stay valid."""
    spec: Object = get_object(obj, "spec")
    return [
        *_topology(obj),
        *_type_errors(spec),
        *_ports(spec),
        *check.labels(_SPEC / "selector", spec.get("selector")),
        *_affinity(spec),
        *related_errors(spec),
        *_external_ips(spec, get_object(old or {}, "spec")),
        *_kind(spec),
        *_port_conflicts(spec),
        *_source_ranges(obj, spec),
        *_balancer(spec),
        *_traffic(spec),
    ]


def _topology(obj: Object) -> list[FieldError]:
    annotations = annotations_of(obj)
    if _HINTS in annotations and _MODE in annotations and annotations[_HINTS] != annotations[_MODE]:
        text = f"must match annotations[{_HINTS}] when both are specified"
        return [field_invalid(Path("metadata.annotations").key(_MODE), annotations[_MODE], text)]
    return []


def _type_errors(spec: Object) -> list[FieldError]:
    kind, found = spec.get("type"), list[FieldError]()
    if not spec.get("ports") and not is_headless(spec) and kind != "ExternalName":
        found.append(required(_SPEC / "ports"))
    if kind in ("LoadBalancer", "NodePort") and is_headless(spec):
        text = f"may not be set to 'None' for {kind} services"
        found.append(field_invalid((_SPEC / "clusterIPs").at(0), "None", text))
    if kind != "ExternalName":
        return found
    for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(field):
            found.append(field_forbidden(_SPEC / field, "may not be set for ExternalName services"))
    name = (get_string(spec, "externalName")).removesuffix(".")
    return found + (check.dns_subdomain(_SPEC / "externalName", name) if name else [required(_SPEC / "externalName")])


def _ports(spec: Object) -> list[FieldError]:
    ports: Sequence[Object] = get_list(spec, "ports")
    seen: set[str] = set()
    found: list[FieldError] = []
    for index, port in enumerate(ports):
        at, name, protocol = (_SPEC / "ports").at(index), get_string(port, "name"), get_string(port, "protocol")
        if name:
            found += check.dns_label(at / "name", name)
            found += [duplicate(at / "name", name)] if name in seen else []
            seen.add(name)
        elif len(ports) > 1:
            found.append(required(at / "name"))
        found += check.port_number(at / "port", port.get("port") or 0)
        if not protocol:
            found.append(required(at / "protocol"))
        else:
            found += check.enum(at / "protocol", protocol, ("SCTP", "TCP", "UDP"))
        found += port_or_name(at / "targetPort", port.get("targetPort") or 0)
        if (application := port.get("appProtocol")) is not None:
            found += check.qualified_name(at / "appProtocol", application)
    return found


def port_or_name(path: str, value: int | str) -> list[FieldError]:
    """A port's number, or the name of a container's port."""
    return check.port_name(path, value) if isinstance(value, str) else check.port_number(path, value)


def _affinity(spec: Object) -> list[FieldError]:
    affinity, config = get_string(spec, "sessionAffinity"), spec.get("sessionAffinityConfig")
    if not affinity:
        return [required(_SPEC / "sessionAffinity")]
    found = check.enum(_SPEC / "sessionAffinity", affinity, ("ClientIP", "None"))
    path = _SPEC / "sessionAffinityConfig"
    if affinity == "ClientIP":
        seconds = dig(config, "clientIP", "timeoutSeconds", default=0)
        if not 0 < seconds <= _AFFINITY_LIMIT:
            text = f"must be greater than 0 and less than {_AFFINITY_LIMIT}"
            found.append(field_invalid(path / "clientIP" / "timeoutSeconds", seconds, text))
    elif affinity == "None" and config is not None:
        found.append(field_forbidden(path, "must not be set when session affinity is None"))
    return found


def _external_ips(spec: Object, before: Object) -> list[FieldError]:
    found: list[FieldError] = []
    for index, address in enumerate(get_list(spec, "externalIPs")):
        at = (_SPEC / "externalIPs").at(index)
        bad = [] if address in (get_list(before, "externalIPs")) else check.ip_address(at, address)
        found += bad or endpoint_ip(at, address)
    return found


def endpoint_ip(path: str, address: str) -> list[FieldError]:
    """An address that traffic may be sent to: none of the special ranges.

    Of the loopback range only the first addresses are refused: Pods of process nodes live on others.
    """
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return [field_invalid(path, address, "must be a valid IP address")]
    if ip.is_unspecified:
        text = f"may not be unspecified ({address})"
    elif ip.is_loopback and (ip.version == 6 or ip in _LOOPBACK):
        text = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
    elif ip.is_link_local:
        text = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
    elif ip in _LOCAL_MULTICAST[ip.version]:
        text = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
    else:
        return []
    return [field_invalid(path, address, text)]


_LOOPBACK = ipaddress.ip_network("127.0.0.0/12")
"""All that is refused of 127.0.0.0/8."""
_LOCAL_MULTICAST = {4: ipaddress.ip_network("224.0.0.0/24"), 6: ipaddress.ip_network("ff02::/16")}


def _kind(spec: Object) -> list[FieldError]:
    kind = get_string(spec, "type")
    found = check.enum(_SPEC / "type", kind, ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"))
    if kind == "ClusterIP":
        text = "may not be used when `type` is 'ClusterIP'"
        found += [
            field_forbidden((_SPEC / "ports").at(index) / "nodePort", text)
            for index, port in enumerate(get_list(spec, "ports"))
            if port.get("nodePort")
        ]
    return found


def _port_conflicts(spec: Object) -> list[FieldError]:
    nodes: set[tuple[str, int]] = set()
    numbers: set[tuple[str, int]] = set()
    found: list[FieldError] = []
    again: list[FieldError] = []
    for index, port in enumerate(get_list(spec, "ports")):
        at, protocol = (_SPEC / "ports").at(index), get_string(port, "protocol")
        node, number = port.get("nodePort") or 0, port.get("port") or 0
        if node and (protocol, node) in nodes:
            found.append(duplicate(at / "nodePort", node))
        if (protocol, number) in numbers:
            # The server shows its internal form, with the fields that make the key.
            key = {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": number}
            again.append(FieldError(ErrorType.DUPLICATE, at, {**key, "TargetPort": 0, "NodePort": 0}))
        nodes.add((protocol, node))
        numbers.add((protocol, number))
    return found + again


def _source_ranges(obj: Object, spec: Object) -> list[FieldError]:
    ranges: Sequence[str] = get_list(spec, "loadBalancerSourceRanges")
    path: Path = _SPEC / "LoadBalancerSourceRanges"
    found: list[FieldError] = []
    balanced = spec.get("type") == "LoadBalancer"
    if ranges:
        found += [] if balanced else [field_forbidden(path, _BALANCER_ONLY)]
        for index, value in enumerate(ranges):
            found += check.cidr(path.at(index), value.strip())
    elif _RANGES in (annotations := annotations_of(obj)):
        path = Path("metadata.annotations").key(_RANGES)
        found += [] if balanced else [field_forbidden(path, _BALANCER_ONLY)]
        for value in annotations[_RANGES].strip().split(",") if annotations[_RANGES].strip() else ():
            found += check.cidr(path, value.strip())
    return found


def _balancer(spec: Object) -> list[FieldError]:
    path, balanced = _SPEC / "loadBalancerClass", spec.get("type") == "LoadBalancer"
    allocate, name = spec.get("allocateLoadBalancerNodePorts"), spec.get("loadBalancerClass")
    found: list[FieldError] = []
    if allocate is not None and not balanced:
        found.append(field_forbidden(_SPEC / "allocateLoadBalancerNodePorts", _BALANCER_ONLY))
    if name is not None:
        found += check.qualified_name(path, name) if balanced else [field_forbidden(path, _BALANCER_ONLY)]
    return found


def _traffic(spec: Object) -> list[FieldError]:
    external, internal = get_string(spec, "externalTrafficPolicy"), spec.get("internalTrafficPolicy")
    port, distribution = spec.get("healthCheckNodePort") or 0, spec.get("trafficDistribution")
    found: list[FieldError] = []
    path = _SPEC / "externalTrafficPolicy"
    if not is_external(spec):
        if external:
            found.append(field_invalid(path, external, "may only be set for externally-accessible services"))
    else:
        found += check.enum(path, external, ("Cluster", "Local"))
    if needs_health_check(spec):
        found += check.port_number(_SPEC / "healthCheckNodePort", port)
    elif port:
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        found.append(field_invalid(_SPEC / "healthCheckNodePort", port, text))
    if internal is not None:
        found += check.enum(_SPEC / "internalTrafficPolicy", internal, ("Cluster", "Local"))
    if distribution is not None:
        known = ("PreferClose", "PreferSameZone", "PreferSameNode")
        found += check.enum(_SPEC / "trafficDistribution", distribution, known)
    return found


def service_changes(obj: Object, old: Object) -> list[FieldError]:
    """Return the errors of immutable fields: addresses, families, load balancer class, health check port."""
    spec: Object = get_object(obj, "spec")
    before: Object = get_object(old, "spec")
    found: list[FieldError] = []
    if "ExternalName" not in (spec.get("type"), before.get("type")):
        found += _address_changes(spec, before)
        found += _family_changes(spec, before)
    if spec.get("type") == before.get("type") == "LoadBalancer":
        name = spec.get("loadBalancerClass")
        if name != before.get("loadBalancerClass"):
            found.append(field_invalid(_SPEC / "loadBalancerClass", name, _IMMUTABLE_ONCE_SET))
    if spec.get("loadBalancerClass") is not None:
        found += _balancer({**spec, "allocateLoadBalancerNodePorts": None})
    kept = needs_health_check(spec) and needs_health_check(before)
    if kept and spec.get("healthCheckNodePort") != before.get("healthCheckNodePort"):
        found.append(field_forbidden(_SPEC / "healthCheckNodePort", check.IMMUTABLE))
    return found


def _address_changes(spec: Object, before: Object) -> list[FieldError]:
    if is_headless(spec) and is_headless(before):
        return []
    path = _SPEC / "clusterIPs"
    new, were = get_list(spec, "clusterIPs"), get_list(before, "clusterIPs")
    if len(new) == len(were):
        pairs = enumerate(zip(new, were, strict=True))
        return [field_invalid(path.at(index), new, _IMMUTABLE_ONCE_SET) for index, (one, was) in pairs if one != was]
    found: list[FieldError] = []
    if not new:
        found.append(field_invalid(path.at(0), spec.get("clusterIPs"), "primary clusterIP can not be unset"))
    elif were and new[0] != were[0]:
        found.append(field_invalid(path.at(0), new, _IMMUTABLE_ONCE_SET))
    if len(new) == 1 < len(were) and spec.get("ipFamilyPolicy") != "SingleStack":
        text = "must be set to 'SingleStack' when releasing the secondary clusterIP"
        found.append(field_invalid(_SPEC / "ipFamilyPolicy", spec.get("ipFamilyPolicy"), text))
    return found


def _family_changes(spec: Object, before: Object) -> list[FieldError]:
    if is_headless(spec) or is_headless(before):
        return []
    path = (_SPEC / "ipFamilies").at(0)
    new, were = get_list(spec, "ipFamilies"), get_list(before, "ipFamilies")
    if len(new) == len(were):
        return [field_invalid(path, new, _IMMUTABLE_ONCE_SET) for one, was in zip(new, were, strict=True) if one != was]
    if new and were and new[0] != were[0]:
        return [field_invalid(path, spec.get("clusterIPs"), _IMMUTABLE_ONCE_SET)]
    return []
