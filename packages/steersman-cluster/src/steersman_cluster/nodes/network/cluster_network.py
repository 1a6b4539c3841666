"""The network of one cluster: attaches Pods and nodes, and opens connections into the network."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steersman_cluster.kubelet import Connection
from steersman_cluster.nodes.network.addresses import (
    API_ADDRESS,
    GATEWAY_ADDRESS,
    PodAddresses,
    is_inside,
    node_address,
    packed,
)
from steersman_cluster.nodes.network.control import NetworkError, RouterProcess, SocketKind
from steersman_cluster.nodes.network.forwarder import Forwarder
from steersman_cluster.nodes.network.host_ports import open_host_ports
from steersman_cluster.nodes.network.services import host_port_entries
from steersman_cluster.objects import Object

__all__ = ["Attachment", "ClusterNetwork", "NetworkError", "Rule"]


@dataclass(frozen=True, slots=True)
class Attachment:
    """A network namespace with an address, for processes to enter."""

    address: str
    namespace: int
    """A descriptor of the namespace; closed when it is detached."""
    user: int | None
    """A descriptor of the user namespace to enter first, if there is one."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A fault between addresses; an empty tuple matches each address."""

    sources: tuple[str, ...]
    destinations: tuple[str, ...]
    drop: float = 0.0
    delay_seconds: float = 0.0
    jitter_seconds: float = 0.0


class ClusterNetwork:
    """A network of namespaces. It ends with `close`, or with this process."""

    def __init__(self, router: RouterProcess) -> None:
        self.node_addresses: dict[str, str] = {}
        """The addresses of nodes by name."""
        self._router = router
        self._attached: dict[str, Attachment] = {}
        self._addresses = PodAddresses()
        self._rules: dict[str, tuple[Rule, ...]] = {}
        self._policies: dict[str, Mapping[str, Any]] = {}
        self._host_ports: dict[str, list[Forwarder]] = {}
        """The host ports of Pods by address of the Pod."""

    @classmethod
    async def start(cls) -> ClusterNetwork:
        """Start a network. Raises `NetworkError` if this machine does not allow it."""
        return cls(await asyncio.to_thread(RouterProcess.start))

    async def close(self) -> None:
        """End the network. Safe to call twice."""
        for host_port in itertools.chain.from_iterable(self._host_ports.values()):
            host_port.close()
        self._host_ports.clear()
        for address in list(self._attached):
            os.close(self._attached.pop(address).namespace)
        await asyncio.to_thread(self._router.close)

    # Pods and nodes.

    def add_node(self, name: str) -> Attachment:
        """Attach a node with the next node address. Raises `NetworkError`."""
        address = node_address(len(self.node_addresses) + 1)
        self.node_addresses[name] = address
        return self._attach(address, name)

    def add_pod(self, node: str) -> Attachment:
        """Attach a Pod of a node, with a new address. Raises `OSError` if no address is left."""
        address = self._addresses.take()
        try:
            return self._attach(address, node)
        except BaseException:
            self._addresses.give_back(address)
            raise

    def remove_pod(self, attachment: Attachment) -> None:
        """Detach a Pod. Safe to call twice."""
        if self._attached.pop(attachment.address, None) is None:
            return
        os.close(attachment.namespace)
        self._router.command("remove", address=packed(attachment.address).hex())
        host_ports = self._host_ports.pop(attachment.address, None)
        if host_ports is not None:
            self.set_service(f"host ports of {attachment.address}", {})
            for host_port in host_ports:
                host_port.close()
        self._addresses.give_back(attachment.address)

    def set_host_ports(self, address: str, node: str, containers: Iterable[Object]) -> None:
        """Forward the host ports of a Pod's containers, at the addresses of the node, to the Pod."""
        ports = [port for container in containers for port in container.get("ports") or () if port.get("hostPort")]
        if not ports:
            return
        node_address = self.node_addresses[node]
        host_ports = self._host_ports[address] = []
        self.set_service(f"host ports of {address}", host_port_entries(address, node_address, node, ports))
        for port in ports:
            host_ports += open_host_ports(self, node_address, address, port)

    def attachment(self, address: str) -> Attachment | None:
        """Return the namespace that has an address."""
        return self._attached.get(address)

    def _attach(self, address: str, node: str) -> Attachment:
        _, (namespace,) = self._router.command("add", addresses=[packed(address).hex()], node=node)
        attachment = self._attached[address] = Attachment(address, namespace, self._router.user)
        return attachment

    @property
    def user_namespace(self) -> int | None:
        """Return a descriptor of the user namespace of the network, if it has one."""
        return self._router.user

    # Connections.

    def socket(self, kind: SocketKind = "tcp", *, within: str = "", source: str = GATEWAY_ADDRESS) -> socket.socket:
        """Return a socket of the network: in the namespace of the address `within`, or with the source `source`."""
        return self._router.socket(kind, within=within, host="" if within else source)

    def listener(self, kind: SocketKind, address: str, port: int, *, within: str = "") -> socket.socket:
        """Return a socket that is bound, and for TCP listens, at an address of the gateway, or of `within`."""
        return self._router.socket(kind, within=within, host=address, port=port, listen=True)

    def socket_for(self, address_info: Sequence[Any]) -> socket.socket:
        """Return a socket for an entry of `getaddrinfo`, in the network if the address belongs to it."""
        family, kind, protocol, _, target = address_info
        if is_inside(str(target[0])):
            return self.socket(source=API_ADDRESS)
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)  # noqa: FBT003 - a positional parameter of sockets
        return made

    async def connect(self, host: str, port: int, *, within: str = "", source: str = GATEWAY_ADDRESS) -> Connection:
        """Connect to an address of the network, or `within` a Pod's namespace to one of the Pod. Raises `OSError`."""
        made = self.socket(within=within, source=source)
        try:
            await asyncio.get_running_loop().sock_connect(made, (host, port))
            return await asyncio.open_connection(sock=made)
        except BaseException:
            made.close()
            raise

    # Services and faults.

    def set_service(self, name: str, entries: Mapping[str, Mapping[str, Any]]) -> None:
        """Replace the router's entries of a Service."""
        self._router.command("service", name=name, entries=entries)

    def set_policies(self, pods: Mapping[str, Mapping[str, Any]]) -> None:
        """Replace the rules of all NetworkPolicies with the result of `policies.allowed_of`."""
        if pods != self._policies:
            self._policies = dict(pods)
            self._router.command("policies", pods=pods)

    def set_faults(self, name: str, rules: Sequence[Rule]) -> None:
        """Replace the rules of the fault `name`; an empty list removes it."""
        self._rules.pop(name, None)
        if rules:
            self._rules[name] = tuple(rules)
        every = [rule for some in self._rules.values() for rule in some]
        self._router.command("faults", rules=[_fields_of(rule) for rule in every])


def _fields_of(rule: Rule) -> dict[str, Any]:
    return {
        "sources": [packed(address).hex() for address in rule.sources],
        "destinations": [packed(address).hex() for address in rule.destinations],
        "drop": rule.drop,
        "delay_seconds": rule.delay_seconds,
        "jitter_seconds": rule.jitter_seconds,
    }
