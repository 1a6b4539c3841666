"""`steersman cluster`: the commands of the distribution `steersman-cluster`, and `assets` of the test kit."""

from __future__ import annotations

import typer

from steersman.extras import is_installed, require

__all__ = ["cluster_app"]

_HELP = "A Kubernetes cluster in one process, for development and tests."


def cluster_app() -> typer.Typer:
    """Return the command group; without `steersman-cluster`, commands that name the way to install it."""
    if not is_installed("steersman_cluster"):
        return _without_cluster()
    from steersman_cluster.cli.commands import app

    return app


def _without_cluster() -> typer.Typer:
    app = typer.Typer(name="cluster", help=_HELP, no_args_is_help=True, rich_markup_mode="markdown")
    settings = {"allow_extra_args": True, "ignore_unknown_options": True}
    for name in ("start", "stop", "status", "load"):
        app.command(name, context_settings=settings, help="Needs `pip install 'steersman[dev]'`.")(_refuse)
    return app


def _refuse() -> None:
    require("`steersman cluster`", "dev", "steersman_cluster")
