"""A kubelet's HTTP API, behind `nodes/NAME/proxy` and the kubelet's own port.

Served are `/healthz`, `/pods`, `/runningpods/`, `/stats/summary`, `/metrics`, `/metrics/resource` and the streams of
Pods (`node_streams`). Everything else is 404.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from steersman_cluster.api.connect.node_streams import TEXT, stream
from steersman_cluster.api.connect.streams import kubelet_of
from steersman_cluster.api.interfaces import Call
from steersman_cluster.api.requests.messages import Response, encode
from steersman_cluster.kubelet import Kubelet, Usage
from steersman_cluster.objects import Object, dig, name_of, namespace_of

__all__ = ["serve"]

_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
_NANOSECONDS: Final = 1_000_000_000
_HEALTHY: Final = frozenset({"healthz", "healthz/ping", "healthz/log", "healthz/syncloop"})


@dataclass(frozen=True, slots=True)
class _Node:
    """A node at one moment: its Pods, and what their running containers use."""

    name: str
    now: float
    pods: list[Object]
    running: list[tuple[Object, dict[str, Usage]]]

    @property
    def cpu_seconds(self) -> float:
        return sum(used.cpu_seconds for _, containers in self.running for used in containers.values())

    @property
    def memory_bytes(self) -> int:
        return sum(used.memory_bytes for _, containers in self.running for used in containers.values())


async def serve(call: Call, node: str) -> Response:
    """The answer of a node's kubelet. Raises `APIError`."""
    kubelet = kubelet_of(call, node)
    path = call.rest.strip("/")
    parts = path.split("/")
    if (response := await stream(call, node, parts)) is not None:
        return response
    match parts:
        case _ if call.request.method not in ("GET", "HEAD"):
            return Response(405, b"405: Method Not Allowed", TEXT)
        case _ if path in _HEALTHY:
            return Response(200, b"ok", TEXT)
        case ["pods"]:
            return _listed(_pods(call, node))
        case ["runningpods"]:
            return _listed(pod for pod, _ in _observed(call, node, kubelet).running)
        case ["stats", "summary"]:
            return Response(200, encode(_summary(_observed(call, node, kubelet))))
        case ["metrics"]:
            return Response(200, _lines(_kubelet_metrics(_observed(call, node, kubelet))), _METRICS)
        case ["metrics", "resource"]:
            return Response(200, _lines(_resource_metrics(_observed(call, node, kubelet))), _METRICS)
        case _:
            return Response(404, b"404 page not found\n", TEXT)


def _pods(call: Call, node: str) -> list[Object]:
    return [pod for pod in call.reader.list("", "pods", "") if dig(pod, "spec", "nodeName") == node]


def _observed(call: Call, node: str, kubelet: Kubelet) -> _Node:
    pods = _pods(call, node)
    used = ((pod, dict(kubelet.usage(namespace_of(pod), name_of(pod)))) for pod in pods)
    return _Node(node, call.server.now(), pods, [(pod, containers) for pod, containers in used if containers])


def _listed(pods: Iterable[Object]) -> Response:
    body: Object = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": list(pods)}
    return Response(200, encode(body))


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _summary(node: _Node) -> Object:
    """The Summary of `stats.k8s.io/v1alpha1`: processors and memory, which are all that is measured."""
    time = _rfc3339(node.now)
    pods: list[Object] = []
    for pod, containers in node.running:
        reference = {"name": name_of(pod), "namespace": namespace_of(pod), "uid": pod["metadata"]["uid"]}
        shown: list[Object] = [
            {"name": name, "startTime": _rfc3339(used.started_at), **_stats(time, [used])}
            for name, used in containers.items()
        ]
        start = dig(pod, "status", "startTime") or time
        pods.append({"podRef": reference, "startTime": start, "containers": shown, **_stats(time, containers.values())})
    every = [used for _, containers in node.running for used in containers.values()]
    start = _rfc3339(min((used.started_at for used in every), default=node.now))
    return {"node": {"nodeName": node.name, "startTime": start, **_stats(time, every)}, "pods": pods}


