"""`steersman cluster start --real-node`, as users run it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from steersman.documents import load

pytestmark = pytest.mark.node


def test_the_command_serves_a_node_until_ctrl_c_and_takes_its_context_out_again(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    command = [sys.executable, "-m", "steersman", "cluster", "start", "--real-node", "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline().startswith("node ready: https://127.0.0.1:")
        assert run.stdout.readline() == f"context steersman-real-node in {kubeconfig}\n"
        assert run.stdout.readline() == "Ctrl-C stops it\n"
        entries = load(kubeconfig.read_text())
        assert entries["current-context"] == "steersman-real-node"
        run.send_signal(signal.SIGINT)
        assert run.stdout.read() == "stopped\n"
    assert run.returncode == 0
    assert not load(kubeconfig.read_text()).get("contexts")
