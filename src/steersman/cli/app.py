"""The tree of commands, and the one place where errors become messages and exit codes.

Exit codes: 0 all went well (a shutdown that was asked for included), 1 it failed, 2 it was asked for wrongly, 130 it
was interrupted before it had shut down. No traceback reaches a user unless `--debug` asks for one.
"""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

import steersman
from steersman.cli.build import build as build_command
from steersman.cli.bundle import app as bundle
from steersman.cli.cluster import cluster_app
from steersman.cli.create import app as create
from steersman.cli.delete import app as delete
from steersman.cli.deploy import deploy as deploy_command
from steersman.cli.deploy import undeploy as undeploy_command
from steersman.cli.dev import dev as dev_command
from steersman.cli.diff import diff as diff_command
from steersman.cli.docs import docs as docs_command
from steersman.cli.doctor import doctor as doctor_command
from steersman.cli.edit import edit as edit_command
from steersman.cli.errors import explain
from steersman.cli.init import init as init_command
from steersman.cli.install import install as install_command
from steersman.cli.install import uninstall as uninstall_command
from steersman.cli.manifests import manifests as manifests_command
from steersman.cli.migrate_storage import migrate_storage as migrate_storage_command
from steersman.cli.models import models as models_command
from steersman.cli.rbac import rbac as rbac_command
from steersman.cli.run import run as run_command
from steersman.cli.tutorial_flags import translate
from steersman.cli.update import update as update_command

__all__ = ["app", "run"]

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


def _print_version(asked: bool) -> None:
    if asked:
        version("text")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    """Build, run and test Kubernetes operators in Python.

    `steersman run helloapp:operator` runs the operator of the module `helloapp` against the cluster of your
    kubeconfig. `steersman dev helloapp:operator` brings a cluster of its own, and shows what happens.
    `steersman cluster start` starts such a cluster alone.
    """


app.command("init")(init_command)
app.command("edit")(edit_command)
app.command("update")(update_command)
app.command("run")(run_command)
app.command("dev")(dev_command)
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
    """Print the version of Steersman and of what it runs on."""
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


def _mount_assets() -> None:
    from steersman.testing.assets_command import app as assets

    cluster.add_typer(assets, name="assets")


def run(arguments: list[str] | None = None) -> None:
    """Parse and run; raises `SystemExit`."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    debug = "--debug" in words
    if debug and words[0] != "run":
        words.remove("--debug")  # an option of the whole program; `run` lists it among its own
    if words[:1] == ["cluster"] or "--help" in words or "-h" in words:
        _mount_assets()  # the testing room is not loaded by an operator in production
    try:
        words, notes = translate(words)
        for note in notes:
            typer.echo(f"note: {note}", err=True)
        app(args=words, prog_name="steersman")
    except (typer.Exit, SystemExit):
        raise
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(1) from None
    except Exception as problem:  # noqa: BLE001 - the last line of defence against tracebacks
        raise SystemExit(explain(problem, debug=debug)) from None
