"""A real Kubernetes control plane for tests: etcd, kube-apiserver and, if available, controllers and scheduler.

The processes run on loopback in a temporary directory, with certificates, RBAC, ServiceAccounts and an audit log. They
are ready in seconds and leave nothing behind, even after a kill of the test run. There is no kubelet: `add_node`
creates simulated nodes, and `SimulatedNodes` sets the status of their Pods.

    with ControlPlane.start() as cluster:
        cluster.add_node("node-1")
        cluster.kubectl("apply", "-f", "samples/")

For tests only: data is not synced to disk, and the administrator's key is in the temporary directory.
"""

from __future__ import annotations

import atexit
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import IO, Any, ClassVar, Self

from steersman.testing.cluster import Cluster, ExistingCluster, KubectlError, PolicyRule
from steersman.testing.cluster_http import ApiSession, CallError, client_context
from steersman.testing.controlplane import commands
from steersman.testing.controlplane.audit import AuditEvent, AuditPolicy, UnsupportedError, complete_last_line
from steersman.testing.controlplane.binaries import Binaries, BinariesNotFoundError, available, find_binaries
from steersman.testing.controlplane.commands import Layout, Ports
from steersman.testing.controlplane.files import temporary_directory, write_files
from steersman.testing.controlplane.nodes import SimulatedNodes
from steersman.testing.controlplane.pki import authority
from steersman.testing.controlplane.process import Component, ComponentError, free_ports, wait_until
from steersman.testing.kubeconfigs import certificate_user, cluster_at

__all__ = [
    "AuditEvent",
    "AuditPolicy",
    "Binaries",
    "BinariesNotFoundError",
    "CallError",
    "Cluster",
    "ComponentError",
    "ControlPlane",
    "KubectlError",
    "PolicyRule",
    "UnsupportedError",
    "available",
    "find_binaries",
]

_PORT_ATTEMPTS = 3


