"""The command `fault`: partitions, delays, losses, pauses, kills and lost nodes on a running cluster."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from steersman_cluster.program import program

__all__ = ["app"]

_PATH: Final = "/steersman.dev/faults"
_WHOLE: Final = ("apiserver", "*")

app = typer.Typer(
    name="fault",
    help="Faults of Pods and nodes that run as processes: partitions, delays, losses, pauses, kills, lost nodes.\n\n"
    "A target is the name of a Pod, `NAMESPACE/POD`, `node/NAME`, `apiserver`, or `*` for everything. Faults of the "
    "network need a cluster with `--network namespaces`; they last until `heal`.\n\n"
    f"    {program()} fault partition db-0 --from db-1 --from db-2\n\n"
    f"    {program()} fault heal",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

Name = Annotated[str, typer.Option("--name", help="The cluster.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Namespace of Pods that name none.")]
Targets = Annotated[list[str], typer.Argument(metavar="TARGET…", help="One side.", show_default=False)]
Other = Annotated[list[str] | None, typer.Option("--from", help="The other side; everything without it. Repeatable.")]
OneWay = Annotated[bool, typer.Option("--one-way", help="Only packets from TARGET to the other side.")]
Pods = Annotated[list[str], typer.Argument(metavar="POD…", help="Pods, or node/NAME for all of a node.")]
Nodes = Annotated[list[str], typer.Argument(metavar="NODE…", help="Nodes.", show_default=False)]
Container = Annotated[str, typer.Option("--container", "-c", help="One container; all of the Pod without it.")]


@app.command()
def partition(
    targets: Targets,
    other: Other = None,
    namespace: Namespace = "default",
    name: Name = "default",
    *,
    one_way: OneWay = False,
) -> None:
    """Drop all packets between two sides."""
    _begin(name, namespace, "partition", targets, other, oneWay=one_way)


@app.command()
def delay(
    targets: Targets,
    seconds: Annotated[float, typer.Option(min=0, help="By how much each packet is late, in each direction.")],
    jitter_seconds: Annotated[float, typer.Option("--jitter-seconds", min=0, help="Up to so much more.")] = 0.0,
    other: Other = None,
    *,
    one_way: OneWay = False,
    namespace: Namespace = "default",
    name: Name = "default",
) -> None:
    """Delay packets between two sides."""
    _begin(name, namespace, "delay", targets, other, oneWay=one_way, seconds=seconds, jitterSeconds=jitter_seconds)


@app.command()
def drop(
    targets: Targets,
    share: Annotated[float, typer.Option(min=0, max=1, help="The share of packets that is lost, 0 to 1.")],
    other: Other = None,
    *,
    one_way: OneWay = False,
    namespace: Namespace = "default",
    name: Name = "default",
) -> None:
    """Drop a share of the packets between two sides, at random."""
    _begin(name, namespace, "drop", targets, other, oneWay=one_way, share=share)


@app.command()
def pause(pods: Pods, container: Container = "", namespace: Namespace = "default", name: Name = "default") -> None:
    """Stop the processes of Pods without their notice (SIGSTOP), until `resume` or `heal`."""
    _begin(name, namespace, "pause", pods, None, container=container)


@app.command()
def resume(pods: Pods, container: Container = "", namespace: Namespace = "default", name: Name = "default") -> None:
    """Let the processes of Pods go on."""
    _begin(name, namespace, "resume", pods, None, container=container)


@app.command()
def kill(pods: Pods, container: Container = "", namespace: Namespace = "default", name: Name = "default") -> None:
    """Kill the containers of Pods (SIGKILL); their restart policy applies."""
    _begin(name, namespace, "kill", pods, None, container=container)


@app.command("node-loss")
def node_loss(nodes: Nodes, name: Name = "default") -> None:
    """Let nodes vanish: no heartbeat, no network, their processes stand still, the Node is Ready=Unknown."""
    _begin(name, "", "node-loss", [f"node/{node.removeprefix('node/')}" for node in nodes], None)


@app.command("node-return")
def node_return(nodes: Nodes, name: Name = "default") -> None:
    """Let lost nodes come back as after a power failure: their containers have died and start again."""
    _begin(name, "", "node-return", [f"node/{node.removeprefix('node/')}" for node in nodes], None)


@app.command("list")
def list_faults(name: Name = "default") -> None:
    """List the active faults."""
    found: list[dict[str, Any]] = _request(name, "GET", _PATH)["faults"]
    for fault in found:
        typer.echo(f"{fault['id']}\t{_described(fault)}")
    if not found:
        typer.echo("no faults")


@app.command()
def heal(
    identities: Annotated[list[str] | None, typer.Argument(metavar="ID…", help="Faults; all without one.")] = None,
    name: Name = "default",
) -> None:
    """End the faults with these ids, or all of them."""
    for path in [f"{_PATH}/{identity}" for identity in identities or ()] or [_PATH]:
        _request(name, "DELETE", path)
    typer.echo("healed")


def _described(fault: dict[str, Any]) -> str:
    words = [fault["verb"], " ".join(fault["sources"])]
    if "destinations" in fault:
        words += ["to" if fault["oneWay"] else "from", " ".join(fault["destinations"])]
    words += [f"{field}={fault[field]:g}" for field in ("seconds", "jitterSeconds", "share") if field in fault]
    return " ".join(words)


def _begin(
    name: str, namespace: str, verb: str, sources: list[str], destinations: list[str] | None, **fields: Any
) -> None:
    def qualified(targets: list[str]) -> list[str]:
        return [one if one in _WHOLE or "/" in one else f"{namespace}/{one}" for one in targets]

    body = {"verb": verb, "sources": qualified(sources), **fields}
    if destinations:
        body["destinations"] = qualified(destinations)
    identity = _request(name, "POST", _PATH, body)["id"]
    typer.echo(f"fault {identity}: {verb} {' '.join(body['sources'])}" if identity else f"{verb}: done")


def _request(name: str, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Send a request to a running cluster. Raises `StateError` where it does not run, and the client's errors."""
    from steersman.client import Client
    from steersman.client.config import load_config
    from steersman_cluster import detached
    from steersman_cluster.cli import output as texts

    seen = detached.find(name)
    if seen is None or seen.state != "running":
        raise detached.StateError(texts.no_such(name) if seen is None else texts.not_running(seen))
    kubeconfig = Path(seen.record.kubeconfig)

    async def send() -> bytes:
        async with Client(load_config(kubeconfig)) as client:
            data = json.dumps(body).encode() if body is not None else None
            return (await client.raw.request(method, path, body=data, timeout=30.0)).body

    return json.loads(asyncio.run(send()))
