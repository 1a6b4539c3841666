"""The `steersman` command. `main` is its entry point; everything else is loaded when a command needs it."""

from __future__ import annotations

__all__ = ["main"]

_THREAD_GRACE_SECONDS = 3.0
"""Seconds that threads of blocking reconciles may keep the process from ending after everything else has."""


def main() -> None:
    """Run the command line of this process; ends it with an exit code.

    Log lines go to stderr, at the level warning, or with `--debug` all of them: other programs read the output on
    stdout. Commands that run an operator or a cluster have options for their log.
    """
    import sys

    from steersman.telemetry import startup_level

    if sys.argv[1:2] != ["run"]:  # `run` configures its log first of all, and needs no console in a Pod
        startup_level.level = "debug" if "--debug" in sys.argv else "warning"
    from steersman.cli.dispatch import run

    try:
        run()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
        _end_within(_THREAD_GRACE_SECONDS, code)
        raise


def _end_within(seconds: float, code: int) -> None:
    """End the process after `seconds`, because Python waits for all threads, also for those that never end."""
    import os
    import threading

    timer = threading.Timer(seconds, os._exit, (code,))
    timer.daemon = True
    timer.start()
