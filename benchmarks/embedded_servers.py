"""The two servers that are compared: the embedded cluster, and kube-apiserver with etcd (and controllers, scheduler).

Both run on one core, which the driver leaves alone; neither writes an audit log, neither syncs to disk. CPU and memory
are those of all of a server's processes, as the kernel counts them.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import ssl
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.harness import BenchmarkError, Peer, cores
from benchmarks.rows import OURS

REAL = "kube-apiserver"
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Server:
    """A running server: where it is, how to speak to it, and which processes it is."""

    host: str
    port: int
    tls: ssl.SSLContext
    pids: Sequence[int]
    peer: Peer | None = None
    """Ours, which can be asked to settle."""

    def cpu(self) -> float:
        """Seconds of CPU that all its processes have used, dead threads included."""
        return sum(_cpu(pid) for pid in self.pids)

    def rss(self) -> int:
        """Bytes."""
        return sum(_rss(pid) for pid in self.pids)

    def settle(self) -> None:
        """Let it give back memory where it can be asked to."""
        if self.peer is not None:
            self.peer.ask("settle")


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def _rss(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def embedded(options: dict[str, object]) -> Peer:
    """Our server's process; it reports by marks."""
    return Peer(OURS, [sys.executable, "-m", "benchmarks.peers.embedded_server", json.dumps(options)])


@contextlib.contextmanager
def running(peer: str, *, workloads: bool = False) -> Iterator[Server]:
    """A server; `workloads` adds controllers, scheduler and ten nodes that pretend."""
    with _ours(workloads) if peer == OURS else _real(workloads) as server:
        yield server


@contextlib.contextmanager
def _ours(workloads: bool) -> Iterator[Server]:
    options: dict[str, object] = {"controllers": workloads, "nodes": 10 if workloads else 0, "ready_after": 0.0}
    process = embedded(options)
    try:
        ready = process.wait("ready", 30)
        host, port, tls = _endpoint(Path(ready["kubeconfig"]))
        yield Server(host, port, tls, (process.pid,), process)
    finally:
        process.close()


@contextlib.contextmanager
def _real(workloads: bool) -> Iterator[Server]:
    from steersman.testing import ControlPlane

    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores()[1])  # what is started now stays there, and a Go process sees one core
    try:
        plane = ControlPlane.start(
            controller_manager=workloads,
            scheduler=workloads,
            apiserver_args=("--audit-log-path=",),
            ready_after=0.0 if workloads else None,
        )
    finally:
        os.sched_setaffinity(0, before)
    try:
        for number in range(10 if workloads else 0):
            plane.add_node(f"node-{number}")
        yield Server(*_endpoint(plane.kubeconfig), tuple(plane.pids.values()))
    finally:
        plane.close()


def _endpoint(path: Path) -> tuple[str, int, ssl.SSLContext]:
    document = json.loads(path.read_text())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    tls = ssl.create_default_context(cadata=_pem(cluster["certificate-authority-data"]).decode())
    with tempfile.NamedTemporaryFile() as file:
        file.write(_pem(user["client-certificate-data"]) + _pem(user["client-key-data"]))
        file.flush()
        tls.load_cert_chain(file.name)
    url = urlsplit(cluster["server"])
    if url.hostname is None or url.port is None:
        raise BenchmarkError(f"no address in {path}")
    return url.hostname, url.port, tls


def _pem(text: str) -> bytes:
    return base64.b64decode(text)
