"""Control groups of containers: memory and CPU limits where the kernel lets this process set them (cgroups(7)).

Version 1 and 2 of control groups are known. Nothing of the machine's own groups changes: a group for the node is made
below, and the guard deletes it when the node ends, however that happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steersman.models import Quantity
from steersman_cluster.objects import Object, dig

__all__ = ["ContainerGroup", "NodeGroups", "limits_of"]

_MOUNT: Final = Path("/sys/fs/cgroup")
_PERIOD_MICROSECONDS: Final = 100_000
_MIN_QUOTA_MICROSECONDS: Final = 1000
_MIN_MEMORY_BYTES: Final = 4 << 20
"""Less would not start a process."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a container may use; `None` for as much as there is."""

    memory_bytes: int | None = None
    cpu_quota_microseconds: int | None = None
    """Of each period of 100 ms, over all processors."""


def limits_of(container: Object) -> Limits:
    """Return the limits of a container's resources."""
    found: Object = dig(container, "resources", "limits", default={})
    memory, cpu = found.get("memory"), found.get("cpu")
    bytes_ = max(_MIN_MEMORY_BYTES, int(Quantity(str(memory)).as_fraction())) if memory is not None else None
    quota = None
    if cpu is not None:
        quota = max(_MIN_QUOTA_MICROSECONDS, int(Quantity(str(cpu)).as_fraction() * _PERIOD_MICROSECONDS))
    return Limits(bytes_, quota)


@dataclass(frozen=True, slots=True)
class ContainerGroup:
    """The groups of one run of a container."""

    directories: tuple[Path, ...]

    @property
    def entries(self) -> list[str]:
        """The files that a process writes `0` to in order to join."""
        return [str(directory / "cgroup.procs") for directory in self.directories]

    @property
    def out_of_memory(self) -> bool:
        """Whether the kernel has killed a process of the container for want of memory."""
        for directory in self.directories:
            for name in ("memory.events", "memory.oom_control"):
                with suppress(OSError, ValueError):
                    fields = dict(line.split() for line in (directory / name).read_text().splitlines())
                    if int(fields.get("oom_kill", 0)):
                        return True
        return False

    def remove(self) -> None:
        """Delete the groups; those that still have processes are left to the node's end."""
        for directory in self.directories:
            with suppress(OSError):
                directory.rmdir()


class NodeGroups:
    """The groups of one node's containers. Made by `create`."""

    def __init__(self, roots: Mapping[str, Path]) -> None:
        self._roots = dict(roots)
        """The node's own group by controller: `memory`, `cpu`; one of both in version 2."""

    @classmethod
    def create(cls, name: str, mount: Path = _MOUNT) -> NodeGroups | None:
        """Make the groups of a node; `None` where this process may not."""
        roots: dict[str, Path] = {}
        try:
            if (mount / "cgroup.controllers").exists():
                enabled = (mount / "cgroup.subtree_control").read_text().split()
                if "memory" not in enabled:
                    return None
                roots = {"unified": mount / name}
                roots["unified"].mkdir()
                controllers = " ".join(f"+{one}" for one in ("memory", "cpu") if one in enabled)
                (roots["unified"] / "cgroup.subtree_control").write_text(controllers)
            else:
                for controller in ("memory", "cpu"):
                    directory = mount / controller / name
                    directory.mkdir()
                    roots[controller] = directory
        except OSError:
            for directory in roots.values():
                with suppress(OSError):
                    directory.rmdir()
            return None
        return cls(roots)

    @property
    def directories(self) -> list[str]:
        """The node's groups, for the guard."""
        return [str(directory) for directory in self._roots.values()]

    def add(self, name: str, limits: Limits) -> ContainerGroup | None:
        """Make the group of one run of a container; `None` for a container without limits. Raises `OSError`."""
        if limits == Limits():
            return None
        made: list[Path] = []
        for controller, root in self._roots.items():
            directory = root / name
            directory.mkdir(exist_ok=True)
            made.append(directory)
            for file, value in _settings(controller, limits):
                (directory / file).write_text(value)
        return ContainerGroup(tuple(made))


def _settings(controller: str, limits: Limits) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    memory, quota = limits.memory_bytes, limits.cpu_quota_microseconds
    if memory is not None and controller == "memory":
        found.append(("memory.limit_in_bytes", str(memory)))
    if memory is not None and controller == "unified":
        found += [("memory.max", str(memory)), ("memory.oom.group", "1")]
    if quota is not None and controller == "cpu":
        found += [("cpu.cfs_period_us", str(_PERIOD_MICROSECONDS)), ("cpu.cfs_quota_us", str(quota))]
    if quota is not None and controller == "unified":
        found.append(("cpu.max", f"{quota} {_PERIOD_MICROSECONDS}"))
    return found
