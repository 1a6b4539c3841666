"""`steersman docs`: the API reference of an operator's kinds, or of CRDs, as Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steersman.cli.crds.files import crds_from
from steersman.cli.operator_loader import LoadError, load_operator

__all__ = ["docs"]


def docs(
    target: Annotated[
        str | None, typer.Argument(metavar="[MODULE:OPERATOR]", help="The operator, as in helloapp:operator.")
    ] = None,
    crd: Annotated[
        list[Path] | None, typer.Option("--crd", help="A file or directory with CRDs instead; may be repeated.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output-file", "-o", help="The file to write; stdout if left out.")
    ] = None,
    title: Annotated[str, typer.Option("--title", help="The heading of the page.")] = "API reference",
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Fail when a kind or field has no docstring.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if the file differs.")] = False,
) -> None:
    """Write an API reference as Markdown: every field with its type, default, constraints and description.

    `steersman docs helloapp:operator -o docs/api.md`. Descriptions are the docstrings of classes and attributes.
    """
    text = (
        _from_crds(crd, title)
        if crd and target is None
        else _from_operator(target, title, both=bool(crd), strict=strict)
    )
    if check and output is None:
        raise LoadError("--check compares with a file: name it with -o")
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        present = output.read_text(encoding="utf-8") if output.exists() else None
        if present == text:
            typer.echo(f"{output} is up to date")
            return
        if check:
            typer.echo(f"{output} {'is missing' if present is None else 'differs'}")
            typer.echo("Run it without --check to update it.", err=True)
            raise typer.Exit(1)
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise LoadError(f"{problem.filename or output}: {problem.strerror}", 1) from None
    typer.echo(f"{output}: {'created' if present is None else 'changed'}")


def _from_crds(paths: list[Path], title: str) -> str:
    from steersman.manifests.reference import reference

    found = crds_from(map(str, paths))
    if not found:
        raise LoadError(f"there is no CustomResourceDefinition in {', '.join(map(str, paths))}")
    try:
        return reference(found, title=title)
    except (KeyError, TypeError, AttributeError) as problem:
        raise LoadError(f"a CRD is not complete: {problem}") from None


def _from_operator(target: str | None, title: str, *, both: bool, strict: bool) -> str:
    from steersman.manifests import ManifestError, classes_of, crds
    from steersman.manifests.reference import foreign_types, reference, undescribed

    if target is None or both:
        raise LoadError("name an operator, or CRDs with --crd; one of them")
    operator = load_operator(target)
    classes = classes_of(operator)
    if not classes:
        raise LoadError(f"{target} reconciles no kind of its own; there is nothing to document", 1)
    try:
        made = crds(classes)
        if strict and (missing := undescribed(classes)):
            raise LoadError("\nerror: ".join(missing), 1)
        return reference(made, foreign_types(classes), title=title)
    except ManifestError as wrong:
        raise LoadError("\nerror: ".join(wrong.problems), 1) from None
