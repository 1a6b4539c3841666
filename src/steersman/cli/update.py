"""`steersman update`: newer templates, merged into a project that was made with older ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from steersman.cli.scaffold_output import Directory, Output, carry_out, telling

__all__ = ["update"]


def update(
    conflict: Annotated[
        Literal["refuse", "inline"],
        typer.Option("--conflict", help="What to do where both sides have changed the same lines."),
    ] = "refuse",
    force: Annotated[bool, typer.Option("--force", help="Update what git could not take back.")] = False,
    directory: Directory = Path(),
    output: Output = "text",
) -> None:
    """Merge the templates of the installed Steersman into this project, three ways; what you wrote stays.

    Refuses when there are changes that are not committed. Where you and the templates have changed the same lines,
    nothing is written, unless --conflict=inline leaves both between markers, as git does.
    """
    with telling():
        from steersman.scaffold import update as merged

        outcome = merged(directory.resolve(), force=force, markers=conflict == "inline")
    carry_out(outcome, output, "Look at it with `git diff`; `make check` tells whether all is well")
