"""Applies files to a cluster and prints a line for each object: what `cluster load` and `dev --load` do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import typer

from steersman.client import Client
from steersman.client.config import load_config
from steersman.manifest_files import Manifest, read
from steersman.manifest_files.apply import Outcome, load

__all__ = ["apply_files", "line"]


def apply_files(kubeconfig: Path, paths: Sequence[Path], *, namespace: str, force: bool, output: str) -> int:
    """Apply files and print the results; returns the exit code. Raises `ClientError` without a connection."""
    manifests, problems = read(paths)
    outcomes = asyncio.run(_apply(kubeconfig, manifests, namespace, force=force, quiet=output == "json"))
    if output == "json":
        told = [
            {
                "source": o.manifest.source, "apiVersion": o.manifest.api_version, "kind": o.manifest.kind,
                "namespace": o.namespace, "name": o.name, "result": o.action, "error": o.error,
            }
            for o in outcomes
        ]  # fmt: skip
        typer.echo(json.dumps(told, indent=2))
    for problem in problems:
        typer.echo(f"error: {problem}", err=True)
    failed = sum(o.action == "failed" for o in outcomes) + len(problems)
    if failed and len(outcomes) + len(problems) > 1:
        typer.echo(f"{failed} of {len(outcomes) + len(problems)} failed", err=True)
    if not outcomes and not problems:
        typer.echo("there is nothing in these files", err=True)
    return 1 if failed else 0


async def _apply(
    kubeconfig: Path, manifests: Sequence[Manifest], namespace: str, *, force: bool, quiet: bool
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    async with Client(load_config(kubeconfig), on_warning=_warn) as client:
        found: AsyncIterator[Outcome] = load(client, manifests, namespace=namespace, force=force)
        async for outcome in found:
            outcomes.append(outcome)
            if outcome.action == "failed":
                typer.echo(f"error: {line(outcome)}", err=True)
            elif not quiet:
                typer.echo(line(outcome))
    return outcomes


def line(outcome: Outcome) -> str:
    """`deployment.apps/web created`, or where and why it failed."""
    if outcome.action == "failed":
        return f"{outcome.manifest.source}: {outcome.reference}: {outcome.error}"
    where = f" in {outcome.namespace}" if outcome.namespace not in ("", "default") else ""
    return f"{outcome.reference} {outcome.action}{where}"


def _warn(text: str, _request: str) -> None:
    typer.echo(f"warning: {text}", err=True)
