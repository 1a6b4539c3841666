"""`steersman diff`: incompatible changes between two versions of a CRD."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Literal

import typer

from steersman.cli.crds.files import crds_from, crds_of_cluster
from steersman.cli.operator_loader import LoadError

__all__ = ["diff"]


def diff(
    sources: Annotated[
        list[str], typer.Argument(metavar="[OLD] NEW", help="YAML files or directories with CRDs; - is stdin.")
    ],
    *,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Compare NEW with what a cluster has, instead of OLD.")
    ] = False,
    kubeconfig: Annotated[str | None, typer.Option(help="Kubeconfig of that cluster.")] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also show compatible changes.")] = False,
    output: Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="How to print it.")] = "text",
) -> None:
    """List the incompatible changes between two versions of CRDs; exits with 1 when there are any.

    `steersman diff old.yaml new.yaml`, `steersman diff --cluster config/crd`. Examples are removed fields, new required
    fields, tighter rules, and removed versions in which objects are stored: each can break a valid object or a client.
    """
    from steersman.manifests.compat import changes_between

    if len(sources) != (1 if cluster else 2):
        raise LoadError("name one file or directory with --cluster, two without: OLD NEW")
    new = crds_from([sources[-1]])
    if not new:
        raise LoadError(f"there is no CustomResourceDefinition in {sources[-1]}")
    if cluster:
        names = [str(crd["metadata"]["name"]) for crd in new]
        old = crds_of_cluster(names, (), kubeconfig, context, missing_ok=True)
    else:
        old = crds_from([sources[0]])
        if not old:
            raise LoadError(f"there is no CustomResourceDefinition in {sources[0]}")
    try:
        changes = changes_between(old, new)
    except (KeyError, TypeError, AttributeError) as problem:
        raise LoadError(f"a CRD is not complete: {problem}") from None
    breaking = [change for change in changes if change.severity == "breaking"]
    if output == "json":
        typer.echo(json.dumps([asdict(change) for change in changes], indent=2))
    else:
        for change in changes:
            if everything or change.severity != "compatible":
                typer.echo(f"{change.severity:10} {change}")
        hidden = 0 if everything else sum(change.severity == "compatible" for change in changes)
        more = f"; {hidden} compatible (--all shows them)" if hidden else ""
        typer.echo(f"{len(breaking) or 'no'} breaking change{'' if len(breaking) == 1 else 's'}{more}")
    if breaking:
        raise typer.Exit(1)
