"""An operator that has nothing to do does nothing: its threads block, whatever servers it has."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from steersman.testing import EmbeddedCluster

APP = """
from steersman import Context, Operator
from steersman.k8s import ConfigMap

operator = Operator("idle")

@operator.controller()
async def reconcile(obj: ConfigMap, ctx: Context) -> None:
    pass
"""
QUIET_SECONDS = 3.0
LONGEST_SECONDS = 120.0


def wakeups(pid: int) -> int:
    """Return how often the threads of a process have blocked."""
    found = 0
    for path in Path(f"/proc/{pid}/task").glob("*/status"):
        found += int(path.read_text().split("\nvoluntary_ctxt_switches:")[1].split()[0])
    return found


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts wake-ups in /proc")
def test_an_operator_without_a_lease_does_not_wake_up(tmp_path: Path):
    (tmp_path / "app_that_is_idle.py").write_text(APP)
    words = [
        "run", "app_that_is_idle:operator", "-n", "default", "--no-leader-elect", "--no-uvloop", "--log-format=json",
        "--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0", "--no-metrics-secure",
    ]  # fmt: skip
    with EmbeddedCluster.start() as cluster, (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-m", "steersman", *words, f"--kubeconfig={cluster.kubeconfig}"]
        running = subprocess.Popen(command, cwd=tmp_path, stderr=log, env=dict(os.environ))
        try:
            deadline = time.monotonic() + LONGEST_SECONDS
            while "operator_started" not in (tmp_path / "log").read_text():
                assert running.poll() is None, (tmp_path / "log").read_text()
                assert time.monotonic() < deadline, (tmp_path / "log").read_text()
                time.sleep(0.05)
            last, since = wakeups(running.pid), time.monotonic()
            while time.monotonic() - since < QUIET_SECONDS:
                assert time.monotonic() < deadline, f"no {QUIET_SECONDS:g} s without a wake-up: {last} so far"
                time.sleep(0.05)
                if (now := wakeups(running.pid)) != last:
                    last, since = now, time.monotonic()
        finally:
            running.terminate()
            running.wait(30)
    assert running.returncode == 0
