"""`steersman deploy` and `undeploy`: install an operator in a cluster with all its objects, and remove it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from steersman.cli.crds.validation import embedded_check
from steersman.cli.installation import cluster_changes
from steersman.cli.installation.install import refuse_when_used
from steersman.cli.installation.rollout import rolled_out, simulates
from steersman.cli.operator_loader import LoadError
from steersman.cli.packaging import package_options
from steersman.cli.target import Target

if TYPE_CHECKING:
    from steersman.cli.installation.apply_set import Reference
    from steersman.client import Client

__all__ = ["deploy", "undeploy"]

_SIMULATED = (
    "the nodes of this cluster are simulated: Pods become Ready, and no container runs, the operator's neither. "
    "`steersman run {target}` runs it on this machine; `steersman cluster start --node-kind process --images FILE` "
    "starts a cluster whose nodes run containers as local processes"
)


def deploy(
    target: Target,
    kubeconfig: cluster_changes.Kubeconfig = None,
    context: cluster_changes.Context = None,
    image: package_options.Image = None,
    version: package_options.Version = None,
    namespace: package_options.Namespace = None,
    watch_namespace: package_options.WatchNamespace = None,
    replicas: package_options.Replicas = 1,
    certificates: package_options.Certificates = "self-managed",
    *,
    metrics: package_options.Metrics = True,
    monitoring: package_options.Monitoring = False,
    network_policies: package_options.NetworkPolicies = False,
    install_crds: package_options.InstallCrds = False,
    dry_run: cluster_changes.DryRun = "none",
    diff: cluster_changes.Diff = False,
    force: cluster_changes.Force = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the Deployment is available.")] = True,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait.")] = 180.0,
    format: package_options.Format = "text",
) -> None:
    """Apply all manifests of `steersman manifests`, prune objects that an older version left, and wait.

    After Ctrl-C the applied objects stay; the next run continues.
    """
    from steersman.cli.installation.apply_set import ApplySet
    from steersman.manifests import ManifestError, everything

    package = package_options.package_for(
        target,
        image=image,
        version=version,
        namespace=namespace,
        watch_namespace=watch_namespace,
        replicas=replicas,
        certificates=certificates,
        metrics=metrics,
        monitoring=monitoring,
        network_policies=network_policies,
        install_crds=install_crds,
    )
    try:
        documents = everything(package, check=embedded_check())
    except ManifestError as wrong:
        raise LoadError("\nerror: ".join(wrong.problems), 1) from None
    dry = dry_run == "server" or diff
    teller = cluster_changes.ChangePrinter(format=format, dry_run=dry, diff=diff)

    async def work(client: Client) -> None:
        if not dry and await simulates(client):
            typer.echo(f"warning: {_SIMULATED.format(target=target)}", err=True)
        applied = ApplySet(client, f"{package.name}-package", package.home, dry_run=dry, force=force)
        await teller.all_of(applied.apply(documents))
        if wait and not dry:
            await rolled_out(client, package.name, package.home, timeout, teller.words)

    try:
        cluster_changes.on_cluster(kubeconfig, context, work)
    finally:
        teller.end()
    if diff and teller.differs:
        raise typer.Exit(1)


_FIRST = ("CustomResourceDefinition", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "Deployment")


def undeploy(
    target: Target,
    kubeconfig: cluster_changes.Kubeconfig = None,
    context: cluster_changes.Context = None,
    namespace: package_options.Namespace = None,
    *,
    keep_crds: Annotated[
        bool,
        typer.Option("--keep-crds", help="Keep the CustomResourceDefinitions and all objects of the operator's kinds."),
    ] = False,
    dry_run: cluster_changes.DryRun = "none",
    yes: cluster_changes.Yes = False,
    format: package_options.Format = "text",
) -> None:
    """Delete all objects that `steersman deploy` applied, of any version; the namespace goes last.

    While objects of the operator's kinds exist, `--yes` (deletes them, too) or `--keep-crds` is needed.
    """
    from steersman.cli.installation.apply_set import ApplySet

    package = package_options.package_for(target, namespace=namespace)
    dry = dry_run == "server"
    teller = cluster_changes.ChangePrinter(format=format, dry_run=dry)

    async def work(client: Client) -> None:
        applied = ApplySet(client, f"{package.name}-package", package.home, dry_run=dry)
        members = await applied.members()
        if not members:
            teller.words(f"{package.name} is not deployed in {package.home}")
            return
        kept = ("CustomResourceDefinition",) if keep_crds else ()
        definitions = [r for r in members if r.kind == "CustomResourceDefinition" and r.kind not in kept]
        await refuse_when_used(client, [_shape(r) for r in definitions], yes=yes or dry)
        going = sorted((r for r in members if r.kind not in kept), key=_rank)
        namespaces = [r for r in going if r.kind == "Namespace"]
        await teller.all_of(applied.delete(r for r in going if r.kind != "Namespace"))
        if not dry:
            await applied.forget()
        await teller.all_of(applied.delete(namespaces))

    try:
        cluster_changes.on_cluster(kubeconfig, context, work)
    finally:
        teller.end()


def _rank(reference: Reference) -> tuple[int, Reference]:
    """Order the deletion: definitions while the operator still runs finalizers, permissions after their users."""
    return (_FIRST.index(reference.kind) if reference.kind in _FIRST else len(_FIRST)), reference


def _shape(reference: Reference) -> dict[str, Any]:
    plural, _, group = reference.name.partition(".")
    return {"metadata": {"name": reference.name}, "spec": {"group": group, "names": {"plural": plural}}}
