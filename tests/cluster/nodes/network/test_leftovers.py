"""A cluster that is killed leaves nothing of its network, whether root or a user without privileges runs it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .web import PROGRAM, pod, until

pytestmark = pytest.mark.slow
NOBODY = 65534
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


def test_nothing_remains_after_the_cluster_is_killed(runner: Runner) -> None:
    program, images = runner.directory / "web.py", runner.directory / "images.yaml"
    program.write_text(PROGRAM)
    images.write_text(f"images:\n  web: {{command: [{sys.executable}, {program}]}}\n")
    before = machine()
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
            below = descendants(child.pid)
            networks = {namespace_of(pid, "net") for pid in below} - {namespace_of(os.getpid(), "net")}
            users = {namespace_of(pid, "user") for pid in below} - {namespace_of(os.getpid(), "user")}
            assert len(networks) >= 2, "the router and the Pod have networks of their own"
            assert bool(users) == (runner.user != 0), "a user without privileges needs user namespaces, root does not"
            groups = {name for process in below for name in control_groups_of(process)}
            starts = {start_of(pid): pid for pid in below}
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
    until(lambda: {at: pid for at, pid in starts.items() if start_of(pid) == at}, lambda left: not left)
    until(lambda: networks & {namespace_of(pid, "net") for pid in processes()}, lambda left: not left)
    until(lambda: users & {namespace_of(pid, "user") for pid in processes()}, lambda left: not left)
    until(lambda: groups & control_groups(), lambda left: not left)
    assert machine() == before


def machine() -> dict[str, list[str]]:
    """Return the interfaces, routes and mounts of this machine's own namespaces that a cluster could leave."""
    interfaces = [line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines() if ":" in line]
    routes = Path("/proc/net/route").read_text().splitlines()
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if "steersman" in line]
    return {"interfaces": sorted(interfaces), "routes": sorted(routes), "mounts": sorted(mounts)}


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
    return {path.name for path in Path("/sys/fs/cgroup").glob("**/steersman-*")}


def control_groups_of(pid: int) -> set[str]:
    """The name of the cluster's control group that a process is in."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return set()
    return {part for line in lines for part in line.split("/") if part.startswith("steersman-")}


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *descendants(child)]
    return found
