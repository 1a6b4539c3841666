"""Updates the router and the DNS server when Services, EndpointSlices or NetworkPolicies change."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from steersman.cache import Cache, Change
from steersman.client import AlreadyExists, Client, NotFound
from steersman.k8s import Service
from steersman.k8s.discovery_v1 import EndpointSlice
from steersman.telemetry.log import get_logger
from steersman_cluster.nodes.network.addresses import DNS_ADDRESS
from steersman_cluster.nodes.network.cluster_network import ClusterNetwork, NetworkError
from steersman_cluster.nodes.network.dnsserver import DNSServer
from steersman_cluster.nodes.network.node_ports import NodePorts, node_ports_of
from steersman_cluster.nodes.network.policy_sync import PolicySync
from steersman_cluster.nodes.network.resolver import DNS_SERVICE_ADDRESS
from steersman_cluster.nodes.network.services import ServiceName, ServiceStore, entries_of
from steersman_cluster.objects import Object

__all__ = ["ServiceSync"]

DNS_PORT: Final = 53
_SYNC_SECONDS: Final = 30.0
_log = get_logger("network")


class ServiceSync:
    """Watches Services with the client of the nodes; `start` returns when the existing Services work."""

    def __init__(self, client: Client, network: ClusterNetwork) -> None:
        self.store = ServiceStore()
        self._raw = client.raw
        self._network = network
        self._cache = Cache(client)
        self._dns = DNSServer(self.store)
        self._policies = PolicySync(client, network)
        self._node_ports = NodePorts(network, next(iter(network.node_addresses.values())))
        self._dirty: set[ServiceName] = set()
        self._scheduled = False
        self._cache.informer(Service).add_handler(self._service_changed)
        self._cache.informer(EndpointSlice).add_handler(self._slice_changed)

    async def start(self) -> None:
        """Watch, serve DNS, and create the Service of the DNS server. Raises `OSError` and the errors of the client."""
        datagrams = self._network.listener("udp", DNS_ADDRESS, DNS_PORT)
        stream = self._network.listener("tcp", DNS_ADDRESS, DNS_PORT)
        await self._dns.start(datagrams, stream)
        await self._create_dns_service()
        await self._cache.start()
        await self._cache.wait_synced(_SYNC_SECONDS)
        self._flush()
        self._node_ports.start()
        await self._policies.start()

    async def close(self) -> None:
        """Stop watching and serving. Safe to call twice."""
        await self._policies.close()
        await self._node_ports.close()
        await self._cache.close()
        await self._dns.close()

    def _service_changed(self, change: Change) -> None:
        if change.new is None:
            name = (change.key.namespace, change.key.name)
            self.store.drop_service(name)
        else:
            name = self.store.put_service(msgspec.json.decode(change.new.raw()))
        self._mark({name})

    def _slice_changed(self, change: Change) -> None:
        if change.new is None:
            self._mark(self.store.drop_slice((change.key.namespace, change.key.name)))
        else:
            self._mark(self.store.put_slice(msgspec.json.decode(change.new.raw())))

    def _mark(self, names: set[ServiceName]) -> None:
        """Update these Services, together with all changes of this iteration of the event loop."""
        self._dirty |= names
        if self._dirty and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        names, self._dirty = self._dirty, set()
        nodes = list(self._network.node_addresses.values())
        for name in names:
            self._node_ports.put(name, node_ports_of(self.store.services.get(name)))
            try:
                self._network.set_service("/".join(name), entries_of(self.store, name, nodes))
            except NetworkError as problem:
                _log.warning("service_not_routed", service="/".join(name), problem=str(problem))

    async def _create_dns_service(self) -> None:
        """Create the Service `kube-dns` with an EndpointSlice for this DNS server."""
        for path, body in _dns_objects():
            try:
                await self._raw.request("POST", path, body=msgspec.json.encode(body), timeout=10.0)
            except AlreadyExists:
                continue
            except NotFound:
                _log.warning("dns_service_not_created", problem="the namespace kube-system does not exist")
                return


def _dns_objects() -> list[tuple[str, Object]]:
    labels = {"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"}
    ports: list[dict[str, Any]] = [
        {"name": "dns", "port": DNS_PORT, "protocol": "UDP"},
        {"name": "dns-tcp", "port": DNS_PORT, "protocol": "TCP"},
    ]
    service: Object = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": labels},
        "spec": {"clusterIP": DNS_SERVICE_ADDRESS, "ports": ports},
    }
    slice_: Object = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kube-dns",
            "namespace": "kube-system",
            "labels": {"kubernetes.io/service-name": "kube-dns", **labels},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [DNS_ADDRESS], "conditions": {"ready": True}}],
        "ports": ports,
    }
    return [
        ("/api/v1/namespaces/kube-system/services", service),
        ("/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices", slice_),
    ]
