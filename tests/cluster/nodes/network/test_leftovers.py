"""A cluster that is killed leaves no namespaces, mounts, control groups, interfaces, routes or rules.

Root or a user without privileges runs it, and the cluster is killed alone, after its helpers, or together with them.
"""

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .web import PROGRAM, pod, until

pytestmark = pytest.mark.slow
NOBODY = 65534
NAMESPACES = ("net", "user", "mnt", "pid", "ipc", "uts")
CLUSTER = """
import json, sys
from pathlib import Path
from steersman.testing.embedded import EmbeddedCluster
from steersman_cluster.nodes.network.cluster_network import NetworkError
try:
    cluster = EmbeddedCluster.start(node_kind="process", images=Path(sys.argv[1]), network="namespaces")
except NetworkError as problem:
    print(f"unavailable: {problem}", flush=True)
    sys.exit()
cluster.call("POST", "/api/v1/namespaces/default/pods", json.loads(sys.argv[2]))
with cluster.test("default"):
    cluster.wait("pod", "web", "Ready")
print("ready", flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class Runner:
    """The user that runs a cluster, and a directory that the user may write to."""

    user: int
    directory: Path

    @property
    def options(self) -> dict[str, Any]:
        environment = {**os.environ, "HOME": str(self.directory), "TMPDIR": str(self.directory)}
        identity = {"user": self.user, "group": self.user, "extra_groups": []} if self.user != os.geteuid() else {}
        return {"env": environment, **identity}


@pytest.fixture(params=["the user of the tests", "a user without privileges"])
def runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    user = os.geteuid()
    if request.param == "a user without privileges":
        if user:
            pytest.skip("only root can become another user")
        user = NOBODY
    directory = Path(tempfile.mkdtemp(prefix="leftovers-"))
    try:
        if user != os.geteuid():
            os.chown(directory, user, user)
        found = Runner(user, directory)
        words = [sys.executable, "-c", "import steersman.testing.embedded"]
        if subprocess.run(words, capture_output=True, check=False, **found.options).returncode:
            pytest.skip("another user cannot read this Python or its packages")
        yield found
    finally:
        shutil.rmtree(directory, ignore_errors=True)


VICTIMS = ("the cluster", "the helpers one by one, then the cluster", "all processes at once")


@pytest.mark.parametrize("victims", VICTIMS)
def test_nothing_remains_after_the_cluster_is_killed(runner: Runner, victims: str) -> None:
    before = machine(runner.directory)
    with running(runner) as child:
        own = {kind: namespace_of(os.getpid(), kind) for kind in NAMESPACES}
        below = descendants(child.pid)
        namespaces = {kind: {namespace_of(pid, kind) for pid in below} - {own[kind], ""} for kind in NAMESPACES}
        assert len(namespaces["net"]) >= 2, "the router and the Pod have networks of their own"
        assert bool(namespaces["user"]) == (runner.user != 0), "only root does without user namespaces"
        assert namespaces["mnt"], "the container has mounts of its own"
        groups = {name for process in below for name in control_groups_of(process)}
        starts = {start_of(pid): pid for pid in below if start_of(pid)}
        if victims == VICTIMS[1]:
            for pid in children(child.pid):
                kill(pid)
            starts |= {start_of(pid): pid for pid in descendants(child.pid) if start_of(pid)}
        if victims == VICTIMS[2]:
            child.send_signal(signal.SIGSTOP)  # It starts no further processes.
            for pid in below:
                kill(pid)
        child.send_signal(signal.SIGKILL)
        child.wait()
    until(lambda: {at: pid for at, pid in starts.items() if start_of(pid) == at}, lambda left: not left)
    for kind, found in namespaces.items():
        until(lambda kind=kind, found=found: found & {namespace_of(pid, kind) for pid in processes()}, is_empty)
    if victims != VICTIMS[0]:
        with running(runner) as child:  # It deletes what no process of the killed cluster could delete.
            child.send_signal(signal.SIGKILL)
            child.wait()
    until(lambda: groups & control_groups(), is_empty)
    assert machine(runner.directory) == before


@contextmanager
def running(runner: Runner) -> Iterator[subprocess.Popen[str]]:
    """A cluster with a ready Pod in a process of its own."""
    program, images = runner.directory / "web.py", runner.directory / "images.yaml"
    program.write_text(PROGRAM)
    images.write_text(f"images:\n  web: {{command: [{sys.executable}, {program}]}}\n")
    child = subprocess.Popen(
        [sys.executable, "-c", CLUSTER, str(images), json.dumps(pod("web"))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **runner.options,
    )  # fmt: skip
    assert child.stdin is not None
    assert child.stdout is not None
    with child, child.stdin, child.stdout:
        try:
            said = next(line for line in child.stdout if line.startswith(("ready", "unavailable")))
            if said.startswith("unavailable"):
                pytest.skip(said.strip())
            yield child
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def is_empty(found: set[str]) -> bool:
    return not found


def machine(directory: Path) -> dict[str, list[Any]]:
    """Return what a cluster with its files below a directory could leave in this machine's own namespaces."""
    interfaces = [line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines() if ":" in line]
    routes = [line for name in ("route", "ipv6_route") for line in lines_of(Path("/proc/net", name))]
    return {
        "interfaces": sorted(interfaces),
        "routes": sorted(" ".join(route.split()[:3]) for route in routes),
        "mounts": [line for line in lines_of(Path("/proc/self/mountinfo")) if str(directory) in line],
        "routing rules": netlink(socket.NETLINK_ROUTE, RTM_GETRULE, bytes(12), 0),
        "packet filter tables": netlink(NETLINK_NETFILTER, NFT_GETTABLE, bytes(4), 4),
        "packet filter chains": netlink(NETLINK_NETFILTER, NFT_GETCHAIN, bytes(4), 4),
        "iptables": lines_of(Path("/proc/net/ip_tables_names")),
    }


