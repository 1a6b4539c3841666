"""The log file of `steersman dev`: the complete log, of which the live view shows the last lines, shortened."""

from __future__ import annotations

import logging
import os
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final, cast

from steersman_cluster.detached import StateError, checked, state_directory

__all__ = ["LogFile", "log_path"]

_MAX_BYTES: Final = 10 << 20
_OLD_FILES: Final = 1


def log_path(name: str) -> Path:
    """Return the directory of the logs of a cluster name. Logs outlive the session, unlike the state of the cluster."""
    return state_directory().parent / "logs" / f"dev-{checked(name)}.log"


class LogFile(RotatingFileHandler):
    """A log file of mode 0600 and bounded size; the log of the previous session has the suffix `.1`."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raises `StateError` if it cannot be written."""
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            super().__init__(path, maxBytes=_MAX_BYTES, backupCount=_OLD_FILES, encoding="utf-8", errors="replace")
            if path.stat().st_size:
                self.doRollover()
        except OSError as problem:
            raise StateError(
                f"{problem.filename or path} cannot be written: {problem.strerror}. "
                "Set XDG_STATE_HOME to a directory that can be written"
            ) from None

    def _open(self) -> TextIOWrapper:
        def private(path: str, flags: int) -> int:
            return os.open(path, flags, 0o600)

        opened = open(self.baseFilename, self.mode, encoding=self.encoding, errors=self.errors, opener=private)  # noqa: SIM115
        return cast("TextIOWrapper", opened)

    def write(self, line: str) -> None:
        """Append one line, or several that are separated by line feeds."""
        self.emit(logging.makeLogRecord({"msg": "%s", "args": (line,)}))
