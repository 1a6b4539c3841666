"""Service: defaults, types and their transitions, addresses and node ports given out, and the table.

What a Service may hold is checked in `service_errors`, addresses and ports come from `addresses`; here is the
order of the API server: infer omitted fields, allocate, clear fields that a new type does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from steersman_cluster.errors import FieldError, field_forbidden, field_invalid, not_supported, required
from steersman_cluster.json_access import get_list, get_object, get_string
from steersman_cluster.kinds import columns
from steersman_cluster.kinds import meta as metadata
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.plain import Plain
from steersman_cluster.kinds.services import endpoints
from steersman_cluster.kinds.services.addresses import (
    allocate,
    has_node_ports,
    is_external,
    is_headless,
    needs_health_check,
)
from steersman_cluster.kinds.services.validation import service_changes, service_errors
from steersman_cluster.objects import Object, Path, annotations_of, dig
from steersman_cluster.strategy import Column, WriteContext

__all__ = ["STRATEGIES", "Service"]


class Service(Plain):
    """The rules of Service objects."""

    has_status = True
    create_on_update = True
    name_rule = "label"
    columns = (
        columns.NAME,
        Column("Type", description="How the Service is exposed."),
        Column("Cluster-IP", description="The address inside of the cluster."),
        Column("External-IP", description="The addresses outside of the cluster."),
        Column("Port(s)", description="Ports, node ports and protocols."),
        columns.AGE,
        Column("Selector", description="Which Pods traffic goes to.", priority=1),
    )
    selectable = ("spec.clusterIP", "spec.type")

    def fields(self, obj: Object) -> Mapping[str, str]:
        spec: Object = get_object(obj, "spec")
        return {"spec.clusterIP": get_string(spec, "clusterIP"), "spec.type": get_string(spec, "type")}

    def row(self, obj: Object, now: float) -> list[Any]:
        spec: Object = get_object(obj, "spec")
        addresses = spec.get("clusterIPs") or [columns.NONE]
        return [
            columns.name(obj),
            get_string(spec, "type"),
            addresses[0],
            _external(obj, spec),
            columns.join(map(_port, get_list(spec, "ports"))),
            columns.age(obj, now),
            columns.labels(spec.get("selector")),
        ]

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        _default_affinity(spec)
        kind = spec["type"] = get_string(spec, "type") or "ClusterIP"
        for port in get_list(spec, "ports"):
            if not port.get("protocol"):
                port["protocol"] = "TCP"
            if not port.get("targetPort"):
                port["targetPort"] = port.get("port", 0)
        if is_external(spec) and not spec.get("externalTrafficPolicy"):
            spec["externalTrafficPolicy"] = "Cluster"
        if kind in ("ClusterIP", "NodePort", "LoadBalancer"):
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if kind == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
            for ingress in dig(obj, "status", "loadBalancer", "ingress", default=[]):
                if ingress.get("ip"):
                    ingress.setdefault("ipMode", "VIP")

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        spec = obj["spec"]
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        allocate(obj, None, ctx)
        obj["status"] = {"loadBalancer": {}}

    def prepare_update(self, obj: Object, old: Object, ctx: WriteContext) -> None:
        if ctx.subresource == "status":
            obj["spec"] = old.get("spec", {})
            obj.setdefault("status", {}).setdefault("loadBalancer", {})
            return
        new, before = obj["spec"], get_object(old, "spec")
        _keep_allocated(new, before)
        _align_addresses(new, before)
        allocate(obj, old, ctx)
        obj["status"] = old.get("status", {"loadBalancer": {}})
        _drop_for_type(new, before)
        if new.get("type") == "ExternalName":
            new.pop("internalTrafficPolicy", None)
        if new.get("type") != "LoadBalancer":
            obj["status"] = {**obj["status"], "loadBalancer": {}}

    def errors(self, obj: Object) -> list[FieldError]:
        return service_errors(obj)

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        again = metadata.repeated_update(obj, old)
        if ctx.subresource == "status":
            return again + _balancer_errors(obj)
        return again + service_changes(obj, old) + service_errors(obj, old)

    def warnings(self, obj: Object, old: Object | None, ctx: WriteContext) -> Sequence[str]:
        return () if ctx.subresource else _warnings(obj)


def _default_affinity(spec: Object) -> None:
    affinity = spec["sessionAffinity"] = get_string(spec, "sessionAffinity") or "None"
    if affinity == "None":
        spec.pop("sessionAffinityConfig", None)
    elif affinity == "ClientIP" and dig(spec, "sessionAffinityConfig", "clientIP", "timeoutSeconds") is None:
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}


def _keep_allocated(new: Object, before: Object) -> None:
    """Copy allocated values that the new object does not mention, so that a manifest can be applied again."""
    if before.get("type") != "ExternalName" and new.get("type") != "ExternalName":
        if not new.get("clusterIP") and before.get("clusterIP"):
            new["clusterIP"] = before["clusterIP"]
        if not new.get("clusterIPs") and before.get("clusterIPs"):
            new["clusterIPs"] = list(before["clusterIPs"])
    if has_node_ports(before) and has_node_ports(new):
        kept = {port.get("name"): port.get("nodePort") for port in get_list(before, "ports")}
        used = set(kept.values()) & {port.get("nodePort") for port in get_list(new, "ports")}
        for port in get_list(new, "ports"):
            number = kept.get(port.get("name"))
            if not port.get("nodePort") and number and number not in used:
                port["nodePort"] = number
    if needs_health_check(before) and needs_health_check(new) and not new.get("healthCheckNodePort"):
        new["healthCheckNodePort"] = before.get("healthCheckNodePort")


def _align_addresses(new: Object, before: Object) -> None:
    """Let `clusterIPs` follow `clusterIP` for clients that know only the one."""
    one, was = get_string(new, "clusterIP"), get_string(before, "clusterIP")
    many, were = get_list(new, "clusterIPs"), get_list(before, "clusterIPs")
    if were and not many and one == was:
        new["clusterIPs"] = list(were)
    elif one != was and many == were:
        if one:
            new["clusterIPs"] = [one]
        else:
            new.pop("clusterIPs", None)


def _drop_for_type(new: Object, before: Object) -> None:
    """Clear what the new type does not have, where the server may have set it and the client did not change it."""
    kind, was = new.get("type"), before.get("type")
    if was != "ExternalName" and kind == "ExternalName":
        if (new.get("clusterIP"), new.get("clusterIPs")) == (before.get("clusterIP"), before.get("clusterIPs")):
            new.pop("clusterIP", None)
            new.pop("clusterIPs", None)
        for field in ("ipFamilies", "ipFamilyPolicy"):
            if new.get(field) == before.get(field):
                new.pop(field, None)
    if _uses_node_ports(was) and not _uses_node_ports(kind):
        _drop_node_ports(get_list(new, "ports"), get_list(before, "ports"))
    if needs_health_check(before) and not needs_health_check(new):
        _drop_same(new, before, "healthCheckNodePort")
    if was == "LoadBalancer" and kind != "LoadBalancer":
        _drop_same(new, before, "allocateLoadBalancerNodePorts")
        _drop_same(new, before, "loadBalancerClass")
    if is_external(before) and not is_external(new):
        _drop_same(new, before, "externalTrafficPolicy")


def _drop_node_ports(new: Sequence[Object], before: Sequence[Object]) -> None:
    known = {port.get("nodePort") for port in before}
    if all(port.get("nodePort") in known for port in new if port.get("nodePort")):
        for port in new:
            port.pop("nodePort", None)


def _drop_same(new: Object, before: Object, field: str) -> None:
    if new.get(field) == before.get(field):
        new.pop(field, None)


def _uses_node_ports(kind: Any) -> bool:
    return kind in ("NodePort", "LoadBalancer")


def _balancer_errors(obj: Object) -> list[FieldError]:
    path = Path("status.loadBalancer.ingress")
    ingresses: Sequence[Object] = dig(obj, "status", "loadBalancer", "ingress", default=[])
    if ingresses and dig(obj, "spec", "type") != "LoadBalancer":
        return [field_forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")]
    found: list[FieldError] = []
    for index, ingress in enumerate(ingresses):
        at, address, mode = path.at(index), get_string(ingress, "ip"), ingress.get("ipMode")
        if address:
            found += check.ip_address(at / "ip", address)
        if mode is None and address:
            found.append(required(at / "ipMode", "must be specified when `ip` is set"))
        elif mode is not None and not address:
            found.append(field_forbidden(at / "ipMode", "may not be specified when `ip` is not set"))
        elif mode not in (None, "Proxy", "VIP"):
            found.append(not_supported(at / "ipMode", mode, ("Proxy", "VIP")))
        if host := ingress.get("hostname"):
            found += check.dns_subdomain(at / "hostname", host)
            if not check.ip_address("", host):
                found.append(field_invalid(at / "hostname", host, "must be a DNS name, not an IP address"))
    return found


def _warnings(obj: Object) -> list[str]:
    spec: Object = get_object(obj, "spec")
    found: list[str] = []
    if "service.kubernetes.io/topology-aware-hints" in annotations_of(obj):
        found.append(
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, "
            "please use service.kubernetes.io/topology-mode instead"
        )
    external, kind = spec.get("externalIPs"), spec.get("type")
    if kind == "ClusterIP" and is_headless(spec):
        if spec.get("loadBalancerIP"):
            found.append("spec.loadBalancerIP is ignored for headless services")
        if external:
            found.append("spec.externalIPs is ignored for headless services")
        if spec.get("sessionAffinity") != "None":
            found.append("spec.SessionAffinity is ignored for headless services")
    elif external and kind != "ExternalName":
        found.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if kind == "ExternalName" and external:
        found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if kind != "ExternalName" and spec.get("externalName"):
        found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        found.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return found


def _external(obj: Object, spec: Object) -> str:
    own: Sequence[str] = get_list(spec, "externalIPs")
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return columns.join(own)
        case "LoadBalancer":
            ingresses: Sequence[Object] = dig(obj, "status", "loadBalancer", "ingress", default=[])
            given = sorted({item.get("ip") or get_string(item, "hostname") for item in ingresses} - {""})
            return columns.join([*given, *own], "<pending>")
        case "ExternalName":
            return get_string(spec, "externalName")
        case _:
            return columns.UNKNOWN


def _port(port: Object) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node}/{port.get('protocol')}"


STRATEGIES = {("", "v1", "Service"): Service(), **endpoints.STRATEGIES}
