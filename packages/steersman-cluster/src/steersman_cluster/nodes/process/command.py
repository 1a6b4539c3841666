"""A command for the launcher (`launcher.py`): what it is told, and what it reports.

The request is a file in memory, so that a container's variables show up in no other process's environment or
arguments. The report is a pipe that ends without a word once the container's program has taken over.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypedDict

from steersman_cluster.nodes.process import launcher

__all__ = ["DEFAULT_PATH", "Identity", "Launch", "Sandbox", "error_of", "launch"]

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The `PATH` of containers whose image sets none."""


class Sandbox(TypedDict):
    """How a container's root directory is put together."""

    kind: str
    """`bubblewrap` or `namespaces`."""
    ops: list[tuple[str, str, str]]
    """What, source and target of each step."""
    hostname: str
    place: str
    """An empty directory upon which the root directory is mounted."""
    program: str
    """Where bubblewrap is."""
    overlay: list[str]
    """Nothing, or the lower, upper, work and merged directories of a writable layer above an image."""
    sysctls: dict[str, str]
    """Values of kernel parameters by their paths below /proc/sys."""


class Identity(TypedDict):
    """The user, groups and capabilities of a container's processes."""

    user: int
    group: int
    groups: list[int]
    """Supplemental groups."""
    capabilities: list[int] | None
    """The numbers of the capabilities that they may have; `None` for all."""
    no_new_privileges: bool
    seccomp: str
    """The filter of system calls in hexadecimal (`seccomp.py`); empty for none."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start the launcher: its arguments, the files that it inherits, and where its report is read."""

    argv: list[str]
    files: tuple[int, ...]
    report: int


@contextmanager
def launch(
    command: Sequence[str],
    env: Mapping[str, str],
    directory: str,
    *,
    sandbox: Sandbox | None = None,
    enter: int | None = None,
    terminal: bool = False,
    network: Sequence[int] = (),
    identity: Identity | None = None,
    cgroups: Sequence[str] = (),
) -> Generator[Launch]:
    """Open the files of a launch and close those of the launcher at the end; the caller closes `report`.

    `network` are descriptors of the namespaces to enter first; they stay open here.
    """
    fields: dict[str, object] = {"command": list(command), "env": dict(env), "directory": directory}
    fields |= {"terminal": terminal, "network": list(network), "identity": identity, "cgroups": list(cgroups)}
    request = json.dumps({**fields, "parent": os.getpid(), "sandbox": sandbox, "enter": enter}).encode()
    file = os.memfd_create("request")
    report, writes = os.pipe()
    try:
        with open(file, "wb", closefd=False) as writer:
            writer.write(request)
        os.lseek(file, 0, os.SEEK_SET)
        argv = [sys.executable, "-I", "-S", launcher.__file__, str(file), str(writes)]
        yield Launch(argv, (file, writes, *network), report)
    except BaseException:
        os.close(report)
        raise
    finally:
        os.close(file)
        os.close(writes)


async def error_of(report: int) -> OSError | None:
    """Wait until the launcher's program runs, or why it does not; closes `report`."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(report, "rb", 0)
    )
    try:
        text = await reader.read()
    finally:
        transport.close()
    if not text:
        return None
    found = json.loads(text)
    return OSError(found["errno"], found["text"])
