"""The spelling of the cluster's commands in this process."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["program"]


def program() -> str:
    """Return `steersman cluster` in a process of the command `steersman`, else `steersman-cluster`."""
    started = Path(sys.argv[0]) if sys.argv else Path()
    name = started.parent.name if started.name == "__main__.py" else started.name
    return "steersman cluster" if name == "steersman" else "steersman-cluster"
