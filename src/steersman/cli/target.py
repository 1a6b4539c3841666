"""The argument of commands that work on one operator."""

from __future__ import annotations

from typing import Annotated

import typer

from steersman.cli.project import project_operator
from steersman.cli.run.options import OPERATOR_HELP

__all__ = ["Target"]

Target = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:OPERATOR",
        help=OPERATOR_HELP,
        default_factory=project_operator,
        show_default=False,
    ),
]
"""The operator as `module:attribute`; by default that of the project in the working directory."""
