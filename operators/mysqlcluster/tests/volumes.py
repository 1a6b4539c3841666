"""Volumes of a limited size, which a test can fill."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

BALLAST = "ballast"


class Volume:
    """A file system of its own at a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def fill(self) -> None:
        """Take all free space, also what the server frees meanwhile."""
        with (self.directory / BALLAST).open("ab") as file:
            while (free := os.statvfs(self.directory).f_bavail * os.statvfs(self.directory).f_bsize) > 0:
                try:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, free)
                except OSError as problem:
                    if problem.errno != errno.ENOSPC:
                        raise

    def clear(self) -> None:
        """Free the space again."""
        (self.directory / BALLAST).unlink()


@contextlib.contextmanager
def limited_volumes(directory: Path, names: list[str], mebibytes: int) -> Iterator[dict[str, Volume]]:
    """Mount a file system in memory at a directory for each name, or skip the test without the privilege to mount."""
    with contextlib.ExitStack() as stack:
        found: dict[str, Volume] = {}
        for name in names:
            place = directory / name
            place.mkdir(parents=True)
            mount = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=0700", "tmpfs", str(place)]
            done = subprocess.run(mount, capture_output=True, text=True, timeout=30)
            if done.returncode:
                pytest.skip(f"no file system can be mounted: {done.stderr.strip()}")
            stack.callback(subprocess.run, ["umount", "--lazy", str(place)], check=True, timeout=30)
            found[name] = Volume(place)
        yield found
