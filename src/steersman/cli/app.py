"""The tree of commands, for typer. `steersman run` is parsed by `run_options`, and shown here."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

import steersman
from steersman.cli import real_node
from steersman.cli.cluster import cluster_app
from steersman.cli.crds.diff import diff as diff_command
from steersman.cli.crds.migrate_storage import migrate_storage as migrate_storage_command
from steersman.cli.crds.models import models as models_command
from steersman.cli.dev.command import dev as dev_command
from steersman.cli.docs import docs as docs_command
from steersman.cli.doctor.command import doctor as doctor_command
from steersman.cli.explore import explore as explore_command
from steersman.cli.installation.deploy import deploy as deploy_command
from steersman.cli.installation.deploy import undeploy as undeploy_command
from steersman.cli.installation.install import install as install_command
from steersman.cli.installation.install import uninstall as uninstall_command
from steersman.cli.packaging.build import build as build_command
from steersman.cli.packaging.bundle import app as bundle
from steersman.cli.packaging.manifests import manifests as manifests_command
from steersman.cli.rbac import rbac as rbac_command
from steersman.cli.run.completion import run_placeholder
from steersman.cli.scaffolding.create import app as create
from steersman.cli.scaffolding.delete import app as delete
from steersman.cli.scaffolding.edit import edit as edit_command
from steersman.cli.scaffolding.init import init as init_command
from steersman.cli.scaffolding.tutorial_flags import translate
from steersman.cli.scaffolding.update import update as update_command

__all__ = ["app", "mount_assets", "run_command"]

app = typer.Typer(
    name="steersman",
    help="Build, run and test Kubernetes operators in Python.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
)
app.add_typer(create)
app.add_typer(delete)
cluster = cluster_app()
app.add_typer(cluster)
app.add_typer(bundle)


def _print_version(*, asked: bool) -> None:
    if asked:
        version("text")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    """Build, run and test Kubernetes operators in Python.

    `steersman run helloapp:operator` runs the operator of the module `helloapp` against the cluster of your
    kubeconfig. `steersman dev helloapp:operator` starts a cluster for it, and shows objects and Events.
    `steersman cluster start` starts such a cluster alone.
    """


app.command("init")(init_command)
app.command("edit")(edit_command)
app.command("update")(update_command)
app.command("run")(run_placeholder)
app.command("dev")(dev_command)
app.command("explore")(explore_command)
app.command("manifests")(manifests_command)
app.command("install")(install_command)
app.command("uninstall")(uninstall_command)
app.command("deploy")(deploy_command)
app.command("undeploy")(undeploy_command)
app.command("build")(build_command)
app.command("rbac")(rbac_command)
app.command("models")(models_command)
app.command("migrate-storage")(migrate_storage_command)
app.command("diff")(diff_command)
app.command("docs")(docs_command)
app.command("doctor")(doctor_command)


@app.command()
def version(
    output: Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="How to print it.")] = "text",
) -> None:
    """Print the versions of Steersman, Python and the platform."""
    import json
    import platform

    facts = {
        "version": steersman.__version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
    if output == "json":
        typer.echo(json.dumps(facts))
    else:
        typer.echo(f"steersman {facts['version']} (Python {facts['python']}, {facts['platform']})")


def mount_assets() -> None:
    """Add the commands `cluster assets`, once; they load the test kit."""
    from steersman.testing.controlplane.assets_command import app as assets

    if all(group.typer_instance is not assets for group in cluster.registered_groups):
        cluster.add_typer(assets, name="assets")


def run_command(words: list[str]) -> None:
    """Parse the words of a command line and run its command.

    Raises:
        SystemExit: The command has ended, the words contain `--help`, or they are wrong.
    """
    if words[:1] == ["cluster"] or "--help" in words or "-h" in words:
        mount_assets()  # other commands do not load the test kit
        real_node.mount(cluster)
        words = real_node.routed(words)
    words, notes = translate(words)
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    try:
        app(args=words, prog_name="steersman")
    except typer.Exit as ended:
        raise SystemExit(ended.exit_code) from None
