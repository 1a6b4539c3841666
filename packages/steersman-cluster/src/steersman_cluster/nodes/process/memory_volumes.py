"""Volumes of medium `Memory`: tmpfs file systems that all containers of a Pod share.

The file systems lie in a mount namespace that a program (`tmpfs_keeper.py`) holds for the node; the processes of a Pod
with such a volume enter it before they create their own. So nothing is mounted on the machine, and no mount remains
when the node is killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from steersman.models import Quantity
from steersman_cluster.nodes.process import tmpfs_keeper
from steersman_cluster.objects import Object, dig

__all__ = ["MemoryVolumes", "is_memory", "size_of"]

_ANSWER_SECONDS: Final = 30.0


def is_memory(volume: Object) -> bool:
    """Return whether a volume is an emptyDir of medium Memory."""
    return dig(volume, "emptyDir", "medium", default="") == "Memory"


def size_of(volume: Object, spec: Object, allocatable: Mapping[str, str]) -> int | None:
    """Return the size in bytes of a volume of medium Memory, by the rule of the kubelet; `None` for no limit.

    It is the least of the volume's `sizeLimit`, the memory limits of the Pod's containers, if all have one, and the
    allocatable memory of the node.

    Args:
        volume: The volume.
        spec: The spec of the Pod.
        allocatable: The allocatable resources of the node.

    Source: KEP-1967, size memory backed volumes.
    """
    limits = [dig(container, "resources", "limits", "memory") for container in spec.get("containers") or ()]
    sizes = [
        _bytes(allocatable.get("memory")),
        _bytes(dig(volume, "emptyDir", "sizeLimit")),
        sum(map(_bytes, limits)) if all(limits) else 0,
    ]
    return min((size for size in sizes if size > 0), default=None)


def _bytes(quantity: Any) -> int:
    return int(Quantity(str(quantity)).as_fraction()) if quantity else 0


class MemoryVolumes:
    """The tmpfs file systems of one node. The program that holds them starts with the first one."""

    def __init__(self, user_namespace: int | None = None) -> None:
        """Use the user namespace of the Pods' network for the file systems, if there is one."""
        self._outer = user_namespace
        self._lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self.namespaces: list[int] = []
        """Descriptors of the namespaces to enter after those of the Pod's network; empty before the first volume."""

    async def mount(self, directory: Path, *, size: int | None, mode: int, group: int | None = None) -> None:
        """Mount a tmpfs on a directory of the node; raises `OSError`.

        Args:
            directory: An existing directory.
            size: The size in bytes; `None` for the kernel's default, half of the memory.
            mode: The permissions of the top directory.
            group: The group of the top directory; `None` for the node's own.
        """
        options = [f"mode={mode:o}"]
        if size is not None:
            options.append(f"size={size}")
        if group is not None:
            options.append(f"gid={group}")
        await self._command("mount", directory, ",".join(options))

    async def unmount(self, directory: Path) -> None:
        """Detach the tmpfs of a directory; its memory is free once no container uses it."""
        with suppress(OSError):
            await self._command("unmount", directory)

    def visible(self, path: Path) -> Path:
        """Return the path under which this process sees a path of the file systems."""
        assert self._process is not None
        return Path(f"/proc/{self._process.pid}/root") / path.relative_to("/")

    async def close(self) -> None:
        """Free all of them. Safe to call twice."""
        for descriptor in self.namespaces:
            os.close(descriptor)
        self.namespaces = []
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _command(self, what: str, path: Path, options: str = "") -> None:
        async with self._lock:
            process = self._process = self._process or await self._start()
            assert process.stdin is not None
            process.stdin.write(json.dumps({"what": what, "path": str(path), "options": options}).encode() + b"\n")
            await _answer(process)

    async def _start(self) -> asyncio.subprocess.Process:
        outer = self._outer if self._outer is not None else -1
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", tmpfs_keeper.__file__, str(outer)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=(outer,) if outer >= 0 else (),
            start_new_session=True,
        )
        try:
            await _answer(process)
            kinds = ("user", "mnt") if os.geteuid() and outer < 0 else ("mnt",)
            for kind in kinds:
                self.namespaces.append(os.open(f"/proc/{process.pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC))
        except BaseException:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        return process


async def _answer(process: asyncio.subprocess.Process) -> None:
    """Wait for the response to a command; raises `OSError` if the command failed."""
    assert process.stdout is not None
    async with asyncio.timeout(_ANSWER_SECONDS):
        line = await process.stdout.readline()
    if not line:
        raise OSError("the program that holds the volumes of medium Memory has ended")
    if (answer := json.loads(line)).get("error"):
        raise OSError(answer["errno"], answer["error"])
