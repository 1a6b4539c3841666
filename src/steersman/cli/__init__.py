"""The `steersman` command. `main` is its entry point; everything else is loaded when a command needs it."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process; ends it with an exit code."""
    from steersman.cli.app import run

    run()
