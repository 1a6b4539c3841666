"""`steersman install` and `uninstall`: apply and delete the CustomResourceDefinitions of an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from steersman.cli.crds.validation import embedded_check
from steersman.cli.installation import cluster_changes
from steersman.cli.operator_loader import LoadError, load_operator
from steersman.cli.packaging import package_options
from steersman.cli.target import Target

if TYPE_CHECKING:
    from steersman.client import Client

__all__ = ["install", "uninstall"]


def install(
    target: Target,
    kubeconfig: cluster_changes.Kubeconfig = None,
    context: cluster_changes.Context = None,
    dry_run: cluster_changes.DryRun = "none",
    *,
    diff: cluster_changes.Diff = False,
    force: cluster_changes.Force = False,
    format: package_options.Format = "text",
) -> None:
    """Apply the CustomResourceDefinitions of an operator, and wait until they are served.

    For operators that run outside of the cluster (`steersman run`). Such a run registers its conversion webhooks.
    """
    from steersman.cli.installation.apply_set import ApplySet

    definitions = _definitions(target)
    dry = dry_run == "server" or diff
    teller = cluster_changes.ChangePrinter(format=format, dry_run=dry, diff=diff)

    async def work(client: Client) -> None:
        applied = ApplySet(client, "", "", dry_run=dry, force=force)
        await teller.all_of(applied.apply_loosely(definitions))

    cluster_changes.on_cluster(kubeconfig, context, work)
    teller.end()
    if diff and teller.differs:
        raise typer.Exit(1)


def uninstall(
    target: Target,
    kubeconfig: cluster_changes.Kubeconfig = None,
    context: cluster_changes.Context = None,
    dry_run: cluster_changes.DryRun = "none",
    *,
    yes: cluster_changes.Yes = False,
    format: package_options.Format = "text",
) -> None:
    """Delete the CustomResourceDefinitions of an operator with all objects of its kinds.

    While objects exist, `--yes` is needed. The operator must run to remove finalizers of objects.
    """
    from steersman.cli.installation.apply_set import ApplySet, reference_of

    definitions = _definitions(target)
    teller = cluster_changes.ChangePrinter(format=format, dry_run=dry_run == "server")

    async def work(client: Client) -> None:
        await refuse_when_used(client, definitions, yes=yes or dry_run == "server")
        applied = ApplySet(client, "", "", dry_run=dry_run == "server")
        await teller.all_of(applied.delete([reference_of(crd) for crd in definitions]))

    cluster_changes.on_cluster(kubeconfig, context, work)
    teller.end()


async def refuse_when_used(client: Client, definitions: list[dict[str, Any]], *, yes: bool) -> None:
    """Raise `LookupError` if objects would be deleted with their definitions without `--yes`."""
    used = await cluster_changes.objects_of(client, definitions)
    for name, count in used.items():
        typer.echo(f"warning: {count} {'object' if count == 1 else 'objects'} of {name} will be deleted", err=True)
    if used and not yes:
        raise LookupError("nothing was deleted: add --yes to delete these objects with their definitions")


def _definitions(target: str) -> list[dict[str, Any]]:
    from steersman.manifests import ManifestError, crds

    operator = load_operator(target)
    try:
        found = crds(operator, check=embedded_check())
    except ManifestError as wrong:
        raise LoadError("\nerror: ".join(wrong.problems), 1) from None
    if not found:
        raise LoadError(f"{target} has no kinds of its own: there is nothing to install", 1)
    for crd in found:
        crd["spec"].pop("conversion", None)
    return found
