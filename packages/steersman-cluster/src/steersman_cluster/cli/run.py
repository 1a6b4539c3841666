"""Runs a command line and turns errors into messages and exit codes."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

import typer

from steersman_cluster.cli.commands import app
from steersman_cluster.cli.errors import user_errors
from steersman_cluster.program import program

__all__ = ["run"]


def run(arguments: Sequence[str]) -> None:
    """Parse and run a command line.

    Args:
        arguments: The words after the name of the program; `--debug` among them prints tracebacks.

    Raises:
        SystemExit: Always, with the exit code.
    """
    debug = "--debug" in arguments
    words = [word for word in arguments if word != "--debug"]
    try:
        app(args=words, prog_name=program())
    except (typer.Exit, SystemExit):
        raise
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(1) from None
    except Exception as problem:  # noqa: BLE001 - a user of the command sees a message instead of a traceback
        if debug:
            traceback.print_exception(problem)
        typer.echo(f"error: {_message(problem)}", err=True)
        raise SystemExit(1) from None


def _message(problem: Exception) -> str:
    if isinstance(problem, user_errors()):
        return str(problem)
    return f"{type(problem).__name__}: {problem}. This is a defect of the command; --debug prints the traceback"
