"""Space of the volume that an agent holds for its server, and gives to it when a failover needs a full replica.

The I/O thread of a replica whose volume is full waits for space, and does not stop before it has written its event to
the relay log. Only then the member can be fenced, and its relay log be compared with those of others.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from pathlib import Path

from steersman.logs import get_logger

__all__ = ["RESERVED_BYTES", "SpaceReserve", "opened"]

_log = get_logger("mysqlcluster.agent")

RESERVED_BYTES = 16 << 20
"""The size of the reserve: the limit of both flavors for one packet of a client, by default."""
MIN_FREE_FACTOR = 4
"""A volume with less free space than this multiple of the reserve gets none."""


class SpaceReserve:
    """A file without content that occupies space."""

    def __init__(self, directory: Path) -> None:
        """Use a file in a directory of the volume."""
        self._file = directory / "space.reserve"

    def hold(self) -> None:
        """Allocate the space, if the file is missing and the volume has much more free space."""
        if self._file.exists() or self._free_bytes() < MIN_FREE_FACTOR * RESERVED_BYTES:
            return
        with opened(self._file) as descriptor:
            try:
                os.posix_fallocate(descriptor, 0, RESERVED_BYTES)
            except OSError:
                self._file.unlink()

    def release_if_full(self) -> None:
        """Delete the file if the volume has less free space than the reserve."""
        if self._free_bytes() >= RESERVED_BYTES:
            return
        with contextlib.suppress(FileNotFoundError):
            self._file.unlink()
            _log.warning("space_reserve_released", bytes=RESERVED_BYTES, reason="the volume is full")

    def _free_bytes(self) -> int:
        usage = os.statvfs(self._file.parent)
        return usage.f_bavail * usage.f_frsize


@contextlib.contextmanager
def opened(file: Path) -> Generator[int]:
    """Open a private file for writing, with its content; a missing file is created."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
