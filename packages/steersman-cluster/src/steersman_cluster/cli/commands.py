"""The commands of the embedded cluster and their options: start, stop, status, load."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal, ParamSpec, TypeVar

import typer

from steersman.version import __version__
from steersman_cluster.cli.fault import app as fault
from steersman_cluster.cli.image import app as image
from steersman_cluster.program import program

__all__ = ["app"]

P = ParamSpec("P")
T = TypeVar("T")

_HOW = "What the cluster is made of"
_WHERE = "Where it is"

_HELP = """A Kubernetes cluster in one process, for development and tests: API server, controllers, scheduler, nodes.

kubectl, Helm and the clients of every language work with it over TLS. It needs no container runtime and no root.

    steersman-cluster start --detach --kubeconfig ~/.kube/config

    kubectl create deployment web --image=nginx

    steersman-cluster load config/crd config/samples

    steersman-cluster stop
"""

app = typer.Typer(
    name="cluster",
    help=_HELP.replace("steersman-cluster ", f"{program()} "),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
)

app.add_typer(fault)
app.add_typer(image)


def _print_version(*, requested: bool) -> None:
    if requested:
        typer.echo(f"steersman-cluster {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    pass


Output = Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="How to print it.")]


def _spelled(command: Callable[P, T]) -> Callable[P, T]:
    """Replace the name of the program in the examples of a command by the one that the user has typed."""
    command.__doc__ = (command.__doc__ or "").replace("steersman-cluster ", f"{program()} ")
    return command


def _complete_name(incomplete: str) -> list[str]:
    from steersman_cluster.detached import names

    return [name for name in names() if name.startswith(incomplete)]


Name = Annotated[
    str,
    typer.Option("--name", help="Which cluster; several may run side by side.", autocompletion=_complete_name),
]


@app.command()
@_spelled
def start(
    *,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Run in the background; return when it is ready.")
    ] = False,
    name: Name = "default",
    data: Annotated[
        Path | None,
        typer.Option(
            help="Directory to keep the cluster in, so that it outlives its process; in memory without it.",
            file_okay=False,
            rich_help_panel=_HOW,
        ),
    ] = None,
    nodes: Annotated[int, typer.Option(min=0, max=5000, help="Number of nodes.", rich_help_panel=_HOW)] = 1,
    node_kind: Annotated[
        Literal["simulated", "process"],
        typer.Option(
            help="`simulated`: Pods become Ready, nothing runs. `process`: containers run as local processes.",
            rich_help_panel=_HOW,
        ),
    ] = "simulated",
    images: Annotated[
        Path | None,
        typer.Option(
            help="For process nodes: the file that maps images to local directories or commands.",
            exists=True,
            dir_okay=False,
            rich_help_panel=_HOW,
        ),
    ] = None,
    network: Annotated[
        Literal["auto", "namespaces", "loopback"],
        typer.Option(
            help="For process nodes: `namespaces` gives each Pod a network with DNS and Services, `loopback` "
            "shares this machine's, and `auto` takes `namespaces` where the kernel allows it.",
            rich_help_panel=_HOW,
        ),
    ] = "auto",
    controllers: Annotated[
        bool,
        typer.Option(
            "--controllers/--no-controllers",
            help="Run Deployments, Jobs, garbage collection and so on; without them the API server is alone.",
            rich_help_panel=_HOW,
        ),
    ] = True,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the API; 0 takes a free one.", rich_help_panel=_WHERE)
    ] = 0,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            help="Add a context for the cluster to this kubeconfig until the cluster stops.",
            dir_okay=False,
            rich_help_panel=_WHERE,
        ),
    ] = None,
    audit_log: Annotated[
        Path | None,
        typer.Option(
            help="Write the audit log to this file, one JSON event per line.",
            dir_okay=False,
            rich_help_panel=_WHERE,
        ),
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        typer.Option(help="What the cluster's own parts log.", rich_help_panel=_WHERE),
    ] = "error",
    output: Output = "text",
    as_child: Annotated[bool, typer.Option("--as-child", hidden=True)] = False,
    real_node: Annotated[
        bool,
        typer.Option(
            "--real-node",
            help="Start a real cluster of one node instead, with kubelet and containers (Linux, as root). It has "
            "options of its own: `steersman cluster start --real-node --help`.",
            rich_help_panel=_HOW,
        ),
    ] = False,
) -> None:
    """Start a cluster, until Ctrl-C or in the background.

    It serves the Kubernetes API over TLS on this machine only, and is there in a moment. kubectl, Helm and every
    client library work with the kubeconfig that it prints. Nothing but Python is needed. Ctrl-C stops it; Ctrl-C
    twice aborts.

    For example:

        steersman-cluster start

        steersman-cluster start --detach --kubeconfig ~/.kube/config

        steersman-cluster start --data ./cluster --port 6443 --nodes 3

        steersman-cluster start --node-kind process --images images.yaml
    """
    from steersman_cluster.cli import output as texts
    from steersman_cluster.cluster import Options

    if real_node:
        raise typer.BadParameter("--real-node is an option of `steersman cluster start`, of the package steersman[dev]")
    if images is not None and node_kind != "process":
        raise typer.BadParameter("--images is for --node-kind process: simulated nodes run no containers")
    if network != "auto" and node_kind != "process":
        raise typer.BadParameter("--network is for --node-kind process: simulated nodes run no containers")
    options = Options(
        data=data, port=port, nodes=nodes, node_kind=node_kind, images=images, controllers=controllers,
        audit_path=audit_log, network=network,
    )  # fmt: skip
    if detach and not as_child:
        from steersman_cluster.detached import spawn

        words = [word for word in sys.argv[1:] if word not in ("--detach", "-d", "--debug")]
        seen = spawn([*words[words.index("start") :], "--as-child"], name)
        typer.echo(texts.started(seen.record, output), nl=False)
        return
    from steersman.telemetry.log import configure
    from steersman_cluster.cli.host import Hosted, host

    configure(level=log_level, format="console" if as_child else "auto")
    wanted = Hosted(name, options, kubeconfig, detached=as_child)
    code = host(wanted, lambda record: typer.echo(texts.started(record, output), nl=False))
    if not as_child and output == "text" and code == 0:
        typer.echo("stopped")
    raise SystemExit(code)


OtherName = Annotated[
    str | None,
    typer.Option("--name", help="The same, as `start` spells it.", autocompletion=_complete_name, show_default=False),
]


def _one_name(name: str | None, other: str | None) -> str | None:
    """Return the name that was given as an argument or as `--name`; raises `BadParameter` for two different ones."""
    if name is not None and other is not None and name != other:
        raise typer.BadParameter(f"two clusters are named: {name} and --name {other}; name one")
    return name if name is not None else other


@app.command()
@_spelled
def stop(
    name: Annotated[
        str | None,
        typer.Argument(help="Which cluster; `default` by default.", autocompletion=_complete_name, show_default=False),
    ] = None,
    other_name: OtherName = None,
    *,
    all_: Annotated[bool, typer.Option("--all", help="Stop every cluster of this user.")] = False,
) -> None:
    """Stop a running cluster. Objects in a --data directory stay; everything else is removed.

    For example:

        steersman-cluster stop

        steersman-cluster stop tests

        steersman-cluster stop --all
    """
    from steersman_cluster import detached
    from steersman_cluster.cli import output as texts

    name = _one_name(name, other_name)
    if all_ and name is not None:
        raise typer.BadParameter("--all stops all clusters: name none with it")
    if all_:
        found = [seen for other in detached.names() if (seen := detached.find(other)) is not None]
        if not found:
            typer.echo("no cluster runs")
    else:
        seen = detached.find(name or detached.DEFAULT_NAME)
        if seen is None:
            raise detached.StateError(texts.no_such(name or detached.DEFAULT_NAME))
        found = [seen]
    for seen in found:
        typer.echo(texts.stopped(seen, _stop(seen)))


def _stop(seen: object) -> str:
    from steersman_cluster import detached
    from steersman_cluster.cli.user_kubeconfig import take_out

    assert isinstance(seen, detached.Seen)
    if seen.state == "killed":
        if seen.record.merged:
            take_out(Path(seen.record.merged), seen.record.context)
        detached.forget(seen)
        return "was killed"
    if detached.stop(seen):
        return "stopped"
    if seen.record.merged:
        take_out(Path(seen.record.merged), seen.record.context)
    return "killed"


@app.command()
@_spelled
def status(
    name: Annotated[
        str | None,
        typer.Argument(help="Which cluster; all of them by default.", autocompletion=_complete_name),
    ] = None,
    other_name: OtherName = None,
    output: Output = "text",
) -> None:
    """Show which clusters run: since when, in which version, where, with how many objects.

    Named, one that does not run is an error (exit code 1), for scripts.

    For example:

        steersman-cluster status

        steersman-cluster status tests -o json
    """
    from steersman_cluster import detached
    from steersman_cluster.cli import output as texts

    name = _one_name(name, other_name)
    wanted = detached.names() if name is None else [name]
    found = [seen for one in wanted if (seen := detached.find(one)) is not None]
    if name is not None and not found:
        raise detached.StateError(texts.no_such(name))
    facts = texts.facts(found)
    if output == "json":
        typer.echo(json.dumps([asdict(fact) for fact in facts], indent=2))
    else:
        typer.echo(texts.table(facts), nl=False)
    if name is not None and found[0].state != "running":
        raise SystemExit(1)


@app.command()
@_spelled
def load(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE|DIRECTORY…", help="Manifests; `-` is standard input.", show_default=False),
    ] = None,
    filename: Annotated[
        list[Path] | None, typer.Option("--filename", "-f", help="The same, as kubectl spells it; may be repeated.")
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of objects that name none.")
    ] = "default",
    *,
    force_conflicts: Annotated[
        bool, typer.Option("--force-conflicts", help="Take over fields that others manage, instead of failing.")
    ] = False,
    name: Name = "default",
    output: Output = "text",
) -> None:
    """Apply manifests to a running cluster: files, directories with all below, in an order that works.

    CustomResourceDefinitions and Namespaces go first and are waited for. Every object has a line that says what
    became of it. The exit code is 1 when any failed; the others are applied nevertheless.

    For example:

        steersman-cluster load config/crd config/samples

        steersman-cluster load -f app.yaml -n shop

        helm template ./chart | steersman-cluster load -
    """
    from steersman_cluster import detached
    from steersman_cluster.cli import output as texts
    from steersman_cluster.cli.load import apply_files

    given = [*(paths or ()), *(filename or ())]
    if not given:
        raise typer.BadParameter(f"name the files or directories to load: {program()} load config/")
    seen = detached.find(name)
    if seen is None or seen.state != "running":
        raise detached.StateError(texts.no_such(name) if seen is None else texts.not_running(seen))
    raise SystemExit(
        apply_files(Path(seen.record.kubeconfig), given, namespace=namespace, force=force_conflicts, output=output)
    )
