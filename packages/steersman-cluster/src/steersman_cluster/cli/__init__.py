"""The command `steersman-cluster`, which is also `steersman cluster`: start, stop, status, load and fault.

`main` is the entry point of the script. Commands import their modules when they run.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process; raises `SystemExit` with the exit code.

    Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted before the shutdown was complete.
    """
    import sys

    from steersman.telemetry import startup_level

    startup_level.level = "debug" if "--debug" in sys.argv else "warning"
    from steersman_cluster.cli.run import run

    run(sys.argv[1:])
