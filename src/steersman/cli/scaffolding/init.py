"""`steersman init`: creates a complete, working project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steersman.cli.scaffolding.output import Directory, Force, Output, carry_out, telling

__all__ = ["init"]


def init(
    domain: Annotated[str, typer.Option("--domain", help="The domain of the API groups, such as example.com.")],
    project_name: Annotated[
        str | None,
        typer.Option("--project-name", help="The operator's name; by default that of the directory."),
    ] = None,
    package: Annotated[
        str | None, typer.Option("--package", help="The Python package; by default it follows from the name.")
    ] = None,
    description: Annotated[str, typer.Option("--description", help="The purpose of the project, in one line.")] = "",
    license: Annotated[str, typer.Option("--license", help="An SPDX expression, such as Apache-2.0.")] = "",
    owner: Annotated[str, typer.Option("--owner", help="The owner of the copyright.")] = "",
    *,
    multigroup: Annotated[
        bool, typer.Option("--multigroup/--no-multigroup", help="Allow kinds of several API groups.")
    ] = False,
    namespaced: Annotated[
        bool, typer.Option("--namespaced/--no-namespaced", help="Restrict the operator to its own namespace.")
    ] = False,
    force: Force = False,
    directory: Directory = Path(),
    output: Output = "text",
) -> None:
    """Make a project in this directory: code, tests, CI, Dockerfile, lock file, editor and debugger configuration.

    Its own tests and lint checks pass. `steersman create api` adds the first kind.
    """
    with telling():
        from steersman.scaffold import Project, edit, initialise
        from steersman.scaffold.names import check_domain, check_package, check_project_name, module_name
        from steersman.version import __version__

        root = directory.resolve()
        name = check_project_name(project_name if project_name is not None else root.name.lower().replace("_", "-"))
        project = Project(
            name=name,
            package=check_package(package if package is not None else module_name(name)),
            domain=check_domain(domain),
            version=__version__,
        )
        project = edit(
            project, multigroup=multigroup, namespaced=namespaced, description=description, license=license, owner=owner
        )
        outcome = initialise(root, project, force=force)
    carry_out(outcome, output, "Next: steersman create api --group apps --version v1 --kind HelloApp")
