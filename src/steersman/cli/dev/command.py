"""`steersman dev`: runs a cluster and an operator, and shows their objects and Events, with one command."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from steersman.cli.target import Target

if TYPE_CHECKING:
    from steersman.cli.dev.session import Session, SessionOptions

__all__ = ["dev"]

_CLUSTER = "Cluster"
_OPERATOR = "Operator"


def dev(
    target: Target,
    load: Annotated[
        list[Path] | None,
        typer.Option(
            help="Manifests to apply beside the project's CRDs: a file or a directory; may be repeated.",
            exists=True,
            rich_help_panel=_CLUSTER,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Directory of the cluster's data; by default "
                 "they are kept in memory.", file_okay=False, rich_help_panel=_CLUSTER
        ),
    ] = None,
    nodes: Annotated[int, typer.Option(min=0, max=5000, help="Number of nodes.", rich_help_panel=_CLUSTER)] = 1,
    node_kind: Annotated[
        Literal["simulated", "process"], typer.Option(help="Kind of the nodes: simulated, or process "
                                                           "for running containers.", rich_help_panel=_CLUSTER)
    ] = "simulated",
    images: Annotated[
        Path | None,
        typer.Option(
            help="For process nodes: the file that maps images.", exists=True, dir_okay=False, rich_help_panel=_CLUSTER
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the API; 0 takes a free one.", rich_help_panel=_CLUSTER)
    ] = 0,
    name: Annotated[
        str, typer.Option(help="Name of the cluster, for `steersman cluster`.", rich_help_panel=_CLUSTER)
    ] = "dev",
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace", "-n", help="Namespace the operator works in; may be repeated.", rich_help_panel=_OPERATOR
        ),
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        typer.Option(help="Log level of the operator.", rich_help_panel=_OPERATOR),
    ] = "info",
    *, reload: Annotated[
        bool,
        typer.Option(
            "--reload/--no-reload", help="Restart the operator when its files change.", rich_help_panel=_OPERATOR
        ),
    ] = True,
    live: Annotated[
        bool | None,
        typer.Option(
            "--live/--no-live", help="Show a live view; on a terminal by default, else plain log lines.",
            show_default=False,
        ),
    ] = None,
) -> None:  # fmt: skip
    """Develop an operator: a cluster of its own, its CRDs, the operator with hot reload, and a view of it all.

    Installs the CustomResourceDefinitions of `config/crd` in the project or, if there is no such directory, those that
    `steersman manifests` would write. Runs the operator, and shows its objects with their children, its queues, the
    last reconciles, Events and the log. kubectl in another terminal works with the kubeconfig that is shown. Ctrl-C
    ends everything and leaves nothing behind.

    For example:

        steersman dev helloapp:operator

        steersman dev helloapp:operator --load config/samples

        steersman dev helloapp:operator --no-reload --no-live   # breakpoint() works
    """
    from steersman.extras import require
    from steersman.telemetry.log import configure

    shown = sys.stdout.isatty() if live is None else live
    needed = ["steersman_cluster", *(["watchfiles"] if reload else []), *(["rich"] if shown else [])]
    require("`steersman dev`", "dev", *needed)
    from steersman.cli.dev.session import SessionOptions
    from steersman_cluster.cluster import Options

    if images is not None and node_kind != "process":
        raise typer.BadParameter("--images is for --node-kind process: simulated nodes run no containers")
    configure(level="error")
    settings: dict[str, Any] = {"log_level": log_level}
    if namespace:
        settings["namespaces"] = namespace
    quiet: dict[str, Any] = {
        "leader_elect": False,
        "metrics_bind_address": "0",
        "health_probe_bind_address": "0",
        "webhook_bind_address": "127.0.0.1:0",
        "shutdown_grace": 5.0,
    }
    # `STEERSMAN_*` variables do not count here, because flags would override them.
    settings |= {key: value for key, value in quiet.items() if f"STEERSMAN_{key.upper()}" not in os.environ}
    options = SessionOptions(
        target=target,
        cluster=Options(data=data, port=port, nodes=nodes, node_kind=node_kind, images=images),
        name=name,
        load=tuple(load or ()),
        reload=reload,
        live=shown,
        settings=tuple(settings.items()),
    )
    raise SystemExit(asyncio.run(_run_session(options)))


async def _run_session(options: SessionOptions) -> int:
    from steersman.cli.dev.session import Session

    session = Session(options, typer.echo)
    if not options.live:
        return await session.run(ready=lambda: None, draw=lambda: None)
    return await _live(session)


async def _live(session: Session) -> int:
    from rich.console import Console
    from rich.live import Live

    from steersman.cli.dev.view import View

    console = Console(highlight=False)
    view = Live(View(session.scene), console=console, screen=True, auto_refresh=False)
    try:
        code = await session.run(ready=view.start, draw=view.refresh)
    finally:
        view.stop()
    if code:
        for entry in list(session.scene.log)[-15:]:
            console.print(entry, markup=False, soft_wrap=True)
    console.print("stopped; the cluster and its objects are deleted" if session.options.cluster.data is None else
                  f"stopped; the cluster stays in {session.options.cluster.data}")  # fmt: skip
    if session.scene.log_file:
        console.print(f"log: {session.scene.log_file}", markup=False, soft_wrap=True)
    return code
