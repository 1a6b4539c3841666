"""The output of the commands: texts of records, and the object counts of running clusters."""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steersman_cluster.detached import DEFAULT_NAME, Record, Seen, names
from steersman_cluster.program import program

if TYPE_CHECKING:
    from steersman.client import Client

__all__ = ["Facts", "facts", "no_such", "not_running", "started", "stopped", "table"]


@dataclass(frozen=True, slots=True)
class Facts:
    """One cluster in the output of `status -o json`."""

    name: str
    state: str
    since: str
    kubernetes: str
    steersman: str
    server: str
    kubeconfig: str
    context: str
    objects: int | None
    nodes: int
    node_kind: str
    controllers: bool
    data: str | None
    audit_log: str | None
    log: str | None
    pid: int
    detached: bool


def started(record: Record, output: str) -> str:
    """Return the text for a cluster that is ready."""
    if output == "json":
        return json.dumps(asdict(record), indent=2) + "\n"
    made = f"{record.nodes} {record.node_kind} node{'' if record.nodes == 1 else 's'}" if record.nodes else "no nodes"
    if not record.controllers:
        made += ", no controllers"
    kept = f"kept in {record.data}" if record.data else "in memory"
    lines = [f"Kubernetes {record.kubernetes} is ready at {record.url}  (cluster {record.name!r}, {made}, {kept})", ""]
    if record.merged:
        lines += [
            f"  Context {record.context!r} is in {record.merged}, and is the current one.",
            f"  kubectl --context {record.context} get nodes",
        ]
    else:
        lines += [f"  export KUBECONFIG={shlex.quote(record.kubeconfig)}", "  kubectl get nodes"]
    option = "" if record.name == DEFAULT_NAME else f" --name {record.name}"
    word = "" if record.name == DEFAULT_NAME else f" {record.name}"
    lines += ["", f"  {program()} load{option} FILE|DIRECTORY…   applies manifests"]
    if record.detached:
        lines += [f"  {program()} stop{word}   stops it; its log is {record.log}"]
    else:
        lines += [
            "Ctrl-C stops it"
            + ("." if record.data else "; nothing of it is kept (--data DIRECTORY keeps it).")
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def stopped(seen: Seen, how: str) -> str:
    """Return the text for a cluster that was stopped."""
    record = seen.record
    kept = f"; its data stays in {record.data}" if record.data else ""
    match how:
        case "stopped":
            return f"cluster {record.name!r} is stopped{kept}"
        case "was killed":
            return f"cluster {record.name!r} had been killed (process {record.pid}); its traces are removed{kept}"
        case _:
            return f"cluster {record.name!r} did not stop in time and was killed (process {record.pid}){kept}"


def no_such(name: str) -> str:
    """Return the error text for a name without a cluster."""
    others = [other for other in names() if other != name]
    hint = f"; there is {', '.join(others)}" if others else ""
    option = "" if name == DEFAULT_NAME else f" --name {name}"
    return f"no cluster {name!r} runs{hint}. Start it with `{program()} start{option}`"


def not_running(seen: Seen) -> str:
    """Return why a cluster cannot be used that has a record."""
    name = seen.record.name
    option = "" if name == DEFAULT_NAME else f" --name {name}"
    if seen.state == "starting":
        return f"cluster {name!r} is still starting (process {seen.record.pid}); try again in a moment"
    kept = f" --data {shlex.quote(seen.record.data)}" if seen.record.data else ""
    return f"cluster {name!r} was killed; start it again with `{program()} start{option}{kept}`"


def facts(found: Sequence[Seen]) -> list[Facts]:
    """Everything about clusters; those that run are asked how many objects they hold."""
    return asyncio.run(_facts(found))


async def _facts(found: Sequence[Seen]) -> list[Facts]:
    counts = await asyncio.gather(*(_count(seen) for seen in found))
    return [_fact(seen, count) for seen, count in zip(found, counts, strict=True)]


def _fact(seen: Seen, objects: int | None) -> Facts:
    record = seen.record
    return Facts(
        name=record.name,
        state=seen.state,
        since=datetime.fromtimestamp(record.started, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        kubernetes=record.kubernetes,
        steersman=record.steersman,
        server=record.url,
        kubeconfig=record.kubeconfig,
        context=record.context,
        objects=objects,
        nodes=record.nodes,
        node_kind=record.node_kind,
        controllers=record.controllers,
        data=record.data,
        audit_log=record.audit_log,
        log=record.log,
        pid=record.pid,
        detached=record.detached,
    )


async def _count(seen: Seen) -> int | None:
    """Objects of all kinds; None where the cluster does not answer."""
    if seen.state != "running":
        return None
    from steersman.client import Client, ClientError
    from steersman.client.config import load_config

    try:
        async with Client(load_config(seen.record.kubeconfig), on_warning=lambda _text, _request: None) as client:
            paths = await _collections(client)
            return sum(await asyncio.gather(*(_size(client, path) for path in paths)))
    except (ClientError, OSError):
        return None


async def _collections(client: Client) -> list[str]:
    """One path for each resource, in one of its versions."""
    raw = client.raw
    groups = json.loads((await raw.request("GET", "/apis")).body)["groups"]
    versions = ["v1", *(group["preferredVersion"]["groupVersion"] for group in groups)]
    # Events are served by two groups.
    served = await asyncio.gather(*(client.discover(v) for v in versions if not v.startswith("events.k8s.io/")))
    names_of = zip([v for v in versions if not v.startswith("events.k8s.io/")], served, strict=True)
    return [
        f"/api{'s' if '/' in version else ''}/{version}/{resource.name}"
        for version, resources in names_of
        for resource in resources
        if "/" not in resource.name and {"list", "watch"} <= set(resource.verbs)
    ]


async def _size(client: Client, path: str) -> int:
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json"
    response = await client.raw.request("GET", path, query=(("limit", "1"),), accept=accept)
    answer: dict[str, Any] = json.loads(response.body)
    return len(answer.get("items") or ()) + int(answer["metadata"].get("remainingItemCount") or 0)


def table(clusters: Sequence[Facts]) -> str:
    """The clusters for people."""
    from rich.console import Console
    from rich.table import Table

    if not clusters:
        return f"no cluster runs; `{program()} start` starts one\n"
    shown = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_edge=False, header_style="")
    for column in ("NAME", "STATE", "SINCE", "VERSION", "SERVER", "NODES", "OBJECTS", "DATA", "PID"):
        shown.add_column(column, no_wrap=True)
    for one in clusters:
        shown.add_row(
            one.name,
            one.state,
            _age(one.since),
            one.kubernetes or "-",
            one.server or "-",
            f"{one.nodes} {one.node_kind}" if one.nodes else "0",
            "-" if one.objects is None else str(one.objects),
            _short(one.data) if one.data else "memory",
            str(one.pid),
        )
    out = StringIO()
    Console(file=out, width=400, color_system=None, highlight=False, markup=False).print(shown)
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    lines += [
        f"\n{one.name}: it was killed; `{program()} stop{'' if one.name == DEFAULT_NAME else ' ' + one.name}` "
        "removes its traces, `start` replaces it"
        for one in clusters
        if one.state == "killed"
    ]
    return "\n".join(lines) + "\n"


def _age(since: str) -> str:
    seconds = max(0, int(time.time() - datetime.fromisoformat(since).timestamp()))
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit} ago"
    return f"{seconds}s ago"


def _short(path: str) -> str:
    home = str(Path.home())
    return "~" + path[len(home) :] if path.startswith(home + "/") else path
