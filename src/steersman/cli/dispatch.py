"""The first word of a command line chooses the command; the one place where errors become messages and exit codes.

Exit codes: 0 for success, an ordered shutdown included; 1 for a failure; 2 for wrong arguments; 130 for an interrupt
before the end of the shutdown. A traceback is shown only with `--debug`.

`steersman run` needs the core installation only. The other commands need the extra `cli`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from steersman.extras import is_installed, require
from steersman.version import __version__

__all__ = ["run"]

_CORE_HELP = """\
Usage: steersman run [OPTIONS] [MODULE:OPERATOR]

Build, run and test Kubernetes operators in Python.

  run        Run an operator against a cluster, in this process: `steersman run --help`.
  --version  Print the version and exit.

The other commands need an extra: pip install 'steersman[cli]' (manifests, deploy, doctor and more), or
pip install 'steersman[dev]' (in addition: new projects, `steersman dev`, an embedded cluster and the test kit).
"""


def run(arguments: Sequence[str] | None = None) -> None:
    """Run the command of a command line and raise `SystemExit`.

    Args:
        arguments: The words after the program's name; by default those of this process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    if debug and words[0] != "run":
        words.remove("--debug")  # an option of all commands; `run` lists it among its own
        if words[:1] == ["run"]:
            words.append("--debug")
    try:
        code = _command(words)
    except SystemExit:
        raise
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(1) from None
    except Exception as problem:  # noqa: BLE001 - the last place that can turn it into a message
        from steersman.cli.errors import explain

        raise SystemExit(explain(problem, debug=debug)) from None
    raise SystemExit(code)


def _command(words: list[str]) -> int:
    if words[:1] == ["run"]:
        from steersman.cli.run.command import run

        return run(words[1:])
    if not is_installed("typer"):
        return _without_commands(words)
    from steersman.cli.app import run_command

    run_command(words)
    return 0


def _without_commands(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_CORE_HELP, end="")  # noqa: T201 - the output of the command
    elif words == ["--version"]:
        print(f"steersman {__version__}")  # noqa: T201 - the output of the command
    else:
        require(f"`steersman {words[0]}`", "cli", "typer")
    return 0
