"""`steersman update`: merges newer templates into an existing project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from steersman.cli.scaffolding.output import Directory, Output, carry_out, telling

__all__ = ["update"]


def update(
    conflict: Annotated[
        Literal["refuse", "inline"],
        typer.Option("--conflict", help="How to handle lines that both sides have changed."),
    ] = "refuse",
    *,
    force: Annotated[bool, typer.Option("--force", help="Update although git could not revert it.")] = False,
    directory: Directory = Path(),
    output: Output = "text",
) -> None:
    """Merge the templates of the installed Steersman into this project (three-way merge); your changes stay.

    Refuses a project with uncommitted changes. Where you and the templates have changed the same lines, nothing is
    written, unless --conflict=inline leaves both versions between markers, as git does.
    """
    with telling():
        from steersman.scaffold import update as merged

        outcome = merged(directory.resolve(), force=force, markers=conflict == "inline")
    carry_out(outcome, output, "Review it with `git diff`, then run `make check`")
