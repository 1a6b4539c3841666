"""The installation of an operator, and its Pods on the node: processes, logs, times."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from steersman.documents import load_all
from steersman.testing import AuditEvent
from steersman.testing.real_node import RealNode
from steersman.testing.waiting import eventually
from tests.node.commands import REPOSITORY, run
from tests.node.containerd import ctr
from tests.node.operator_images import OperatorImage

RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
"""The label of a namespace whose Pods follow the restricted Pod Security Standard."""

_WITHIN = 120.0
"""Seconds until a Pod of a busy machine is expected to be ready."""


@dataclass(frozen=True)
class Package:
    """The published artefacts of an operator."""

    install: Path
    chart: Path
    name: str
    namespace: str


def package(project: str, directory: Path, image: OperatorImage, *options: str) -> Package:
    """Write `install.yaml` and the Helm chart of `operators/PROJECT`, as the project's makers do."""
    install, chart = directory / "install.yaml", directory / "chart"
    words = ["manifests", "--output-dir", directory / "config", "--install", install, "--helm", chart]
    run(
        sys.executable,
        "-m",
        "steersman",
        *words,
        "--image",
        image.name,
        *options,
        cwd=REPOSITORY / "operators" / project,
    )
    objects = [document.value for document in load_all(install.read_text())]
    (deployment,) = [one for one in objects if one["kind"] == "Deployment"]
    return Package(install, chart, deployment["metadata"]["name"], deployment["metadata"]["namespace"])


@dataclass(frozen=True)
class Process:
    """The first process of a container, by its id in the namespaces of the node."""

    pid: int
    started: float
    """In seconds since the epoch; the kernel counts in hundredths."""
    status: dict[str, str]
    """The lines of `/proc/PID/status`."""

    @property
    def rss_bytes(self) -> int:
        """The resident memory."""
        return int(self.status["VmRSS"].split()[0]) * 1024

    @property
    def anonymous_bytes(self) -> int:
        """The resident memory without mapped files, which the kernel can write back and release."""
        return int(self.status["RssAnon"].split()[0]) * 1024


class Installed:
    """An operator on the node."""

    def __init__(self, node: RealNode, name: str, namespace: str, *, since: float = 0.0) -> None:
        """Record the place of the operator.

        Args:
            node: The cluster.
            name: The name of its Deployment and of its Lease.
            namespace: Its namespace.
            since: The time of the installation in seconds since the epoch; requests before it are ignored.
        """
        self.node = node
        self.name = name
        self.namespace = namespace
        self.since = since
        self.available_after = 0.0
        """Seconds from the installation until the Deployment was available and a replica led."""

    @property
    def user(self) -> str:
        """The user name of its ServiceAccount."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    def pods(self) -> list[dict[str, Any]]:
        """Return its Pods without those that end."""
        found = self.node.list("pods", namespace=self.namespace, labels=f"app.kubernetes.io/name={self.name}")
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def lease(self) -> dict[str, Any] | None:
        """Return the spec of its Lease, or None."""
        found = self.node.get("lease", self.name, namespace=self.namespace)
        return None if found is None else found["spec"]

    def wait_available(self) -> None:
        """Wait until the Deployment is available in its newest version, and a replica leads."""
        self.node.wait("deployment", self.name, _rolled_out, namespace=self.namespace, within=_WITHIN)
        eventually(self.leader, within=_WITHIN, what="a leader")

    def leader(self) -> dict[str, Any]:
        """Return the Pod that leads. Raises `LookupError` if none does."""
        holder = (self.lease() or {}).get("holderIdentity") or ""
        for pod in self.pods():
            if pod["metadata"]["uid"] in holder or pod["metadata"]["name"] in holder:
                return pod
        raise LookupError(f"no Pod of {self.name} has the lease; its holder is {holder!r}")

    def process(self, pod: dict[str, Any]) -> Process:
        """Return the first process of the Pod's only container."""
        container = pod["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
        tasks = ctr(self.node, "tasks", "list").splitlines()
        (pid,) = [int(line.split()[1]) for line in tasks if line.startswith(container)]
        lines = self.node.inside("cat", f"/proc/{pid}/status").splitlines()
        ticks = int(self.node.inside("cat", f"/proc/{pid}/stat").rpartition(")")[2].split()[19])
        booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        status = {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
        return Process(pid, booted + ticks / 100, status)

    def led_since(self) -> float:
        """Return the time at which the leader acquired the lease, in seconds since the epoch."""
        return datetime.fromisoformat((self.lease() or {})["acquireTime"]).timestamp()

    def log(self) -> list[dict[str, Any]]:
        """Return the log lines of all its Pods that have started; a line that is not JSON fails the test."""
        lines: list[dict[str, Any]] = []
        for pod in filter(_has_started, self.pods()):
            text = self.node.kubectl("logs", f"--namespace={self.namespace}", pod["metadata"]["name"])
            lines += [json.loads(line) for line in text.splitlines()]
        return lines

    def errors(self) -> list[dict[str, Any]]:
        """Return its log lines of the levels error and critical."""
        return [line for line in self.log() if line.get("level") in ("error", "critical")]

    def check_log(self) -> None:
        """Fail with the log lines of the levels error and critical, if there are any."""
        found = self.errors()
        assert not found, "\n".join(json.dumps(line) for line in found)

    def refusals(self, since: float = 0.0) -> list[str]:
        """Return its requests that RBAC refused; `since` is in seconds since the epoch.

        Other refusals have the same status, such as that of new objects in a namespace that is being deleted.
        """
        since = max(since, self.since)
        found = (one for one in self.node.audit_events(user=self.user) if one.received.timestamp() >= since)
        return [f"{one.verb} {one.uri}" for one in found if _is_forbidden(one)]


@contextmanager
def installed(node: RealNode, shipped: Package) -> Iterator[Installed]:
    """Install an operator in a namespace with the restricted policy, and delete it at the end.

    Args:
        node: The cluster, which has the image of the operator.
        shipped: The artefacts of the operator.
    """
    began = time.time()
    node.kubectl("apply", "--server-side", "-f", str(shipped.install))
    node.kubectl("label", "namespace", shipped.namespace, RESTRICTED)
    found = Installed(node, shipped.name, shipped.namespace, since=began)
    found.wait_available()
    found.available_after = time.time() - began
    yield found
    node.kubectl("delete", "--wait=true", "-f", str(shipped.install), timeout=120)


def check_rights(status: Mapping[str, str]) -> None:
    """Fail if a process has rights on its machine.

    Args:
        status: The lines of `/proc/PID/status`.
    """
    assert status["Uid"].split() == ["65532"] * 4
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert int(status["CapEff"], 16) == 0
    assert int(status["CapBnd"], 16) == 0


def _is_forbidden(event: AuditEvent) -> bool:
    return event.raw.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"


def _has_started(pod: dict[str, Any]) -> bool:
    """Whether the container has run: the others have no log."""
    statuses = pod["status"].get("containerStatuses", ())
    return any("waiting" not in one["state"] or one["restartCount"] for one in statuses)


def _rolled_out(deployment: dict[str, Any]) -> bool:
    status, replicas = deployment.get("status", {}), deployment["spec"]["replicas"]
    return (
        status.get("observedGeneration") == deployment["metadata"]["generation"]
        and status.get("updatedReplicas") == replicas
        and status.get("availableReplicas") == replicas
        and status.get("replicas") == replicas
    )
