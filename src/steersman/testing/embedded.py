"""The embedded cluster as a `Cluster` for tests: in a thread of this process, ready in a tenth of a second.

Tests use `Cluster` and run on any kind of cluster. The event loop of this one is separate, so that a test may block or
use virtual time. `kill_apiserver` closes all connections and keeps all acknowledged writes.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Self, TypeVar

from steersman.testing.cluster import Cluster
from steersman.testing.cluster_http import ApiSession, client_context
from steersman.testing.controlplane.audit import AuditPolicy
from steersman.testing.controlplane.binaries import BinariesNotFoundError, find_binaries
from steersman.testing.faults import Faults
from steersman.testing.kubeconfigs import certificate_user, cluster_at
from steersman_cluster.auth.audit_policy import Policy
from steersman_cluster.cluster import DevCluster, Options
from steersman_cluster.nodes.image_store import ImageStore

__all__ = ["EmbeddedCluster"]

T = TypeVar("T")
_SECONDS = 30.0


class EmbeddedCluster(Cluster):
    """An embedded cluster in a thread. Create it with `start`; use it as a context manager, or call `close`."""

    def __init__(self, options: Options, directory: Path) -> None:
        super().__init__(kubeconfig=directory / "admin.kubeconfig", directory=directory, kubectl=_kubectl())
        self._images = ImageStore(options.image_store or directory / "images")
        self._options = replace(
            options,
            kubeconfig=self.kubeconfig,
            audit_path=directory / "audit.log",
            image_store=self._images.directory,
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="embedded-cluster", daemon=True)
        self._closed = False
        self._faults = Faults()
        self._created = False
        self.cluster: DevCluster
        """The cluster; call its methods only in functions for `run`."""

    @classmethod
    def start(
        cls,
        *,
        controllers: bool = True,
        nodes: int = 1,
        ready_after: float | None = 0.0,
        audit: AuditPolicy | None = None,
        **options: Any,
    ) -> Self:
        """Start a cluster and return when it is ready; `options` are those of `steersman_cluster.cluster.Options`."""
        directory = Path(tempfile.mkdtemp(prefix="steersman-embedded-"))
        policy = Policy(json.loads((audit or AuditPolicy()).text()))
        wanted = Options(controllers=controllers, nodes=nodes, ready_after=ready_after, audit=policy, **options)
        made = cls(wanted, directory)
        made._thread.start()
        try:
            made.run(made._open)
        except BaseException:
            made.close()
            raise
        return made

    async def _open(self) -> None:
        self.cluster = DevCluster(self._options)
        self._created = True
        self._faults.intercept(self.cluster.server)
        await self.cluster.open()

    def run(self, what: Callable[[], Coroutine[Any, Any, T]], timeout: float = _SECONDS) -> T:
        """Run a coroutine on the cluster's loop and return its result."""
        return asyncio.run_coroutine_threadsafe(what(), self._loop).result(timeout)

    @property
    def faults(self) -> Faults:
        """The faults on this cluster: `faults.add(conflict(resource="apps", times=2))`."""
        return self._faults

    def _end_faults(self) -> None:
        self._faults.clear()

    @property
    def server(self) -> str:
        """The API server's address."""
        return self.cluster.url

    @property
    def ca_pem(self) -> bytes:
        """The authority that signs the API server's certificate and all client certificates."""
        return self.cluster.authority.cert_pem

    @property
    def audit_log(self) -> Path:
        """The audit log file."""
        return self.directory / "audit.log"

    def session(self) -> ApiSession:
        """A new connection as the administrator; close it after use."""
        pair = self.cluster.authority.client("kubernetes-admin", ("system:masters",))
        path = self.directory / "admin.pem"
        if not path.exists():
            path.touch(0o600)
            path.write_bytes(pair.key_pem + pair.cert_pem)
        return ApiSession("127.0.0.1", self.cluster.port, client_context(self.ca_pem, str(path)))

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send one request as the administrator, and return the response. Raises `CallError`."""
        with self.session() as api:
            return api.call(method, path, body)

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
        self.run(lambda: self.cluster.add_node(name, capacity=capacity, labels=labels))

    def import_image(self, path: Path, tag: str = "") -> list[str]:
        """Import an image archive for the process nodes of this cluster alone; return the names of its images.

        Args:
            path: A file of `docker save` or `buildah push docker-archive:` or `oci-archive:`, or a directory of `oci:`.
            tag: The name of the image, in place of those that the archive gives it.

        Raises:
            ImageArchiveError: The archive cannot be imported.
        """
        return [image.name for image in self._images.add(path, tag)]

    def kill_apiserver(self) -> None:
        """Stop listening, and close all connections."""
        self.run(self.cluster.unlisten)

    def start_apiserver(self) -> None:
        """Listen again, on the same port."""
        if not self.cluster.listening:
            self.run(lambda: self.cluster.listen(self.cluster.port))

    def close(self) -> None:
        """Stop the cluster, and delete its files."""
        if self._closed:
            return
        self._closed = True
        self._hang_up()
        if self._created:
            self.run(self.cluster.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _cluster(self) -> dict[str, Any]:
        return cluster_at(self.server, self.ca_pem)

    def _user(self, name: str, groups: tuple[str, ...], valid_for: timedelta | None) -> dict[str, Any]:
        return certificate_user(self.cluster.authority.client(name, groups, valid_for=valid_for))


def _kubectl() -> Path | None:
    try:
        return find_binaries().kubectl()
    except BinariesNotFoundError:
        found = shutil.which("kubectl")
        return Path(found) if found else None
