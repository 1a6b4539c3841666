"""Services and their EndpointSlices, for the router and the DNS server. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from steersman_cluster.nodes.network.addresses import packed
from steersman_cluster.objects import Object, dig, labels_of, name_of, namespace_of

__all__ = ["PROTOCOLS", "ServiceName", "ServiceStore", "entries_of", "host_port_entries"]

PROTOCOLS: Final = {"TCP": 6, "UDP": 17}
ServiceName = tuple[str, str]
"""Namespace and name."""
_SERVICE_LABEL: Final = "kubernetes.io/service-name"


@dataclass(slots=True)
class ServiceStore:
    """All Services with their EndpointSlices."""

    services: dict[ServiceName, Object] = field(default_factory=dict[ServiceName, Object])
    slices: dict[ServiceName, dict[str, Object]] = field(default_factory=dict[ServiceName, dict[str, Object]])
    namespaces: dict[str, int] = field(default_factory=dict[str, int])
    """The number of Services by namespace."""
    _owners: dict[ServiceName, ServiceName] = field(default_factory=dict[ServiceName, ServiceName])

    def put_service(self, service: Object) -> ServiceName:
        """Store a new version of a Service; returns its name."""
        name = (namespace_of(service), name_of(service))
        if name not in self.services:
            self.namespaces[name[0]] = self.namespaces.get(name[0], 0) + 1
        self.services[name] = service
        return name

    def drop_service(self, name: ServiceName) -> None:
        """Remove a deleted Service."""
        if self.services.pop(name, None) is not None:
            self.namespaces[name[0]] -= 1
            if not self.namespaces[name[0]]:
                del self.namespaces[name[0]]

    def put_slice(self, slice_: Object) -> set[ServiceName]:
        """Store an EndpointSlice; return the Services that it changes."""
        key = (namespace_of(slice_), name_of(slice_))
        changed = self.drop_slice(key)
        service = labels_of(slice_).get(_SERVICE_LABEL)
        if service:
            owner = (key[0], service)
            self.slices.setdefault(owner, {})[key[1]] = slice_
            self._owners[key] = owner
            changed.add(owner)
        return changed

    def drop_slice(self, key: ServiceName) -> set[ServiceName]:
        """Remove an EndpointSlice; return the Services that this changes."""
        owner = self._owners.pop(key, None)
        if owner is None:
            return set()
        slices = self.slices[owner]
        slices.pop(key[1], None)
        if not slices:
            del self.slices[owner]
        return {owner}

    def ready_endpoints(self, name: ServiceName) -> Iterator[tuple[Object, list[Object]]]:
        """Yield the ready IPv4 endpoints of a Service, each with the ports of its slice."""
        seen: set[tuple[str, str]] = set()
        for _, slice_ in sorted(self.slices.get(name, {}).items()):
            if slice_.get("addressType") != "IPv4":
                continue
            ports: list[Object] = slice_.get("ports") or []
            for endpoint in slice_.get("endpoints") or ():
                address = next(iter(endpoint.get("addresses") or ()), "")
                if not address or dig(endpoint, "conditions", "ready") is False:
                    continue
                identity = (address, str(ports))
                if identity not in seen:
                    seen.add(identity)
                    yield endpoint, ports


def is_headless(service: Object) -> bool:
    """Return whether a Service is headless."""
    return dig(service, "spec", "clusterIP", default="") == "None"


def cluster_addresses(service: Object) -> list[str]:
    """Return the IPv4 cluster addresses of a Service; none for headless and external ones."""
    spec: Object = service.get("spec") or {}
    every: list[str] = spec.get("clusterIPs") or [spec.get("clusterIP") or ""]
    return [address for address in every if address and address != "None" and ":" not in address]


def entries_of(store: ServiceStore, name: ServiceName, nodes: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the router's entries of one Service: protocol, address and port in hexadecimal, with their endpoints."""
    service = store.services.get(name)
    if service is None or dig(service, "spec", "type") == "ExternalName":
        return {}
    spec: Object = service["spec"]
    affinity = 0.0
    if spec.get("sessionAffinity") == "ClientIP":
        affinity = float(dig(spec, "sessionAffinityConfig", "clientIP", "timeoutSeconds", default=10800))
    ready = list(store.ready_endpoints(name))
    entries: dict[str, dict[str, Any]] = {}
    inside = [*cluster_addresses(service), *(spec.get("externalIPs") or ()), *_ingress(service)]
    for port in spec.get("ports") or ():
        protocol = PROTOCOLS.get(port.get("protocol") or "TCP")
        if protocol is None:
            continue
        endpoints = _endpoints(ready, port)
        fields = {"endpoints": endpoints, "affinity_seconds": affinity}
        for address in inside:
            local = spec.get("internalTrafficPolicy") == "Local"
            entries[_key(protocol, address, port["port"])] = {**fields, "local": local}
        if port.get("nodePort"):
            for address in nodes:
                entries[_key(protocol, address, port["nodePort"])] = {**fields, "local": False}
    return entries


def host_port_entries(address: str, node_address: str, node: str, ports: Iterable[Object]) -> dict[str, dict[str, Any]]:
    """Return the router's entries for the container ports of one Pod that have a `hostPort`."""
    entries: dict[str, dict[str, Any]] = {}
    for port in ports:
        protocol = PROTOCOLS.get(port.get("protocol") or "TCP")
        if protocol is not None:
            host = port.get("hostIP") or ""
            host = node_address if host in ("", "0.0.0.0", "::") else host  # noqa: S104 - a comparison
            endpoints = [(packed(address).hex(), int(port["containerPort"]), node)]
            entries[_key(protocol, host, port["hostPort"])] = {
                "endpoints": endpoints,
                "affinity_seconds": 0.0,
                "local": False,
            }
    return entries


def _ingress(service: Object) -> list[str]:
    every: list[Object] = dig(service, "status", "loadBalancer", "ingress", default=[])
    return [one["ip"] for one in every if one.get("ip") and ":" not in one["ip"]]


def _endpoints(ready: list[tuple[Object, list[Object]]], port: Object) -> list[tuple[str, int, str]]:
    found: list[tuple[str, int, str]] = []
    for endpoint, ports in ready:
        for candidate in ports:
            same = (candidate.get("name") or "") == (port.get("name") or "")
            if (
                same
                and (candidate.get("protocol") or "TCP") == (port.get("protocol") or "TCP")
                and candidate.get("port")
            ):
                address: str = endpoint["addresses"][0]
                found.append((packed(address).hex(), int(candidate["port"]), endpoint.get("nodeName") or ""))
    return found


def _key(protocol: int, address: str, port: int) -> str:
    return (bytes([protocol]) + packed(address) + int(port).to_bytes(2)).hex()
