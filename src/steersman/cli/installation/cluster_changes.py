"""Shared parts of `install`, `deploy`, `uninstall` and `undeploy`: client, progress output, differences, errors."""

from __future__ import annotations

import asyncio
import difflib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from steersman.cli.installation.rollout import RolloutError
from steersman.cli.operator_loader import LoadError

if TYPE_CHECKING:
    from steersman.cli.installation.apply_set import ObjectOutcome
    from steersman.client import Client

__all__ = ["ChangePrinter", "Context", "Diff", "DryRun", "Force", "Kubeconfig", "Yes", "objects_of", "on_cluster"]

T = TypeVar("T")
Kubeconfig = Annotated[str | None, typer.Option("--kubeconfig", help="Kubeconfig file.")]
Context = Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig.")]
DryRun = Annotated[
    Literal["none", "server"],
    typer.Option("--dry-run", help="server: the API server validates the request and stores nothing."),
]
Diff = Annotated[
    bool, typer.Option("--diff", help="Print the changes without making them; exit code 1 if there are any.")
]
Force = Annotated[bool, typer.Option("--force-conflicts", help="Take over fields that others manage.")]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Delete objects of the operator's kinds with their definitions.")
]


def on_cluster(kubeconfig: str | None, context: str | None, work: Callable[[Client], Awaitable[T]]) -> T:
    """Run `work` with a client; API errors and conflicts become errors of the command line."""
    # Imported here, because the help texts do not need the client.
    from steersman.cli.installation.apply_set import refusal
    from steersman.client import Client
    from steersman.client.config import load_config
    from steersman.client.errors import ApiError

    async def run() -> T:
        config = load_config(kubeconfig, context)
        async with Client(config, on_warning=lambda text, _: typer.echo(f"warning: {text}", err=True)) as client:
            return await work(client)

    try:
        return asyncio.run(run())
    except ApiError as problem:
        raise LoadError(refusal(problem), 1) from None
    except (LookupError, RolloutError) as problem:
        raise LoadError(str(problem.args[0]), 1) from None


class ChangePrinter:
    """Prints each change, or collects the changes for JSON."""

    def __init__(self, *, format: str, dry_run: bool = False, diff: bool = False) -> None:
        self.format = format
        self.differs = False
        self._suffix = " (dry run)" if dry_run and not diff else ""
        self._diff = diff
        self._outcomes: list[dict[str, Any]] = []

    async def all_of(self, steps: AsyncGenerator[ObjectOutcome]) -> None:
        """Print a step."""
        async for outcome in steps:
            self.one(outcome)

    def one(self, outcome: ObjectOutcome) -> None:
        """Print or collect the outcome of one object."""
        self.differs |= outcome.action != "unchanged"
        if self.format == "json":
            r = outcome.reference
            entry = {
                "group": r.group,
                "kind": r.kind,
                "namespace": r.namespace,
                "name": r.name,
                "result": outcome.action,
            }
            self._outcomes.append(entry | ({"note": outcome.note} if outcome.note else {}))
        elif self._diff:
            self._difference(outcome)
        else:
            note = f": {outcome.note}" if outcome.note else ""
            typer.echo(f"{outcome.reference} {outcome.action}{self._suffix}{note}")

    def words(self, text: str) -> None:
        """Print progress to stderr."""
        if self.format != "json":
            typer.echo(text)

    def end(self) -> None:
        """Print the collected changes."""
        if self.format == "json":
            typer.echo(json.dumps(self._outcomes, indent=2))

    def _difference(self, outcome: ObjectOutcome) -> None:
        from steersman.cli.installation.apply_set import comparable
        from steersman.manifests import to_yaml

        if outcome.action == "unchanged":
            return
        if outcome.action in ("pruned", "deleted", "left"):
            typer.echo(f"{outcome.reference} would be {outcome.action}")
            return
        old, new = (
            [] if body is None else to_yaml(comparable(body)).splitlines() for body in (outcome.before, outcome.after)
        )
        name = str(outcome.reference)
        lines = difflib.unified_diff(old, new, f"live/{name}", f"new/{name}", lineterm="")
        typer.echo("\n".join(lines))


async def objects_of(client: Client, crds: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Return the number of objects of each installed definition; counting stops at 500."""
    from steersman.client.errors import ApiError

    found: dict[str, int] = {}
    for crd in crds:
        spec, name = crd["spec"], crd["metadata"]["name"]
        try:
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
            live = json.loads((await client.raw.request("GET", path)).body)
            served = [v for v in live["spec"]["versions"] if v["served"]]
            # Read in the stored version: a conversion needs the operator, which may have stopped.
            version = next(v["name"] for v in sorted(served, key=lambda v: not v["storage"]))
            path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
            answer = json.loads((await client.raw.request("GET", path, query=(("limit", "500"),))).body)
        except (ApiError, StopIteration) as problem:
            if isinstance(problem, ApiError) and problem.code not in (404, 410):
                raise
            continue
        count = len(answer["items"] or ()) + int(answer["metadata"].get("remainingItemCount") or 0)
        if count:
            found[name] = count
    return found
