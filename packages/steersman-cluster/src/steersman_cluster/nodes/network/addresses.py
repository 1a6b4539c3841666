"""The addresses of a cluster's network, which exist only inside its namespaces."""

from __future__ import annotations

import ipaddress
import socket
from itertools import count
from typing import Final

__all__ = [
    "API_ADDRESS",
    "API_PORT",
    "DNS_ADDRESS",
    "GATEWAY_ADDRESS",
    "GATEWAY_ADDRESSES",
    "KUBERNETES_SERVICE",
    "NODES",
    "PODS",
    "PodAddresses",
    "is_inside",
    "node_address",
    "packed",
]

PODS: Final = ipaddress.IPv4Network("10.244.0.0/16")
NODES: Final = ipaddress.IPv4Network("10.245.0.0/16")
SERVICES: Final = ipaddress.IPv4Network("10.0.0.0/16")
GATEWAY_ADDRESS: Final = "10.245.255.254"
"""The source of probes, port-forwarding and proxies."""
API_ADDRESS: Final = "10.245.255.1"
API_PORT: Final = 6443
DNS_ADDRESS: Final = "10.245.255.2"
KUBERNETES_SERVICE: Final = ("10.0.0.1", 443)
"""Address and port of the Service `kubernetes`."""
GATEWAY_ADDRESSES: Final = (GATEWAY_ADDRESS, API_ADDRESS, DNS_ADDRESS)


def packed(address: str) -> bytes:
    """Return the four bytes of an IPv4 address."""
    return socket.inet_aton(address)


def is_inside(host: str) -> bool:
    """Return whether a host is an address of the cluster's network, of a Pod, a node or a Service."""
    try:
        address = ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return any(address in network for network in (PODS, NODES, SERVICES))


def node_address(number: int) -> str:
    """Return the address of the node with this number, from 1."""
    return str(NODES[number])


class PodAddresses:
    """Allocates addresses of Pods; a released address is allocated again only after all others."""

    def __init__(self) -> None:
        self._numbers = count()
        self._used: set[int] = set()

    def take(self) -> str:
        """Allocate a free address. Raises `OSError` if none is left."""
        usable = PODS.num_addresses - 2
        for _ in range(usable):
            number = 1 + next(self._numbers) % usable
            if number not in self._used:
                self._used.add(number)
                return str(PODS[number])
        raise OSError(99, f"all addresses of Pods in {PODS} are taken")

    def give_back(self, address: str) -> None:
        """Release an address, if it is allocated."""
        self._used.discard(int(ipaddress.IPv4Address(address)) - int(PODS.network_address))
