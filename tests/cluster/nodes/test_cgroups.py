"""Limits of containers: the files of both versions of control groups, and their effect in the kernel."""

import errno
from pathlib import Path
from typing import Any

import pytest

from steersman_cluster.nodes.process.cgroups import NODE_GROUP_PREFIX, ContainerGroup, Limits, NodeGroups, limits_of


def limited(**limits: str) -> Any:
    return {"resources": {"limits": limits}}


def test_limits_are_bytes_and_a_share_of_each_period() -> None:
    assert limits_of(limited(memory="64Mi", cpu="250m")) == Limits(64 << 20, 25_000, 256)
    assert limits_of(limited(cpu="1m")) == Limits(None, 1000, 2)
    assert limits_of({"resources": {"requests": {"memory": "1Gi"}}}) == Limits()
    assert limits_of({"resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}}) == Limits(None, 100_000, 512)
    assert limits_of({"resources": {"requests": {"cpu": "1000"}}}).cpu_shares == 262_144


def test_a_container_without_limits_has_groups_that_limit_nothing(tmp_path: Path) -> None:
    for controller in ("memory", "cpu"):
        (tmp_path / controller).mkdir()
    groups = NodeGroups.create("node", tmp_path)
    assert groups is not None
    groups.add("c", Limits())
    assert (tmp_path / "memory/node/c/memory.limit_in_bytes").read_text() == "-1"
    assert (tmp_path / "cpu/node/c/cpu.cfs_quota_us").read_text() == "-1"
    assert (tmp_path / "cpu/node/c/cpu.shares").read_text() == "2"


def test_limits_change_while_a_container_runs_but_not_below_its_usage(tmp_path: Path) -> None:
    for controller in ("memory", "cpu"):
        (tmp_path / controller).mkdir()
    groups = NodeGroups.create("node", tmp_path)
    assert groups is not None
    group = groups.add("c", Limits(1 << 26))
    group.set(Limits(1 << 27, 50_000, 100))
    assert (tmp_path / "memory/node/c/memory.limit_in_bytes").read_text() == str(1 << 27)
    assert (tmp_path / "cpu/node/c/cpu.cfs_quota_us").read_text() == "50000"
    (tmp_path / "memory/node/c/memory.usage_in_bytes").write_text(str(1 << 26))
    with pytest.raises(OSError, match=r"memory limit \(1048576\) below current usage \(67108864\)"):
        group.set(Limits(1 << 20))
    assert (tmp_path / "memory/node/c/memory.limit_in_bytes").read_text() == str(1 << 27)


def test_version_1_has_a_group_for_each_controller(tmp_path: Path) -> None:
    for controller in ("memory", "cpu"):
        (tmp_path / controller).mkdir()
    groups = NodeGroups.create("node", tmp_path)
    assert groups is not None
    group = groups.add("c", Limits(1 << 26, 25_000))
    assert group.entries == [str(tmp_path / c / "node/c/cgroup.procs") for c in ("memory", "cpu")]
    assert (tmp_path / "memory/node/c/memory.limit_in_bytes").read_text() == str(1 << 26)
    assert (tmp_path / "cpu/node/c/cpu.cfs_quota_us").read_text() == "25000"


def test_version_2_has_one_group_and_needs_the_memory_controller(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
    (tmp_path / "cgroup.subtree_control").write_text("pids")
    assert NodeGroups.create("node", tmp_path) is None
    (tmp_path / "cgroup.subtree_control").write_text("memory")
    only_memory = NodeGroups.create("other", tmp_path)
    assert only_memory is not None
    only_memory.add("c", Limits(1 << 26, 25_000))
    assert (tmp_path / "other/c/memory.max").read_text() == str(1 << 26)
    assert not (tmp_path / "other/c/cpu.max").exists()
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory")
    groups = NodeGroups.create("node", tmp_path)
    assert groups is not None
    assert (tmp_path / "node/cgroup.subtree_control").read_text() == "+memory +cpu"
    group = groups.add("c", Limits(1 << 26, 25_000))
    assert group.mounts == [(tmp_path / "node/c", "/sys/fs/cgroup")]
    assert (tmp_path / "node/c/cpu.weight").read_text() == "1"
    assert (tmp_path / "node/c/memory.max").read_text() == str(1 << 26)
    assert (tmp_path / "node/c/cpu.max").read_text() == "25000 100000"


@pytest.mark.parametrize(
    ("name", "text", "killed"),
    [
        ("memory.events", "low 0\noom 1\noom_kill 1\n", True),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n", False),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", True),
        ("memory.events", "what is this", False),
    ],
)
def test_the_kernel_tells_what_it_has_killed(tmp_path: Path, name: str, text: str, killed: bool) -> None:
    (tmp_path / name).write_text(text)
    assert ContainerGroup((tmp_path,)).out_of_memory is killed


def test_a_new_node_deletes_the_groups_of_killed_nodes_but_not_those_of_running_ones(tmp_path: Path) -> None:
    names = [f"{NODE_GROUP_PREFIX}{name}" for name in ("killed", "running", "new")]
    for controller in ("memory", "cpu"):
        (tmp_path / controller / names[0] / "container").mkdir(parents=True)
        (tmp_path / controller / "steersman-node-22" / "kubepods").mkdir(parents=True)  # of a real node
    running = NodeGroups.create(names[1], tmp_path)
    new = NodeGroups.create(names[2], tmp_path)
    assert running is not None
    assert new is not None
    for controller in ("memory", "cpu"):
        left = sorted(path.name for path in (tmp_path / controller).iterdir())
        assert left == ["steersman-node-22", *sorted(names[1:])]
        assert (tmp_path / controller / "steersman-node-22/kubepods").exists()
    running.close()
    new.close()


def test_a_node_that_may_not_make_groups_has_none(tmp_path: Path) -> None:
    assert NodeGroups.create("node", tmp_path / "nowhere") is None


def test_a_node_whose_groups_cannot_be_locked_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr("steersman_cluster.nodes.process.cgroups.fcntl.flock", refuse)
    for controller in ("memory", "cpu"):
        (tmp_path / controller).mkdir()
    assert NodeGroups.create("node", tmp_path) is None
    assert not [*tmp_path.glob("*/node")]
