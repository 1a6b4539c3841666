"""The Service `kubernetes` of the API server, its Endpoints and EndpointSlice, and the default ServiceCIDR.

The API server stores them when a cluster begins, writes its address when it starts to listen, and restores them when a
client deletes them.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from steersman_cluster.api.interfaces import Server
from steersman_cluster.kinds.services.addresses import SERVICE_RANGE
from steersman_cluster.objects import Object
from steersman_cluster.strategy import User

__all__ = ["KubernetesService"]

NAME: Final = "kubernetes"
NAMESPACE: Final = "default"
DEFAULT_PORT: Final = 6443
SERVICES: Final = ("", "services")
ENDPOINTS: Final = ("", "endpoints")
SLICES: Final = ("discovery.k8s.io", "endpointslices")
RANGES: Final = ("networking.k8s.io", "servicecidrs")
_RESTORED: Final = frozenset((SERVICES, ENDPOINTS, SLICES))
_CLUSTER_IP: Final = str(SERVICE_RANGE[1])


class KubernetesService:
    """Keeps these objects in the storage of one API server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._address = "127.0.0.1"
        self._port = DEFAULT_PORT

    def store(self) -> None:
        """Store the objects that are missing."""
        for place, obj in self._objects():
            if self._server.storage.get(place, obj["metadata"].get("namespace", ""), NAME) is None:
                self._put(place, obj)

    def publish(self, host: str, port: int) -> None:
        """Write the address at which the API server listens, if it has changed."""
        self._address, self._port = _reachable(host), port
        for place, obj in self._objects():
            item = self._server.storage.get(place, obj["metadata"].get("namespace", ""), NAME)
            if item is None:
                self._put(place, obj)
                continue
            stored = item.object()
            changed = {field: obj[field] for field in ("subsets", "endpoints", "ports") if field in obj}
            if place == SERVICES:
                ports = [{**port, "targetPort": self._port} for port in stored["spec"]["ports"]]
                changed = {"spec": {**stored["spec"], "ports": ports}}
            if any(stored.get(field) != value for field, value in changed.items()):
                self._put(place, {**stored, **changed})

    @staticmethod
    def restores(place: tuple[str, str], namespace: str, name: str) -> bool:
        """Return whether a deleted object has to be stored again."""
        return name == NAME and namespace == NAMESPACE and place in _RESTORED

    def _put(self, place: tuple[str, str], obj: Object) -> None:
        self._server.storage.put(place, obj["metadata"].get("namespace", ""), NAME, obj)

    def _objects(self) -> list[tuple[tuple[str, str], Object]]:
        now, new_uid = self._server.context(User("system:apiserver")).now, self._server.new_uid
        common = {"name": NAME, "namespace": NAMESPACE, "creationTimestamp": now}
        port = {"name": "https", "port": self._port, "protocol": "TCP"}
        return [
            (
                SERVICES,
                {
                    "kind": "Service",
                    "apiVersion": "v1",
                    "metadata": {
                        **common,
                        "uid": new_uid(),
                        "labels": {"component": "apiserver", "provider": "kubernetes"},
                    },
                    "spec": {
                        "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": self._port}],
                        "clusterIP": _CLUSTER_IP,
                        "clusterIPs": [_CLUSTER_IP],
                        "type": "ClusterIP",
                        "sessionAffinity": "None",
                        "ipFamilies": ["IPv4"],
                        "ipFamilyPolicy": "SingleStack",
                        "internalTrafficPolicy": "Cluster",
                    },
                    "status": {"loadBalancer": {}},
                },
            ),
            (
                ENDPOINTS,
                {
                    "kind": "Endpoints",
                    "apiVersion": "v1",
                    "metadata": {
                        **common,
                        "uid": new_uid(),
                        "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
                    },
                    "subsets": [{"addresses": [{"ip": self._address}], "ports": [port]}],
                },
            ),
            (
                SLICES,
                {
                    "kind": "EndpointSlice",
                    "apiVersion": "discovery.k8s.io/v1",
                    "metadata": {
                        **common,
                        "uid": new_uid(),
                        "generation": 1,
                        "labels": {"kubernetes.io/service-name": NAME},
                    },
                    "addressType": f"IPv{ipaddress.ip_address(self._address).version}",
                    "endpoints": [{"addresses": [self._address], "conditions": {"ready": True}}],
                    "ports": [port],
                },
            ),
            (
                RANGES,
                {
                    "kind": "ServiceCIDR",
                    "apiVersion": "networking.k8s.io/v1",
                    "metadata": {
                        "name": NAME,
                        "uid": new_uid(),
                        "creationTimestamp": now,
                        "finalizers": ["networking.k8s.io/service-cidr-finalizer"],
                    },
                    "spec": {"cidrs": [str(SERVICE_RANGE)]},
                    "status": {
                        "conditions": [
                            {
                                "type": "Ready",
                                "status": "True",
                                "lastTransitionTime": now,
                                "reason": "",
                                "message": "Kubernetes Service CIDR is ready",
                            }
                        ]
                    },
                },
            ),
        ]


def _reachable(host: str) -> str:
    """Return the address at which clients on this machine reach a server that listens on `host`."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "127.0.0.1"
    if address.is_unspecified:
        return "::1" if address.version == 6 else "127.0.0.1"
    return str(address)