def _stats(time: str, used: Iterable[Usage]) -> Object:
    used = list(used)
    cpu: Object = {"time": time, "usageCoreNanoSeconds": int(sum(one.cpu_seconds for one in used) * _NANOSECONDS)}
    rates = [one.cpu_cores for one in used if one.cpu_cores is not None]
    if len(rates) == len(used):
        cpu["usageNanoCores"] = int(sum(rates) * _NANOSECONDS)
    memory = sum(one.memory_bytes for one in used)
    return {"cpu": cpu, "memory": {"time": time, "workingSetBytes": memory, "rssBytes": memory}}


def _lines(lines: Iterator[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _family(name: str, kind: str, text: str) -> str:
    return f"# HELP {name} {text}\n# TYPE {name} {kind}"


def _kubelet_metrics(node: _Node) -> Iterator[str]:
    yield _family("kubelet_node_name", "gauge", "[ALPHA] The node's name. The count is always 1.")
    yield f'kubelet_node_name{{node="{node.name}"}} 1'
    text = "[ALPHA] Number of containers currently running"
    yield _family("kubelet_running_containers", "gauge", text)
    count = sum(len(containers) for _, containers in node.running)
    yield f'kubelet_running_containers{{container_state="running"}} {count}'
    yield _family("kubelet_running_pods", "gauge", "[ALPHA] Number of pods that have a running pod sandbox")
    yield f"kubelet_running_pods {len(node.running)}"


def _resource_metrics(node: _Node) -> Iterator[str]:
    """The families of `/metrics/resource`, which metrics-server reads."""
    at = int(node.now * 1000)
    cpu, memory = "_cpu_usage_seconds_total", "_memory_working_set_bytes"
    rows = [
        (f'{{container="{name}",namespace="{namespace_of(pod)}",pod="{name_of(pod)}"}}', used)
        for pod, containers in node.running
        for name, used in containers.items()
    ]
    yield _family(
        f"container{cpu}", "counter", "[STABLE] Cumulative cpu time consumed by the container in core-seconds"
    )
    yield from (f"container{cpu}{labels} {used.cpu_seconds:g} {at}" for labels, used in rows)
    yield _family(f"container{memory}", "gauge", "[STABLE] Current working set of the container in bytes")
    yield from (f"container{memory}{labels} {used.memory_bytes} {at}" for labels, used in rows)
    text = "[STABLE] Start time of the container since unix epoch in seconds"
    yield _family("container_start_time_seconds", "gauge", text)
    yield from (f"container_start_time_seconds{labels} {used.started_at:f}" for labels, used in rows)
    yield _family(f"node{cpu}", "counter", "[STABLE] Cumulative cpu time consumed by the node in core-seconds")
    yield f"node{cpu} {node.cpu_seconds:g} {at}"
    yield _family(f"node{memory}", "gauge", "[STABLE] Current working set of the node in bytes")
    yield f"node{memory} {node.memory_bytes} {at}"
    sums = [
        (f'{{namespace="{namespace_of(pod)}",pod="{name_of(pod)}"}}', containers.values())
        for pod, containers in node.running
    ]
    yield _family(f"pod{cpu}", "counter", "[STABLE] Cumulative cpu time consumed by the pod in core-seconds")
    yield from (f"pod{cpu}{labels} {sum(one.cpu_seconds for one in used):g} {at}" for labels, used in sums)
    yield _family(f"pod{memory}", "gauge", "[STABLE] Current working set of the pod in bytes")
    yield from (f"pod{memory}{labels} {sum(one.memory_bytes for one in used)} {at}" for labels, used in sums)
    text = "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise"
    yield _family("resource_scrape_error", "gauge", text)
    yield "resource_scrape_error 0"
