"""`steersman cluster start --real-node` where no node can run."""

import subprocess
import sys

import pytest

from steersman.cli.real_node import routed
from steersman.testing.real_node import programs


def test_the_flag_selects_the_command_and_other_words_stay() -> None:
    assert routed(["cluster", "start", "--real-node", "--image", "a.tar"]) == [
        "cluster",
        "start-real-node",
        "--image",
        "a.tar",
    ]
    assert routed(["cluster", "start", "--detach"]) == ["cluster", "start", "--detach"]


def test_missing_packages_are_named_with_the_command_that_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "PACKAGES", {"no-such-package": ("no-such-program",)})
    monkeypatch.setattr(programs.os, "geteuid", lambda: 0)
    monkeypatch.setattr(programs.sys, "platform", "linux")
    reason = programs.unavailable()
    assert reason is not None
    assert "apt-get install --no-install-recommends no-such-package" in reason


def test_binaries_that_are_not_built_are_named(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("etcd", "kube-apiserver"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setattr(programs, "PACKAGES", {})
    monkeypatch.setattr(programs.os, "geteuid", lambda: 0)
    monkeypatch.setattr(programs.sys, "platform", "linux")
    reason = programs.unavailable({"STEERSMAN_CONTROLPLANE": str(tmp_path), "HOME": str(tmp_path)})
    assert reason is not None
    assert "hack/controlplane/build.sh --node" in reason


def test_the_help_of_a_real_node_lists_its_own_options() -> None:
    command = [sys.executable, "-m", "steersman", "cluster", "start", "--real-node", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "--install-packages" in shown
    assert "--node-kind" not in shown
