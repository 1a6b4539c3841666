"""The namespaces of a real node, for their owner: start, commands inside, removal."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from steersman.testing.controlplane.process import ComponentError
from steersman.testing.real_node import supervisor
from steersman.testing.real_node.programs import SEARCH_PATH

__all__ = ["Namespaces"]

_START_SECONDS: Final = 20.0
_END_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.02


class Namespaces:
    """A mount, network, PID, IPC and UTS namespace, and control groups, with a supervisor process that removes them.

    All processes inside end with `close` or with this process, and then their control groups and files are deleted.
    """

    def __init__(self, directory: Path, *, log: Path, keep_directory: bool) -> None:
        """Create the namespaces. Raises `ComponentError` with the log if that fails.

        Args:
            directory: The directory of the node.
            log: The file for messages of the supervisor.
            keep_directory: Whether the files outside `node/` stay at the end.
        """
        keep = "keep" if keep_directory else "delete"
        command = [sys.executable, "-I", "-S", str(Path(supervisor.__file__)), str(directory), keep]
        with log.open("ab") as output:
            self._supervisor = subprocess.Popen(  # noqa: S603 - the command has no user input
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                env={"PATH": SEARCH_PATH},
                # A signal to the process group of the owner, such as Ctrl-C, must not stop the removal.
                start_new_session=True,
            )
        self._log = log
        try:
            self._wait_for(directory / "ready")
            facts = json.loads(self._wait_for(directory / "supervisor.json").read_bytes())
        except BaseException:
            self.close()
            raise
        self.first_process: int = facts["first"]
        self.cgroup: str = facts["cgroup"]

    def inside(self, command: Sequence[str | Path]) -> list[str | Path]:
        """Return the command line that runs a command in the namespaces, in the root directory."""
        return ["/usr/bin/nsenter", f"--target={self.first_process}", "--mount", "--uts", "--ipc", "--net", "--pid",
                "--", *command]  # fmt: skip

    def close(self) -> None:
        """End all processes in the namespaces, and wait until the namespaces and files are removed; idempotent."""
        if self._supervisor.stdin is not None:
            self._supervisor.stdin.close()
        try:
            self._supervisor.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            self._supervisor.wait()

    def _wait_for(self, file: Path) -> Path:
        deadline = time.monotonic() + _START_SECONDS
        while not file.exists():
            if self._supervisor.poll() is not None or time.monotonic() > deadline:
                text = self._log.read_text(errors="replace").strip()
                raise ComponentError(f"the namespaces of the node cannot be created: {text or 'the time is over'}")
            time.sleep(_POLL_SECONDS)
        return file