class ControlPlane(Cluster):
    """A control plane that this process started with `start`. Use it as a context manager, or call `close`.

    Thread-safe, except that only one thread at a time may start and kill components.
    """

    def __init__(
        self,
        layout: Layout,
        binaries: Binaries,
        *,
        controller_manager: bool,
        scheduler: bool,
        apiserver_args: Sequence[str],
        controller_manager_args: Sequence[str],
        scheduler_args: Sequence[str],
        ready_after: float | None,
        timeout: float,
    ) -> None:
        super().__init__(kubeconfig=layout.kubeconfig("admin"), directory=layout.directory, kubectl=binaries.kubectl())
        self.binaries = binaries
        self.has_controller_manager = controller_manager
        self.has_scheduler = scheduler
        self._layout = layout
        self._apiserver_args = tuple(apiserver_args)
        self._controller_manager_args = tuple(controller_manager_args)
        self._scheduler_args = tuple(scheduler_args)
        self._timeout = timeout
        self._components: dict[str, Component] = {}
        self._nodes = SimulatedNodes(self.session, ready_after=ready_after)
        self._keep_directory = False
        self._alive: IO[bytes] | None = None
        self._closed = False
        self._authority = authority("steersman-test")

    _start_seconds: ClassVar[float] = 60.0
    _needs_controllers: ClassVar[bool] = False
    """Whether the controller manager and the scheduler always run."""

    @classmethod
    def start(
        cls,
        *,
        controller_manager: bool | None = None,
        scheduler: bool | None = None,
        audit: AuditPolicy | None = None,
        apiserver_args: Sequence[str] = (),
        controller_manager_args: Sequence[str] = (),
        scheduler_args: Sequence[str] = (),
        ready_after: float | None = 0.0,
        binaries: Binaries | None = None,
        directory: Path | None = None,
        timeout: float | None = None,
    ) -> Self:
        """Start a control plane and return when it is ready.

        `controller_manager` and `scheduler`: None runs them if their binaries exist, True requires them. The `…_args`
        are more flags; a later flag overrides an earlier one. `ready_after` is the time in seconds after which a Pod
        on a simulated node becomes Ready; None leaves it Pending. `directory` (empty or new) keeps all files and logs
        after `close`. `timeout` is in seconds, for each wait; the default is 60, and 120 for a real node.

        Raises:
            BinariesNotFoundError: A binary is missing.
            ComponentError: A component ended or did not become ready; the message has the end of its log.
        """
        cls._check_machine()
        found = binaries or find_binaries()
        if cls._needs_controllers:
            controller_manager = scheduler = True
        if controller_manager:
            found.require("kube-controller-manager", "controller_manager=True")
        if scheduler:
            found.require("kube-scheduler", "scheduler=True")
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            home, alive = (directory.absolute(), None) if directory else temporary_directory()
            plane = cls(
                Layout(home, Ports(*free_ports(5))),
                found,
                controller_manager=_is_enabled(found, "kube-controller-manager", asked=controller_manager),
                scheduler=_is_enabled(found, "kube-scheduler", asked=scheduler),
                apiserver_args=apiserver_args,
                controller_manager_args=controller_manager_args,
                scheduler_args=scheduler_args,
                ready_after=ready_after,
                timeout=cls._start_seconds if timeout is None else timeout,
            )
            plane._keep_directory = directory is not None
            plane._alive = alive
            try:
                plane._start(audit or AuditPolicy())
            except ComponentError as error:
                plane.close()
                # Another process took one of the ports before the component did.
                if "address already in use" not in str(error) or attempt == _PORT_ATTEMPTS:
                    raise
            except BaseException:
                plane.close()
                raise
            else:
                return plane
        raise AssertionError("unreachable")

    @classmethod
    def _check_machine(cls) -> None:
        """Raise an error if this machine cannot run the cluster."""

    @classmethod
    def existing(cls, kubeconfig: Path | str | None = None) -> Cluster:
        """Use the cluster behind a kubeconfig (default `$KUBECONFIG`, else `~/.kube/config`).

        The result has the same interface; calls that need access to the processes raise `UnsupportedError`. Raises
        `CallError` if the cluster is unreachable.
        """
        path = kubeconfig or os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config"
        return ExistingCluster(Path(path))

    @property
    def server(self) -> str:
        """The API server's address, `https://127.0.0.1:<port>`."""
        return self._layout.server

    @property
    def ca_pem(self) -> bytes:
        """The authority that signs the API server's certificate and all client certificates."""
        return self._authority.cert_pem

    @property
    def audit_log(self) -> Path:
        """The audit log file."""
        return self._layout.audit_log

    @property
    def pids(self) -> Mapping[str, int]:
        """The process ids of the running components, by name."""
        return {name: component.pid for name, component in self._components.items() if component.running}

    def log(self, component: str) -> Path:
        """Return the log file of `etcd`, `kube-apiserver`, `kube-controller-manager` or `kube-scheduler`."""
        return self._layout.log(component)

    def session(self, *, timeout: float = 10.0) -> ApiSession:
        """A new connection as the administrator; close it after use. `timeout` is in seconds, for each response."""
        tls = client_context(self.ca_pem, str(self._layout.pki("admin.crt")), str(self._layout.pki("admin.key")))
        return ApiSession("127.0.0.1", self._layout.ports.apiserver, tls, timeout=timeout)

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send one request as the administrator, and return the response. Raises `CallError`."""
        with self.session() as api:
            return api.call(method, path, body)

    def create_namespace(self, name: str) -> None:
        """Create a namespace, and wait for its default ServiceAccount if a controller creates it."""
        with self.session() as api:
            api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
            if self.has_controller_manager:
                account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
                self._wait(lambda: api.ready(account), f"ServiceAccount default in namespace {name}")

    def add_node(
        self,
        name: str,
        *,
        cpu: str = "64",
        memory: str = "256Gi",
        pods: int = 10_000,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Create a simulated node that is Ready."""
        capacity = {"cpu": cpu, "memory": memory, "pods": str(pods)}
        self._nodes.add(name, capacity=capacity, labels=labels or {})

    def kill_apiserver(self) -> None:
        """Kill the API server with SIGKILL."""
        self._components["kube-apiserver"].kill()

    def start_apiserver(self) -> None:
        """Start the API server again, and the components that depend on it."""
        if self._components["kube-apiserver"].running:
            return
        # After each loss of the API server the backoff of their watches grows, up to half a minute. Tests cover the
        # recovery of an operator, so these components restart and begin with the shortest backoff.
        for name in ("kube-controller-manager", "kube-scheduler"):
            if name in self._components:
                self._components.pop(name).kill()
        complete_last_line(self.audit_log)
        self._run_apiserver()
        self._wait_for_apiserver()
        self._run_controllers()
        self._wait_for_controllers()

    def close(self) -> None:
        """Stop all components, and delete their files."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        self._hang_up()
        # Clients stop before servers, so that they do not spend their shutdown on reconnects.
        for component in reversed(self._components.values()):
            component.kill()
        self._nodes.close()
        if not self._keep_directory:
            shutil.rmtree(self.directory, ignore_errors=True)
        if self._alive is not None:
            self._alive.close()

    def _start(self, audit: AuditPolicy) -> None:
        atexit.register(self.close)
        self._prepare(audit)
        at, binaries = self._layout, self.binaries
        self._run("etcd", commands.etcd(binaries.require("etcd", "A control plane"), at))
        self._run_apiserver()
        self._wait_for_apiserver()
        self._run_controllers()
        self._wait_for_controllers()

    def _prepare(self, audit: AuditPolicy) -> None:
        """Write the files that the components read at their start."""
        write_files(self._layout, self._authority, audit)

    def _run(self, name: str, command: list[str]) -> None:
        self._components[name] = Component(name, command, log=self._layout.log(name))

    def _run_apiserver(self) -> None:
        binary = self.binaries.require("kube-apiserver", "A control plane")
        self._run(
            "kube-apiserver",
            commands.apiserver(
                binary, self._layout, service_accounts=self.has_controller_manager, extra=self._apiserver_args
            ),
        )

    def _run_controllers(self) -> None:
        at, binaries = self._layout, self.binaries
        if self.has_controller_manager:
            binary = binaries.require("kube-controller-manager", "The controller manager")
            self._run(
                "kube-controller-manager",
                commands.controller_manager(binary, at, extra=self._controller_manager_args),
            )
        if self.has_scheduler:
            binary = binaries.require("kube-scheduler", "The scheduler")
            self._run("kube-scheduler", commands.scheduler(binary, at, extra=self._scheduler_args))

    def _wait_for_apiserver(self) -> None:
        with self.session() as api:
            self._wait(lambda: api.ready("/readyz"), "kube-apiserver")
            # The API server creates this after /readyz succeeds; tests may need it at once.
            for name in ("default", "kube-system", "kube-node-lease"):
                self._wait(lambda path=f"/api/v1/namespaces/{name}": api.ready(path), f"namespace {name}")

    def _wait_for_controllers(self) -> None:
        with self.session() as api:
            if self.has_controller_manager:
                account = "/api/v1/namespaces/default/serviceaccounts/default"
                self._wait(lambda: api.ready(account), "kube-controller-manager")
        if self.has_scheduler:
            tls = client_context(self.ca_pem)
            with ApiSession("127.0.0.1", self._layout.ports.scheduler, tls) as api:
                self._wait(lambda: api.ready("/readyz"), "kube-scheduler")

    def _wait(self, ready: Callable[[], bool], what: str) -> None:
        wait_until(
            ready,
            what=what,
            deadline=time.monotonic() + self._timeout,
            components=tuple(self._components.values()),
        )

    def _cluster(self) -> dict[str, Any]:
        return cluster_at(self.server, self.ca_pem)

    def _user(self, name: str, groups: tuple[str, ...], valid_for: timedelta | None) -> dict[str, Any]:
        return certificate_user(self._authority.client(name, groups, valid_for=valid_for))


def _is_enabled(binaries: Binaries, name: str, *, asked: bool | None) -> bool:
    return binaries.find(name) is not None if asked is None else asked
