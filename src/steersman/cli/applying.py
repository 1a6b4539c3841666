"""Applies files to a cluster and prints a line for each object: what `cluster load` and `dev --load` do."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from steersman.client import Client
from steersman.client.config import load_config
from steersman.devcluster.loading import Outcome, load
from steersman.devcluster.manifests import Manifest, read

__all__ = ["apply_files", "line"]


def apply_files(kubeconfig: Path, paths: Sequence[Path], *, namespace: str, force: bool, output: str) -> int:
    """Apply and tell; returns the exit code. Raises `ClientError` for a cluster that cannot be reached."""
    manifests, problems = read(paths)
    outcomes = asyncio.run(_apply(kubeconfig, manifests, namespace, force, quiet=output == "json"))
    if output == "json":
        told = [
            {
                "source": o.manifest.source, "apiVersion": o.manifest.api_version, "kind": o.manifest.kind,
                "namespace": o.namespace, "name": o.name, "result": o.action, "error": o.error,
            }
            for o in outcomes
        ]  # fmt: skip
        print(json.dumps(told, indent=2))  # noqa: T201
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)  # noqa: T201
    failed = sum(o.action == "failed" for o in outcomes) + len(problems)
    if failed and len(outcomes) + len(problems) > 1:
        print(f"{failed} of {len(outcomes) + len(problems)} failed", file=sys.stderr)  # noqa: T201
    if not outcomes and not problems:
        print("there is nothing in these files", file=sys.stderr)  # noqa: T201
    return 1 if failed else 0


async def _apply(
    kubeconfig: Path, manifests: Sequence[Manifest], namespace: str, force: bool, *, quiet: bool
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    async with Client(load_config(kubeconfig), on_warning=_warn) as client:
        found: AsyncIterator[Outcome] = load(client, manifests, namespace=namespace, force=force)
        async for outcome in found:
            outcomes.append(outcome)
            if outcome.action == "failed":
                print(f"error: {line(outcome)}", file=sys.stderr, flush=True)  # noqa: T201
            elif not quiet:
                print(line(outcome), flush=True)  # noqa: T201
    return outcomes


def line(outcome: Outcome) -> str:
    """`deployment.apps/web created`, or where and why it failed."""
    if outcome.action == "failed":
        return f"{outcome.manifest.source}: {outcome.reference}: {outcome.error}"
    where = f" in {outcome.namespace}" if outcome.namespace not in ("", "default") else ""
    return f"{outcome.reference} {outcome.action}{where}"


def _warn(text: str, _request: str) -> None:
    print(f"warning: {text}", file=sys.stderr)  # noqa: T201
