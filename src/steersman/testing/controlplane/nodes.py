"""Simulated nodes: Node objects kept Ready, and Pods that become Ready without containers.

A real control plane has no kubelet. The scheduler binds Pods to a Ready Node with a renewed lease. `SimulatedNodes`
then does the kubelet's writes: it reports bound Pods as running and removes terminating ones. No container and no
probe runs.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from steersman.testing.cluster_http import MERGE, STRATEGIC, ApiSession, CallError, Unreachable

_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_RENEW_SECONDS = 10.0
_RETRY_SECONDS = 0.2
# Shorter than the session's read timeout, so that the server ends an idle watch.
_WATCH_SECONDS = 8

_Action = Literal["run", "remove"]


class SimulatedNodes:
    """Keeps nodes Ready and, if requested, simulates their Pods; continues after restarts of the API server.

    `connect` opens a separate session for each thread. `ready_after` is the time in seconds until a bound Pod becomes
    Ready; None leaves Pods as the scheduler bound them. Pods with `restartPolicy` Never or OnFailure, such as those of
    Jobs, succeed instead.
    """

    def __init__(self, connect: Callable[[], ApiSession], *, ready_after: float | None) -> None:
        self._connect = connect
        self._ready_after = ready_after
        self._names: set[str] = set()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._due = _Schedule()
        self._seen: set[tuple[str, _Action]] = set()
        self._addresses = itertools.count(1)

    def add(self, name: str, *, capacity: Mapping[str, str], labels: Mapping[str, str]) -> None:
        """Create a Ready node and renew its lease until `close`; raises `CallError` if the name exists."""
        with self._connect() as api:
            api.call("POST", "/api/v1/nodes", _node(name, labels))
            api.call("PATCH", f"/api/v1/nodes/{name}/status", _ready_node(capacity), content_type=STRATEGIC)
            # Admission taints a new node as not ready. The node controller would remove the taint later; without a
            # controller manager the taint would stay.
            api.call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, content_type=MERGE)
            api.call("POST", _LEASES, _lease(name))
        self._names.add(name)
        if not self._threads:
            self._start(self._renew_leases)
            if self._ready_after is not None:
                self._start(self._watch_pods)
                self._start(self._act)

    def close(self) -> None:
        """Stop the renewals; the nodes stay, and become NotReady later."""
        self._stopping.set()
        self._due.wake()
        for thread in self._threads:
            thread.join(timeout=15)

    def _start(self, loop: Callable[[ApiSession], None]) -> None:
        thread = threading.Thread(target=self._repeat, args=(loop,), name=f"nodes-{loop.__name__}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _repeat(self, loop: Callable[[ApiSession], None]) -> None:
        with self._connect() as api:
            while not self._stopping.is_set():
                try:
                    loop(api)
                except (CallError, *Unreachable):
                    self._stopping.wait(_RETRY_SECONDS)

    def _renew_leases(self, api: ApiSession) -> None:
        for name in tuple(self._names):
            api.call("PATCH", f"{_LEASES}/{name}", {"spec": {"renewTime": _micro_now()}}, content_type=MERGE)
        self._stopping.wait(_RENEW_SECONDS)

    def _watch_pods(self, api: ApiSession) -> None:
        pods = api.call("GET", "/api/v1/pods")
        for pod in pods["items"]:
            self._see(pod)
        version = pods["metadata"]["resourceVersion"]
        while not self._stopping.is_set():
            query = f"watch=1&allowWatchBookmarks=true&timeoutSeconds={_WATCH_SECONDS}&resourceVersion={version}"
            for event in api.watch(f"/api/v1/pods?{query}"):
                pod = event["object"]
                if event["type"] == "ERROR":
                    return
                if event["type"] in ("ADDED", "MODIFIED"):
                    self._see(pod)
                elif event["type"] == "DELETED":
                    self._seen -= {(pod["metadata"]["uid"], "run"), (pod["metadata"]["uid"], "remove")}
                version = pod["metadata"]["resourceVersion"]

    def _see(self, pod: dict[str, Any]) -> None:
        if pod["spec"].get("nodeName") not in self._names:
            return
        action, delay = ("remove", 0.0) if pod["metadata"].get("deletionTimestamp") else ("run", self._ready_after)
        if action == "run" and pod["status"].get("phase") != "Pending":
            return
        mark: tuple[str, _Action] = (pod["metadata"]["uid"], action)
        if mark not in self._seen:
            self._seen.add(mark)
            self._due.put(time.monotonic() + (delay or 0.0), (action, pod))

    def _act(self, api: ApiSession) -> None:
        while not self._stopping.is_set():
            if (item := self._due.next()) is None:
                continue
            action, pod = item
            meta = pod["metadata"]
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
            try:
                if action == "remove":
                    options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
                    api.call("DELETE", path, options)
                else:
                    api.call("PATCH", f"{path}/status", self._running(pod), content_type=STRATEGIC)
            except CallError as error:
                # The Pod is gone or replaced: nothing to do. Other problems are retried.
                if error.status not in (404, 409):
                    self._due.put(time.monotonic() + _RETRY_SECONDS, item)
            except Unreachable:
                self._due.put(time.monotonic() + _RETRY_SECONDS, item)

    def _running(self, pod: dict[str, Any]) -> dict[str, Any]:
        now = _now()
        ends = pod["spec"].get("restartPolicy", "Always") != "Always"
        state: dict[str, Any] = {"running": {"startedAt": now}}
        if ends:
            state = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}
        ready = "False" if ends else "True"
        number = next(self._addresses)
        address = f"10.{244 + (number >> 16) % 8}.{number >> 8 & 255}.{number & 255}"
        return {
            # The uid makes the server refuse the patch if the Pod was replaced.
            "metadata": {"uid": pod["metadata"]["uid"]},
            "status": {
                "phase": "Succeeded" if ends else "Running",
                "startTime": now,
                "hostIP": "127.0.0.1",
                "podIP": address,
                "podIPs": [{"ip": address}],
                "conditions": [
                    {"type": kind, "status": status, "lastTransitionTime": now}
                    for kind, status in (("Initialized", "True"), ("ContainersReady", ready), ("Ready", ready))
                ],
                "containerStatuses": [
                    {
                        "name": container["name"],
                        "image": container["image"],
                        "imageID": f"simulated://{container['image']}",
                        "containerID": f"simulated://{pod['metadata']['uid']}/{container['name']}",
                        "ready": not ends,
                        "started": not ends,
                        "restartCount": 0,
                        "state": state,
                    }
                    for container in pod["spec"]["containers"]
                ],
            },
        }


class _Schedule:
    """A schedule of due items: one thread adds them and another removes them."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, tuple[_Action, dict[str, Any]]]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()

    def put(self, when: float, item: tuple[_Action, dict[str, Any]]) -> None:
        with self._changed:
            heapq.heappush(self._heap, (when, next(self._order), item))
            self._changed.notify()

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def next(self) -> tuple[_Action, dict[str, Any]] | None:
        """Return the first due item; None after a wake-up, or if another item may be due earlier."""
        with self._changed:
            wait = self._heap[0][0] - time.monotonic() if self._heap else None
            if wait is not None and wait <= 0:
                return heapq.heappop(self._heap)[2]
            self._changed.wait(wait if wait is not None else _RENEW_SECONDS)
            return None


def _node(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    standard = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**standard, **labels}},
    }


def _ready_node(capacity: Mapping[str, str]) -> dict[str, Any]:
    now = _now()
    healthy = (
        ("Ready", "True", "KubeletReady"),
        ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID"),
    )
    return {
        "status": {
            "capacity": dict(capacity),
            "allocatable": dict(capacity),
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "nodeInfo": dict.fromkeys(
                (
                    "machineID",
                    "systemUUID",
                    "bootID",
                    "kernelVersion",
                    "osImage",
                    "containerRuntimeVersion",
                    "kubeletVersion",
                    "kubeProxyVersion",
                ),
                "simulated",
            )
            | {"operatingSystem": "linux", "architecture": "amd64"},
            "conditions": [
                {
                    "type": kind,
                    "status": status,
                    "reason": reason,
                    "message": "simulated",
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": now,
                }
                for kind, status, reason in healthy
            ],
        }
    }


def _lease(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": _micro_now()},
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
