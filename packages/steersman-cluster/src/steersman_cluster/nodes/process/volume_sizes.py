"""The size limits of emptyDir volumes: their usage, and the eviction of a Pod that uses more.

Source: the kubelet's eviction manager (local storage eviction).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from steersman.models import Quantity
from steersman_cluster.nodes.pod_state import Termination
from steersman_cluster.nodes.process.memory_volumes import is_memory
from steersman_cluster.objects import Object, dig

__all__ = ["CHECK_EVERY_SECONDS", "eviction_of", "limited_volumes", "used_bytes"]

CHECK_EVERY_SECONDS: Final = 10.0
"""The interval of the kubelet's eviction manager."""
_GRACE_SECONDS: Final = 1.0
_BLOCK_BYTES: Final = 512
"""The unit of `st_blocks` (stat(2))."""


def limited_volumes(pod: Object) -> dict[str, str]:
    """Return the size limits of a Pod's emptyDir volumes on disk, by name; tmpfs enforces the limits in memory."""
    volumes: list[Object] = dig(pod, "spec", "volumes", default=[])
    limits = {volume["name"]: dig(volume, "emptyDir", "sizeLimit") for volume in volumes if not is_memory(volume)}
    return {name: str(limit) for name, limit in limits.items() if limit and Quantity(str(limit)).as_fraction() > 0}


def eviction_of(limits: Mapping[str, str], used: Mapping[str, int]) -> Termination | None:
    """Return the reason for the eviction of a Pod, or `None` if each volume is within its limit.

    Args:
        limits: The size limits by volume.
        used: The bytes in use by volume; volumes without an entry are ignored.
    """
    for name, limit in limits.items():
        if used.get(name, 0) > Quantity(limit).as_fraction():
            text = f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". '
            return Termination("Evicted", text, _GRACE_SECONDS)
    return None


def used_bytes(directory: Path) -> int:
    """Return the bytes on disk of a directory tree, as du(1) counts: links are not followed, files counted once."""
    total, seen, waiting = 0, set[tuple[int, int]](), [str(directory)]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    if found.st_nlink > 1 and not entry.is_dir(follow_symlinks=False):
                        if (found.st_dev, found.st_ino) in seen:
                            continue
                        seen.add((found.st_dev, found.st_ino))
                    total += found.st_blocks * _BLOCK_BYTES
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
    return total
