"""A real node changes nothing on its host, and ends with its owner."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from steersman.testing.cluster import Cluster
from steersman.testing.real_node.first_process import NODE_ADDRESS
from steersman.testing.real_node.supervisor import CGROUPS
from steersman.testing.waiting import eventually

pytestmark = pytest.mark.node

_HOST_FILES = (
    "/proc/self/mountinfo",
    "/proc/net/route",
    "/proc/net/fib_trie",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/keys/root_maxkeys",
)

_OWNER = """
import json, sys
from steersman.testing.real_node import RealNode
node = RealNode.start()
facts = {"first": node.namespaces.first_process, "cgroup": node.namespaces.cgroup, "directory": str(node.directory)}
print(json.dumps(facts), flush=True)
sys.stdin.read()
"""


def _host() -> dict[str, str]:
    files = {name: Path(name).read_text() for name in _HOST_FILES}
    rules = subprocess.run(["/usr/sbin/iptables-save"], capture_output=True, text=True, check=True).stdout
    lines = [line for line in rules.splitlines() if not line.startswith(("#", ":"))]
    paths = ("/run/netns", "/run/containerd/s", "/var/lib/kubelet", "/var/lib/cni", "/var/log/pods")
    return {
        **files,
        "iptables": "\n".join(lines),
        **{path: str(sorted(os.listdir(path)) if os.path.isdir(path) else None) for path in paths},
    }


def _groups(name: str) -> list[Path]:
    return [*Path(CGROUPS).glob(name), *Path(CGROUPS).glob(f"*/{name}")]


def _start() -> tuple[subprocess.Popen[str], dict[str, Any]]:
    owner = subprocess.Popen([sys.executable, "-c", _OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    line = owner.stdout.readline()
    assert line, "the owner ended before the node was ready"
    return owner, json.loads(line)


def test_the_host_is_as_before_while_a_node_runs(cluster: Cluster) -> None:
    """The session's node runs Pods meanwhile."""
    host = _host()
    assert NODE_ADDRESS not in host["/proc/net/fib_trie"]
    assert "KUBE-SERVICES" not in host["iptables"]
    assert "steersman" not in host["/run/netns"] + host["/var/lib/cni"]


@pytest.mark.gate
def test_a_node_ends_with_its_killed_owner_and_leaves_nothing() -> None:
    before = _host()
    owner, facts = _start()
    with owner:
        assert _groups(facts["cgroup"]), "the node has no control group"
        os.kill(owner.pid, signal.SIGKILL)
        owner.wait()
        eventually(lambda: not Path(f"/proc/{facts['first']}").exists(), within=30, what="the end of the first process")
        eventually(lambda: not _groups(facts["cgroup"]), within=30, what="the end of the control groups")
        eventually(lambda: not Path(facts["directory"]).exists(), within=30, what="the end of the files")
    assert _host() == before


def test_control_groups_of_a_killed_supervisor_are_removed_by_the_next_start() -> None:
    owner, facts = _start()
    supervisor = int(facts["cgroup"].rpartition("-")[2])
    with owner:
        os.kill(supervisor, signal.SIGKILL)
        eventually(lambda: not Path(f"/proc/{facts['first']}").exists(), within=30, what="the end of the first process")
        owner.kill()
    other, _ = _start()
    with other:
        assert not _groups(facts["cgroup"])
        other.kill()
