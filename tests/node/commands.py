"""Commands of this machine that the tests run, and the directories of the tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "steersman" / "real-node"
"""The directory of what takes long to build."""

_ISOLATION = (
    *("setpriv", "--pdeathsig=KILL"),
    *("unshare", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child=KILL"),
)
"""The kernel ends the processes and the mounts of the command when the process that runs it ends."""
_TIMEOUT_SECONDS = 1200


def run(
    *words: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None, isolated: bool = False
) -> str:
    """Run a command and return its output; a failure shows its messages.

    Args:
        words: The program and its arguments.
        env: All variables of the environment; those of this process if not given.
        cwd: The working directory.
        isolated: Run the command in a mount and PID namespace of its own, so that not even SIGKILL of this process
            leaves its mounts and processes.
    """
    done = subprocess.run(
        [*(_ISOLATION if isolated else ()), *(str(word) for word in words)],
        env=dict(env or os.environ),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{words[0]} failed: {(done.stdout + done.stderr)[-4000:]}"
    return done.stdout
