"""A command for the launcher (`launcher.py`): the request to it, and its report.

The request is a file in memory, so that the variables of a container are not visible in the environment or arguments
of another process. The report is a pipe that closes without data when the container's program runs.
"""

from __future__ import annotations

import asyncio
import marshal
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
_DIRECTORY: Final = os.path.dirname(launcher.__file__)
_PROGRAM: Final = "import sys; sys.path.append(sys.argv[1]); from launcher import main; main()"
"""Imports the launcher, because Python would compile a program that it is given as a file at each start."""


class Sandbox(TypedDict):
    """The plan of a container's root directory."""

    kind: str
    """`bubblewrap` or `namespaces`."""
    ops: list[tuple[str, str, str]]
    """Operation, source and target of each step."""
    hostname: str
    place: str
    """An empty directory, the mount point of the root directory."""
    program: str
    """The path of bubblewrap."""
    overlay: list[str]
    """The lower, upper, work and merged directories of a writable layer above an image; empty without a layer."""
    sysctls: dict[str, str]
    """Values of kernel parameters by their paths below /proc/sys."""


class Identity(TypedDict):
    """The user, groups and capabilities of a container's processes."""

    user: int
    group: int
    groups: list[int]
    """Supplemental groups."""
    capabilities: list[int] | None
    """The numbers of the capabilities of the processes; `None` for all."""
    no_new_privileges: bool
    seccomp: str
    """The filter of system calls in hexadecimal (`seccomp.py`); empty for none."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The arguments of the launcher, the files that it inherits, and the descriptor of its report."""

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
    request = marshal.dumps({**fields, "parent": os.getpid(), "sandbox": sandbox, "enter": enter})
    file = os.memfd_create("request")
    report, writes = os.pipe()
    try:
        with open(file, "wb", closefd=False) as writer:
            writer.write(request)
        os.lseek(file, 0, os.SEEK_SET)
        argv = [sys.executable, "-I", "-S", "-c", _PROGRAM, _DIRECTORY, str(file), str(writes)]
        yield Launch(argv, (file, writes, *network), report)
    except BaseException:
        os.close(report)
        raise
    finally:
        os.close(file)
        os.close(writes)


async def error_of(report: int) -> OSError | None:
    """Wait until the launcher's program runs; returns the error if it does not. Closes `report`."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(report, "rb", 0)
    )
    try:
        data = await reader.read()
    finally:
        transport.close()
    if not data:
        return None
    number, text = marshal.loads(data)  # noqa: S302 - written by the launcher
    return OSError(number, text)
