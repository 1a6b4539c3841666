"""`steersman manifests`: CRDs and RBAC of an operator, written to files or compared with them."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from steersman.cli.judge import judge
from steersman.cli.loading import LoadError, load_operator

if TYPE_CHECKING:
    from steersman.manifests import Changes

__all__ = ["manifests"]


def manifests(
    target: Annotated[str, typer.Argument(metavar="MODULE:OPERATOR", help="The operator, as in helloapp:operator.")],
    output: Annotated[Path, typer.Option("--output-dir", "-o", help="The directory to write to.")] = Path("config"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail when files differ.")] = False,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Where the operator runs; NAME-system if left out.")
    ] = None,
    watch_namespace: Annotated[
        list[str] | None,
        typer.Option("--watch-namespace", help="Where the operator works, if not everywhere; may be repeated."),
    ] = None,
    secure_metrics: Annotated[
        bool, typer.Option("--secure-metrics", help="Add the roles that securely served metrics need.")
    ] = False,
    max_description: Annotated[
        int | None, typer.Option("--max-description", min=0, help="Cut descriptions to so many characters.")
    ] = None,
    format: Annotated[Literal["text", "json"], typer.Option("--output", help="How to print what was done.")] = "text",
) -> None:
    """Write the CRDs and the RBAC of an operator below config/, or check that they are up to date.

    Files that somebody else wrote are left alone; those that are not made any more are removed.
    """
    from steersman.manifests import ManifestError, compare, config_files, write  # `steersman run` does without

    operator = load_operator(target)
    try:
        files = config_files(
            operator,
            namespace=namespace,
            namespaces=tuple(watch_namespace or ()),
            secure_metrics=secure_metrics,
            max_description=max_description,
            check=judge(),
        )
    except ManifestError as wrong:
        raise LoadError("\nerror: ".join(wrong.problems), 1) from None
    try:
        changes = compare(files, output) if check else write(files, output)
    except OSError as problem:
        raise LoadError(f"{problem.filename or output}: {problem.strerror}", 1) from None
    if format == "json":
        typer.echo(json.dumps({"new": changes.new, "changed": changes.changed, "gone": changes.gone}))
    else:
        _tell(changes, files, output, check)
    if check and changes:
        raise typer.Exit(1)


def _tell(changes: Changes, files: dict[str, str], output: Path, check: bool) -> None:
    words = ("is missing", "differs", "is not made any more") if check else ("created", "changed", "removed")
    for word, paths in zip(words, (changes.new, changes.changed, changes.gone), strict=True):
        for path in paths:
            typer.echo(f"{output / path}: {word}")
            if check and path in changes.changed:
                old = (output / path).read_text(encoding="utf-8", errors="replace")
                typer.echo("\n".join(difflib.unified_diff(old.splitlines(), files[path].splitlines(), lineterm="")))
    if not changes:
        typer.echo(f"{len(files)} files in {output} are up to date")
    elif check:
        typer.echo("Run it without --check to update them.", err=True)