RTM_GETRULE = 34
NETLINK_NETFILTER = 12
NFT_GETTABLE, NFT_GETCHAIN = 10 << 8 | 1, 10 << 8 | 4
NLM_F_REQUEST_DUMP = 0x301
NLMSG_ERROR, NLMSG_DONE = 2, 3


def netlink(protocol: int, kind: int, body: bytes, skipped: int) -> list[bytes]:
    """Return the objects of a kind in this network namespace, or the kernel's error (netlink(7)).

    Args:
        protocol: The protocol of the socket.
        kind: The type of the request.
        body: What follows the header of the request.
        skipped: How many bytes of each response precede its attributes and change without the object.
    """
    found: list[bytes] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as connection:
        connection.settimeout(10)
        connection.bind((0, 0))
        connection.send(struct.pack("=IHHII", 16 + len(body), kind, NLM_F_REQUEST_DUMP, 1, 0) + body)
        while True:
            data = connection.recv(1 << 20)
            while len(data) >= 16:
                length, answer = struct.unpack_from("=IH", data)
                if answer in (NLMSG_DONE, NLMSG_ERROR):
                    return sorted(found if answer == NLMSG_DONE else [*found, data[16:20]])
                found.append(data[16 + skipped : length])
                data = data[(length + 3) & ~3 :]


def lines_of(path: Path) -> list[str]:
    """Return the lines of a file; none if the kernel does not have it or this user cannot read it."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def start_of(pid: int) -> str:
    """Return the start time of a process, which with its id distinguishes it from later ones; empty for none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else f"{pid} {fields[19]}"


def namespace_of(pid: int, kind: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    except OSError:
        return ""


def control_groups() -> set[str]:
    """The names of the control groups of all clusters on this machine."""
    return {path.name for path in Path("/sys/fs/cgroup").glob("**/steersman-process-node-*")}


def control_groups_of(pid: int) -> set[str]:
    """The name of the cluster's control group that a process is in."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return set()
    return {part for line in lines for part in line.split("/") if part.startswith("steersman-process-node-")}


def children(pid: int) -> list[int]:
    tasks = [task.read_text() for task in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(child) for line in tasks for child in line.split()]


def descendants(pid: int) -> list[int]:
    return [one for child in children(pid) for one in (child, *descendants(child))]
