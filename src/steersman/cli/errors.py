"""Converts exceptions to error messages and exit codes."""

from __future__ import annotations

import sys
import traceback

__all__ = ["FAILED", "WRONG_USE", "explain"]

FAILED = 1
WRONG_USE = 2


def explain(problem: BaseException, *, debug: bool = False) -> int:
    """Print the message of an error to stderr; returns the exit code."""
    message, code = _message(problem)
    if debug:
        traceback.print_exception(problem)
    print(f"error: {message}", file=sys.stderr)  # noqa: T201 - this is the terminal's side
    return code


def _message(problem: BaseException) -> tuple[str, int]:
    # Imported here, because most commands do not need these packages, and most runs have no error.
    from steersman.cli.operator_loader import LoadError
    from steersman.client.errors import ClientError
    from steersman.extras import MissingExtraError
    from steersman.models.declaring import ModelDeclarationError
    from steersman.operator.crds import CrdInstallError
    from steersman.operator.declarations import DeclarationError
    from steersman.operator.handlers import StartupHookError
    from steersman.operator.http_server import BindError
    from steersman.operator.leaderelection.elector import LeadershipLostError
    from steersman.operator.settings import SettingsError

    match problem:
        case SettingsError():
            return str(problem), WRONG_USE
        case LoadError():
            return str(problem), problem.code
        case LeadershipLostError():
            return f"this replica no longer leads: {problem}", FAILED
        case CrdInstallError() | MissingExtraError():
            return str(problem), FAILED
        case ClientError() | DeclarationError() | ModelDeclarationError() | BindError() | StartupHookError():
            return str(problem), FAILED
        case BaseExceptionGroup():
            return _message(problem.exceptions[0])
        case _ if isinstance(problem, _cluster_errors()):
            return str(problem), FAILED
        case _:
            return (
                f"{type(problem).__name__}: {problem}. This is an unexpected error; --debug prints the traceback",
                FAILED,
            )


def _cluster_errors() -> tuple[type[Exception], ...]:
    """Return the exception classes of the embedded cluster; none if it is not installed."""
    from steersman.extras import is_installed

    if not is_installed("steersman_cluster"):
        return ()
    from steersman_cluster.cli.errors import user_errors

    return user_errors()
