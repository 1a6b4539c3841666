"""A real Kubernetes cluster of one node: control plane, kubelet, kube-proxy, containerd, runc and CoreDNS.

All components run as processes of this machine, in separate namespaces and control groups. The host keeps its mounts,
addresses, routes, packet filters and kernel settings. The API server also listens on loopback of the host.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from steersman.testing.controlplane.audit import AuditPolicy
from steersman.testing.controlplane.control_plane import ControlPlane
from steersman.testing.controlplane.files import Identity, write_files
from steersman.testing.controlplane.pki import write_pair
from steersman.testing.controlplane.process import Component, ComponentError
from steersman.testing.real_node import configuration, dns, forward, programs
from steersman.testing.real_node.configuration import NODE_ADDRESS, NODE_NAME, SERVICE_ADDRESS, NodeLayout
from steersman.testing.real_node.image_archive import program_image
from steersman.testing.real_node.namespaces import Namespaces

__all__ = ["RealNode"]

_IDENTITIES: Final[tuple[Identity, ...]] = (
    ("node", f"system:node:{NODE_NAME}", ("system:nodes",)),
    ("proxy", "system:kube-proxy", ()),
    ("kubelet-client", "kube-apiserver-kubelet-client", ("system:masters",)),
)
_HOSTS: Final = (NODE_ADDRESS, SERVICE_ADDRESS, NODE_NAME, "kubernetes.default.svc.cluster.local")
_MAX_OPEN_FILES: Final = 1_000_000
_IMPORT_SECONDS: Final = 300.0


class RealNode(ControlPlane):
    """A control plane with one real node, which `start` starts; it needs Linux and root.

    `start` has the arguments of `ControlPlane.start`, of which `ready_after` has no effect, and the controller manager
    and the scheduler always run. It returns when the node and the cluster's DNS are ready, and raises `Unavailable` if
    this machine cannot run a real node.

    Containers run from images that `import_images` has imported; no image is pulled. The cluster ends with `close`, and
    also when this process ends, even if it is killed.
    """

    _start_seconds = 120.0
    _needs_controllers = True
    _namespaces: Namespaces | None = None

    @classmethod
    def _check_machine(cls) -> None:
        if (reason := programs.unavailable()) is not None:
            raise programs.Unavailable(reason)

    @property
    def at(self) -> NodeLayout:
        """The files of the node."""
        return NodeLayout(self._layout)

    @property
    def namespaces(self) -> Namespaces:
        """The namespaces of the node."""
        if self._namespaces is None:
            raise ComponentError("the node has not started or is closed")
        return self._namespaces

    def add_node(
        self,
        name: str,
        *,
        cpu: str = "64",
        memory: str = "256Gi",
        pods: int = 10_000,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Raise `UnsupportedError`: the cluster always has exactly one real node."""
        raise self._unsupported("adding simulated nodes to a real one")

    def inside(self, *command: str, timeout: float = 60.0) -> str:
        """Run a command in the namespaces of the node, and return its output. Raises `ComponentError`."""
        done = subprocess.run(  # noqa: S603 - no shell; the arguments come from the test
            self.namespaces.inside(command),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            env={"PATH": programs.SEARCH_PATH},
        )
        if done.returncode:
            raise ComponentError(f"{' '.join(command)} ended with status {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def import_images(self, *archives: Path) -> None:
        """Load the images of archives (OCI or docker) into containerd. Raises `ComponentError`."""
        for archive in archives:
            self.inside(
                "ctr", f"--address={self.at.runtime_socket}", "--namespace=k8s.io", "images", "import",
                str(archive.absolute()), timeout=_IMPORT_SECONDS,
            )  # fmt: skip

    def restart_kubelet(self) -> None:
        """Kill the kubelet with SIGKILL and start it again; the containers keep running."""
        self._components["kubelet"].kill()
        self._run_kubelet()

    def close(self) -> None:
        """Stop all components and containers, and delete their files, namespaces and control groups."""
        if self._namespaces is not None:
            self._namespaces.close()
            self._namespaces = None
        super().close()

    def _prepare(self, audit: AuditPolicy) -> None:
        self._apiserver_args = (*configuration.apiserver_arguments(self._layout), *self._apiserver_args)
        write_files(self._layout, self._authority, audit, hosts=_HOSTS, identities=_IDENTITIES)
        pair = self._authority.serving(f"system:node:{NODE_NAME}", (NODE_NAME, NODE_ADDRESS, "127.0.0.1"))
        write_pair(pair, self._layout.pki(""), "kubelet")
        self.at.home.mkdir(mode=0o711)
        self._namespaces = Namespaces(
            self.directory, log=self._layout.log("namespaces"), keep_directory=self._keep_directory
        )
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        texts = configuration.files(
            self.at,
            cgroup=self._namespaces.cgroup,
            max_open_files=_MAX_OPEN_FILES if limit == resource.RLIM_INFINITY else min(limit, _MAX_OPEN_FILES),
        )
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        ports = (str(self._layout.ports.apiserver), str(self._layout.ports.scheduler))
        forwarder = [sys.executable, "-I", "-S", str(Path(forward.__file__)), str(self._namespaces.first_process)]
        super()._run("forward", [*forwarder, *ports])
        self._run("containerd", configuration.containerd(_on_path("containerd"), self.at))

    def _run(self, name: str, command: list[str]) -> None:
        """Run a component in the namespaces of the node."""
        self._components[name] = Component(
            name,
            self.namespaces.inside(command),
            log=self._layout.log(name),
            env={"PATH": programs.SEARCH_PATH},
        )

    def _start(self, audit: AuditPolicy) -> None:
        super()._start(audit)
        found = programs.Programs(self.binaries)
        self._run_kubelet()
        self._run("kube-proxy", configuration.kube_proxy(found.built("kube-proxy"), self.at))
        self._import_own_images(found)
        self.apply(*dns.objects())
        self._wait(self._node_is_ready, f"node {NODE_NAME}")
        self.wait("deployment", dns.NAME, "Available", namespace=dns.NAMESPACE, within=self._timeout)

    def _run_kubelet(self) -> None:
        self._run("kubelet", configuration.kubelet(programs.Programs(self.binaries).built("kubelet"), self.at))

    def _import_own_images(self, found: programs.Programs) -> None:
        for name, image in (("pause", configuration.PAUSE_IMAGE), ("coredns", dns.IMAGE)):
            archive = self.at.home / f"{name}.tar"
            program_image(found.built(name), image, archive)
            self.import_images(archive)
            archive.unlink()

    def _node_is_ready(self) -> bool:
        node = self.get("node", NODE_NAME)
        conditions: list[dict[str, Any]] = [] if node is None else node["status"].get("conditions", [])
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _on_path(name: str) -> str:
    found = shutil.which(name, path=programs.SEARCH_PATH)
    if found is None:
        raise programs.Unavailable(f"{name} is not installed")
    return found
