"""The Node object of a node: its capacity, addresses and Ready condition, and its heartbeat by a Lease (KEP-589).

The heartbeat renews the Lease every ten seconds and the status of the Node every five minutes, as a kubelet does. If
the API server is not reachable, the next heartbeat tries again.
"""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from steersman.client import AlreadyExists, Client, ClientError, NotFound
from steersman.telemetry.log import get_logger
from steersman.version import KUBERNETES_VERSION
from steersman_cluster.nodes.status import time_of
from steersman_cluster.objects import Object

__all__ = ["HEARTBEAT", "KUBELET_VERSION", "SIMULATED_CAPACITY", "NodeInfo", "Registration", "machine_capacity"]

SIMULATED_CAPACITY: Final[Mapping[str, str]] = {
    "cpu": "64",
    "memory": "256Gi",
    "pods": "10000",
    "ephemeral-storage": "1Ti",
}
"""The capacity of a simulated node."""
HEARTBEAT: Final = 10.0
_STATUS_EVERY: Final = 300.0
_RETRY: Final = 1.0
KUBELET_VERSION: Final = f"v{KUBERNETES_VERSION}"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"

_log = get_logger("nodes")


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """The name, kind and properties of a node."""

    name: str
    address: str
    runtime: str
    """`simulated` or `process`; shown as the container runtime's name."""
    capacity: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    taints: tuple[Mapping[str, str], ...] = ()
    notes: tuple[tuple[str, bool, str, str], ...] = ()
    """Additional conditions: type, whether true, reason, message."""
    kubelet_port: int = 10250


def node_object(info: NodeInfo) -> Object:
    """Return the Node to create, without status."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    labels = {
        "kubernetes.io/hostname": info.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": machine,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": machine,
        **info.labels,
    }
    spec: Object = {"taints": [dict(t) for t in info.taints]} if info.taints else {}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": info.name, "labels": labels}, "spec": spec}


def node_status(info: NodeInfo, now: float, since: float) -> Object:
    """Return the status of a healthy node."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    well = (
        ("MemoryPressure", False, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", False, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", False, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", True, "KubeletReady", "kubelet is posting ready status"),
        *info.notes,
    )
    return {
        "capacity": dict(info.capacity),
        "allocatable": dict(info.capacity),
        "addresses": [
            {"type": "InternalIP", "address": info.address},
            {"type": "Hostname", "address": info.name},
        ],
        "conditions": [
            {
                "type": kind,
                "status": "True" if true else "False",
                "lastHeartbeatTime": time_of(now),
                "lastTransitionTime": time_of(since),
                "reason": reason,
                "message": message,
            }
            for kind, true, reason, message in well
        ],
        "nodeInfo": {
            "machineID": info.name,
            "systemUUID": info.name,
            "bootID": f"{info.name}-{int(since)}",
            "kernelVersion": platform.release(),
            "osImage": "Steersman embedded cluster",
            "containerRuntimeVersion": f"{info.runtime}://1.0",
            "kubeletVersion": KUBELET_VERSION,
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": machine,
        },
        "daemonEndpoints": {"kubeletEndpoint": {"Port": info.kubelet_port}},
    }


class Registration:
    """Registers one node and sends its heartbeats; `clock` returns seconds since the epoch."""

    def __init__(self, client: Client, info: NodeInfo, clock: Callable[[], float]) -> None:
        self.info = info
        self.uid = ""
        self.silent = False
        """Whether the heartbeats are suspended, which simulates a lost node."""
        self._raw = client.raw
        self._clock = clock
        self._since = clock()
        self._status_due = 0.0

    async def register(self) -> None:
        """Create the Node, or adopt the existing one with this name, and report it as Ready."""
        body = node_object(self.info)
        try:
            answer = await self._send("POST", "/api/v1/nodes", body)
        except AlreadyExists:
            labels = {"metadata": {"labels": body["metadata"]["labels"]}}
            answer = await self._send("PATCH", f"/api/v1/nodes/{self.info.name}", labels, _MERGE)
        self.uid = answer["metadata"]["uid"]
        await self.report()
        await self._renew()

    async def report(self) -> None:
        """Write the status of the Node, with the condition Ready."""
        now = self._clock()
        status = node_status(self.info, now, self._since)
        await self._send("PATCH", f"/api/v1/nodes/{self.info.name}/status", {"status": status}, _STRATEGIC)
        self._status_due = now + _STATUS_EVERY

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        wait = HEARTBEAT
        while True:
            await asyncio.sleep(wait)
            if self.silent:
                continue
            try:
                await self._renew()
                if self._clock() >= self._status_due:
                    await self.report()
                wait = HEARTBEAT
            except NotFound:
                wait = await self._register_again()
            except ClientError as problem:
                _log.debug("heartbeat_failed", node=self.info.name, problem=str(problem))
                wait = _RETRY

    async def _register_again(self) -> float:
        """Register the node again after its Node was deleted."""
        try:
            self._since = self._clock()
            await self.register()
        except ClientError as problem:
            _log.debug("node_reregistration_failed", node=self.info.name, problem=str(problem))
            return _RETRY
        return HEARTBEAT

    async def mark(self, status: str, reason: str, message: str) -> None:
        """Set the Ready condition as the node controller does for a node without heartbeats."""
        now = time_of(self._clock())
        condition = {
            "type": "Ready",
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        patch = {"status": {"conditions": [condition]}}
        await self._send("PATCH", f"/api/v1/nodes/{self.info.name}/status", patch, _STRATEGIC)

    async def recovered(self) -> None:
        """Report the node as Ready again after suspended heartbeats."""
        self._since = self._clock()
        self.silent = False
        await self.report()
        await self._renew()

    async def _renew(self) -> None:
        spec = {
            "holderIdentity": self.info.name,
            "leaseDurationSeconds": 40,
            "renewTime": datetime.fromtimestamp(self._clock(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        path = f"{_LEASES}/{self.info.name}"
        try:
            await self._send("PATCH", path, {"spec": spec}, _MERGE)
            return
        except NotFound:
            pass
        owner = {"apiVersion": "v1", "kind": "Node", "name": self.info.name, "uid": self.uid}
        metadata = {"name": self.info.name, "namespace": "kube-node-lease", "ownerReferences": [owner]}
        await self._send("POST", _LEASES, {"metadata": metadata, "spec": spec})

    async def _send(self, method: str, path: str, body: Object, content_type: str = "application/json") -> Any:
        data = msgspec.json.encode(body)
        response = await self._raw.request(method, path, body=data, content_type=content_type, timeout=10.0)
        return msgspec.json.decode(response.body)


def machine_capacity() -> dict[str, str]:
    """Return the capacity of this machine, for a process node."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024
    return {"cpu": str(os.cpu_count() or 1), "memory": f"{memory}Ki", "pods": "250", "ephemeral-storage": "100Gi"}
