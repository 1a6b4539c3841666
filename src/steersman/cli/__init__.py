"""The `steersman` command. `main` is its entry point; everything else is loaded when a command needs it."""

from __future__ import annotations

__all__ = ["main"]

_THREAD_GRACE_SECONDS = 3.0
"""Seconds that threads of blocking reconciles may keep the process from ending after everything else has."""


def main() -> None:
    """Run the command line of this process; ends it with an exit code.

    What is logged on the way goes to stderr, and only warnings, or with `--debug` everything: what a command prints is
    its answer, which programs read. Commands that run an operator or a cluster log as their options say.
    """
    import sys

    from steersman.telemetry import startup_level

    startup_level.level = "debug" if "--debug" in sys.argv else "warning"
    from steersman.cli.dispatch import run

    try:
        run()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
        _end_within(_THREAD_GRACE_SECONDS, code)
        raise


def _end_within(seconds: float, code: int) -> None:
    """Python waits for every thread before it ends, and a thread that blocks for ever would keep it for ever."""
    import os
    import threading

    timer = threading.Timer(seconds, os._exit, (code,))
    timer.daemon = True
    timer.start()
