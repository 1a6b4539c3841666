"""Control groups of containers: memory and CPU limits, if this process may set them (cgroups(7)).

Versions 1 and 2 of control groups are supported. The node creates a group of its own below the current group, and
does not change others. The cleanup program deletes the group when the node ends, also after a crash. If that program is
killed together with the node, the next node deletes the group: a running node holds a lock on its own.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steersman.models import Quantity
from steersman_cluster.nodes.process.cleanup import delete_group
from steersman_cluster.objects import Object, dig

__all__ = ["CGROUP_MOUNT", "NODE_GROUP_PREFIX", "ContainerGroup", "NodeGroups", "limits_of"]

CGROUP_MOUNT: Final = Path("/sys/fs/cgroup")
NODE_GROUP_PREFIX: Final = "steersman-process-node-"
"""Also a real node (`steersman.testing.real_node`) has a group, which begins with `steersman-node-`."""
_MAX_ATTEMPTS: Final = 5
_PERIOD_MICROSECONDS: Final = 100_000
_MIN_QUOTA_MICROSECONDS: Final = 1000
_MIN_SHARES: Final = 2
_MAX_SHARES: Final = 262_144
_SHARES_PER_CPU: Final = 1024
_MIN_MEMORY_BYTES: Final = 4 << 20
"""The least memory with which a process starts."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a container; `None` for no limit."""

    memory_bytes: int | None = None
    cpu_quota_microseconds: int | None = None
    """The CPU time in each period of 100 ms, for all processors together."""
    cpu_shares: int = _MIN_SHARES
    """The CPU weight of the container relative to others of the node, in the unit of version 1."""


def limits_of(container: Object) -> Limits:
    """Return the limits of a container's resources."""
    found: Object = dig(container, "resources", "limits", default={})
    memory, cpu = found.get("memory"), found.get("cpu")
    bytes_ = max(_MIN_MEMORY_BYTES, int(Quantity(str(memory)).as_fraction())) if memory is not None else None
    quota = None
    if cpu is not None:
        quota = max(_MIN_QUOTA_MICROSECONDS, int(Quantity(str(cpu)).as_fraction() * _PERIOD_MICROSECONDS))
    asked = dig(container, "resources", "requests", "cpu", default=cpu)
    shares = int(Quantity(str(asked)).as_fraction() * _SHARES_PER_CPU) if asked is not None else 0
    return Limits(bytes_, quota, min(_MAX_SHARES, max(_MIN_SHARES, shares)))


@dataclass(frozen=True, slots=True)
class ContainerGroup:
    """The control groups of one run of a container."""

    directories: tuple[Path, ...]
    controllers: tuple[str, ...] = ()
    """The controller of each directory: `memory`, `cpu`; `unified` in version 2, `unified memory` without cpu."""

    @property
    def mounts(self) -> list[tuple[Path, str]]:
        """Return the directories with the paths at which a container sees its own groups."""
        pairs = zip(self.directories, self.controllers, strict=True)
        return [
            (path, str(CGROUP_MOUNT) if name.startswith("unified") else f"{CGROUP_MOUNT}/{name}")
            for path, name in pairs
        ]

    def set(self, limits: Limits) -> None:
        """Write the limits.

        Raises:
            OSError: the kernel refuses them, or the processes use more memory than the new limit.
        """
        for directory, controller in zip(self.directories, self.controllers, strict=True):
            if limits.memory_bytes is not None and controller != "cpu":
                _check_usage(directory, limits.memory_bytes)
            for file, value in _settings(controller, limits):
                (directory / file).write_text(value)

    @property
    def entries(self) -> list[str]:
        """Return the files to which a process writes `0` to join the groups."""
        return [str(directory / "cgroup.procs") for directory in self.directories]

    @property
    def out_of_memory(self) -> bool:
        """Return whether the kernel has killed a process of the container because of its memory limit."""
        for directory in self.directories:
            for name in ("memory.events", "memory.oom_control"):
                with suppress(OSError, ValueError):
                    fields = dict(line.split() for line in (directory / name).read_text().splitlines())
                    if int(fields.get("oom_kill", 0)):
                        return True
        return False

    def remove(self) -> None:
        """Delete the groups; groups that still have processes are deleted at the end of the node."""
        for directory in self.directories:
            with suppress(OSError):
                directory.rmdir()


