"""`steersman edit`: settings of a whole project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steersman.cli.scaffolding.output import Directory, Force, Output, carry_out, telling

__all__ = ["edit"]


def edit(
    multigroup: Annotated[
        bool | None, typer.Option("--multigroup/--no-multigroup", help="Allow kinds of several API groups.")
    ] = None,
    namespaced: Annotated[
        bool | None, typer.Option("--namespaced/--no-namespaced", help="Restrict the operator to its own namespace.")
    ] = None,
    description: Annotated[
        str | None, typer.Option("--description", help="The purpose of the project, in one line.")
    ] = None,
    license: Annotated[str | None, typer.Option("--license", help="An SPDX expression, such as Apache-2.0.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="The owner of the copyright.")] = None,
    *,
    force: Force = False,
    directory: Directory = Path(),
    output: Output = "text",
) -> None:
    """Change settings of the whole project.

    Existing kinds stay in their files when a project becomes multi-group; new ones get a directory per group.
    """
    with telling():
        from steersman.scaffold import edit as edited
        from steersman.scaffold import open_project, update_files

        root = directory.resolve()
        project = edited(
            open_project(root), multigroup=multigroup, namespaced=namespaced, description=description, license=license,
            owner=owner,
        )  # fmt: skip
        outcome = update_files(root, project, force=force)
    carry_out(outcome, output)
