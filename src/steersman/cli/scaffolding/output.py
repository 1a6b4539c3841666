"""Shared parts of `init`, `create`, `edit`, `delete` and `update`: the project, errors, and the list of changes."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from steersman.cli.operator_loader import LoadError

if TYPE_CHECKING:
    from steersman.scaffold import External, Outcome

__all__ = [
    "Directory",
    "Domain",
    "Force",
    "Group",
    "Kind",
    "Output",
    "Path_",
    "Version",
    "carry_out",
    "external",
    "telling",
]

Group = Annotated[str, typer.Option("--group", help="The API group without the domain; `core` for Kubernetes' own.")]
Version = Annotated[str, typer.Option("--version", help="The API version, such as v1 or v1beta1.")]
Kind = Annotated[str, typer.Option("--kind", help="The kind, in Pascal case.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite changes that were made by hand.")]
Directory = Annotated[Path, typer.Option("--directory", "-C", help="The project's directory.")]
Output = Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="The format of the output.")]
Path_ = Annotated[
    str, typer.Option("--external-api-path", help="The module with the class of a kind of another project.")
]
Domain = Annotated[str, typer.Option("--external-api-domain", help="The API domain of a kind of another project.")]


def external(path: str, domain: str) -> External:
    """Return the external type of a module path and an API domain."""
    from steersman.scaffold import External

    return External(path, domain)


@contextmanager
def telling() -> Generator[None]:
    """Converts errors of `steersman.scaffold` to errors of the command line."""
    from steersman.scaffold import ScaffoldError

    try:
        yield
    except ScaffoldError as wrong:
        raise LoadError(str(wrong), wrong.code) from None
    except PermissionError as denied:
        raise LoadError(f"{denied.filename}: {denied.strerror}; nothing was changed", 1) from None


def carry_out(outcome: Outcome, output: str, *hints: str) -> None:
    """Print the changes; fails if the user must resolve conflicts."""
    if output == "json":
        words = ("created", "changed", "removed", "merged", "conflicts", "kept", "notes")
        typer.echo(json.dumps({word: list(getattr(outcome, word)) for word in words}))
    else:
        for word in ("created", "changed", "removed"):
            for path in getattr(outcome, word):
                how = "conflict" if path in outcome.conflicts else "merged" if path in outcome.merged else word
                typer.echo(f"{how:>9} {path}")
        for path in outcome.kept:
            typer.echo(f"{'left':>9} {path}: you have deleted it")
        for note in outcome.notes:
            typer.echo(f"note: {note}", err=True)
        if not (outcome.created or outcome.changed or outcome.removed):
            typer.echo("nothing to do")
        elif not outcome.conflicts:
            for hint in hints:
                typer.echo(hint)
    if outcome.conflicts:
        typer.echo("error: resolve the conflicts between <<<<<<< and >>>>>>> in the files marked conflict", err=True)
        raise typer.Exit(1)