class NodeGroups:
    """The control groups of the containers of one node. Use `create` to create them."""

    def __init__(self, roots: Mapping[str, Path]) -> None:
        self._roots = dict(roots)
        """The group of the node by controller (`memory`, `cpu`); in version 2 one group for both."""
        self._locks = [lock for root in roots.values() if (lock := _lock(root)) is not None]

    @classmethod
    def create(cls, name: str, mount: Path = CGROUP_MOUNT) -> NodeGroups | None:
        """Create the groups of a node, and delete those of killed nodes.

        Returns:
            The groups; `None` if this process lacks the permission, or cannot lock a group.
        """
        _delete_abandoned(mount)
        for _ in range(_MAX_ATTEMPTS):
            made = cls._make(name, mount)
            if made is None:
                return None
            if len(made._locks) == len(made._roots) and all(root.exists() for root in made._roots.values()):
                return made
            made.close()  # Another node that starts now may have deleted a group before it was locked.
            for directory in made.directories:
                delete_group(directory)
        return None

    @classmethod
    def _make(cls, name: str, mount: Path) -> NodeGroups | None:
        roots: dict[str, Path] = {}
        try:
            if (mount / "cgroup.controllers").exists():
                enabled = (mount / "cgroup.subtree_control").read_text().split()
                if "memory" not in enabled:
                    return None
                directory = mount / name
                directory.mkdir(exist_ok=True)
                roots = {"unified" if "cpu" in enabled else "unified memory": directory}
                controllers = " ".join(f"+{one}" for one in ("memory", "cpu") if one in enabled)
                (directory / "cgroup.subtree_control").write_text(controllers)
            else:
                for controller in ("memory", "cpu"):
                    directory = mount / controller / name
                    directory.mkdir(exist_ok=True)
                    roots[controller] = directory
        except OSError:
            for directory in roots.values():
                with suppress(OSError):
                    directory.rmdir()
            return None
        return cls(roots)

    def close(self) -> None:
        """Release the locks, so that the next node deletes groups that are left."""
        while self._locks:
            os.close(self._locks.pop())

    @property
    def directories(self) -> list[str]:
        """Return the directories of the node's groups, for the cleanup program."""
        return [str(directory) for directory in self._roots.values()]

    def add(self, name: str, limits: Limits) -> ContainerGroup:
        """Create the group of one run of a container. Raises `OSError`."""
        group = ContainerGroup(tuple(root / name for root in self._roots.values()), tuple(self._roots))
        for directory in group.directories:
            directory.mkdir(exist_ok=True)
        group.set(limits)
        return group


def _delete_abandoned(mount: Path) -> None:
    """Delete the groups of nodes that were killed together with their cleanup programs."""
    for directory in (*mount.glob(f"{NODE_GROUP_PREFIX}*"), *mount.glob(f"*/{NODE_GROUP_PREFIX}*")):
        lock = _lock(directory)
        if lock is not None:
            delete_group(str(directory))
            os.close(lock)


def _lock(directory: Path) -> int | None:
    """Return the descriptor of a lock on a group; `None` if another process holds one, or the group is gone."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
        else:
            return descriptor
    return None


def _check_usage(directory: Path, limit: int) -> None:
    """Raise `OSError` if processes use more memory than a new limit, because version 2 would kill them."""
    for name in ("memory.current", "memory.usage_in_bytes"):
        with suppress(FileNotFoundError, ValueError):
            used = int((directory / name).read_text())
            if used >= limit:
                text = f"attempting to set container memory limit ({limit}) below current usage ({used})"
                raise OSError(errno.EBUSY, f"cannot decrease memory limits: {text}")


def _settings(controller: str, limits: Limits) -> list[tuple[str, str]]:
    memory, quota, shares = limits.memory_bytes, limits.cpu_quota_microseconds, limits.cpu_shares
    match controller:
        case "memory":
            return [("memory.limit_in_bytes", str(memory if memory is not None else -1))]
        case "cpu":
            return [
                ("cpu.cfs_period_us", str(_PERIOD_MICROSECONDS)),
                ("cpu.cfs_quota_us", str(quota if quota is not None else -1)),
                ("cpu.shares", str(shares)),
            ]
        case _:
            found = [("memory.max", str(memory) if memory is not None else "max"), ("memory.oom.group", "1")]
            if controller == "unified":
                weight = 1 + (shares - _MIN_SHARES) * 9999 // (_MAX_SHARES - _MIN_SHARES)
                found.append(("cpu.max", f"{quota if quota is not None else 'max'} {_PERIOD_MICROSECONDS}"))
                found.append(("cpu.weight", str(weight)))
            return found
