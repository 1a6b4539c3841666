"""Waits for the rollout of a Deployment, and reports why it is not available."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Container, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.parse import quote

if TYPE_CHECKING:
    from steersman.client import Client

__all__ = ["RolloutError", "rolled_out", "simulates"]

_LAST_LINES: Final = 10
_LAST_BYTES: Final = 16 << 10


class RolloutError(Exception):
    """The Deployment did not become available in time; the message has the reasons that the cluster reports."""


async def rolled_out(client: Client, name: str, namespace: str, within: float, tell: Callable[[str], None]) -> None:
    """Wait until all replicas have the newest template and are available; `tell` receives progress messages.

    Container restarts are reported at once, with the last lines of the log. Raises `RolloutError`.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    said = ""
    crashes: dict[tuple[str, str], str] = {}
    path = f"/apis/apps/v1/namespaces/{quote(namespace, safe='')}/deployments/{quote(name, safe='')}"
    while True:
        found = cast("dict[str, Any]", json.loads((await client.raw.request("GET", path)).body))
        words, done = _state(found)
        if words != said:
            tell(f"deployment {name}: {words}")
            said = words
        if done:
            return
        pods = await _pods(client, namespace, found)
        for key, text in [(c.key, c.text) async for c in _crashes(client, pods, known=crashes)]:
            crashes[key] = text
            tell(text)
        if loop.time() > deadline:
            reasons = [*_reasons(pods, found), *(text.replace("\n", "\n  ") for text in crashes.values())]
            more = "".join(f"\n  {reason}" for reason in reasons)
            raise RolloutError(f"deployment {name} in {namespace} is not available after {within:g} s: {words}{more}")
        await asyncio.sleep(0.25)


def _state(deployment: dict[str, Any]) -> tuple[str, bool]:
    wanted = int(deployment["spec"].get("replicas", 1))
    status: dict[str, Any] = deployment.get("status") or {}
    if status.get("observedGeneration", 0) < deployment["metadata"].get("generation", 0):
        return "not seen by its controller yet", False
    updated, available, everything = (status.get(k, 0) for k in ("updatedReplicas", "availableReplicas", "replicas"))
    if updated < wanted:
        return f"{updated} of {wanted} replicas are of the new version", False
    if everything > updated:
        return f"{everything - updated} old replicas are still there", False
    return f"{available} of {wanted} replicas are available", available >= wanted


async def _pods(client: Client, namespace: str, deployment: dict[str, Any]) -> list[dict[str, Any]]:
    labels: dict[str, str] = deployment["spec"]["selector"].get("matchLabels") or {}
    query = (("labelSelector", ",".join(f"{k}={v}" for k, v in labels.items())),)
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
    return json.loads((await client.raw.request("GET", path, query=query)).body)["items"]


def _reasons(pods: Sequence[dict[str, Any]], deployment: dict[str, Any]) -> list[str]:
    """Return the problems in the statuses of the Pods and the conditions of the Deployment."""
    found = [
        f"{c['type']}: {c.get('message', '')}"
        for c in _list(deployment.get("status"), "conditions")
        if (c["type"], c["status"]) in (("Progressing", "False"), ("ReplicaFailure", "True"))
    ]
    for pod in pods:
        status: dict[str, Any] = pod.get("status") or {}
        unscheduled = [
            c.get("message", "")
            for c in _list(status, "conditions")
            if c["type"] == "PodScheduled" and c["status"] == "False"
        ]
        found += [f"pod {pod['metadata']['name']}: {text}" for text in unscheduled]
        for container in _list(status, "containerStatuses"):
            state: dict[str, Any] = container.get("state") or {}
            for word in ("waiting", "terminated"):
                if word in state:
                    why = ": ".join(filter(None, (state[word].get("reason"), state[word].get("message"))))
                    found.append(f"pod {pod['metadata']['name']}, container {container['name']} {word}: {why}")
            if "running" in state and not container.get("ready"):
                found.append(f"pod {pod['metadata']['name']}, container {container['name']} runs and is not ready")
    return found


class _Crash(NamedTuple):
    key: tuple[str, str]
    """Identifies a container: its Pod and name."""
    text: str


async def _crashes(
    client: Client, pods: Sequence[dict[str, Any]], *, known: Container[tuple[str, str]]
) -> AsyncGenerator[_Crash]:
    """Return the containers that ended but should run, except the known ones."""
    for pod in pods:
        status: dict[str, Any] = pod.get("status") or {}
        for container in (*_list(status, "initContainerStatuses"), *_list(status, "containerStatuses")):
            key = (str(pod["metadata"]["name"]), str(container["name"]))
            ended, previous = _ended(container)
            if ended is None or key in known:
                continue
            code = f"code {ended.get('exitCode')} ({ended.get('reason') or 'Error'})"
            head = f"pod {key[0]}: container {key[1]} ended with {code} and is started again"
            lines = await _last_lines(client, pod["metadata"].get("namespace", ""), *key, previous=previous)
            said = lines or (str(ended.get("message") or "").splitlines()[-_LAST_LINES:])
            told = "".join(f"\n  | {line}" for line in said)
            yield _Crash(key, f"{head}; its last lines are:{told}" if told else f"{head}; it wrote nothing")


def _ended(container: dict[str, Any]) -> tuple[dict[str, Any] | None, bool]:
    """Return how a container failed, and whether it was restarted."""
    for where, previous in (("state", False), ("lastState", True)):
        ended = _at(container, where, "terminated")
        if ended and (ended.get("exitCode") or container.get("restartCount")):
            return ended, previous
    return None, False


async def _last_lines(client: Client, namespace: str, pod: str, container: str, *, previous: bool) -> list[str]:
    """Return the end of a container's log; empty if it is gone or not readable."""
    from steersman.client.errors import ApiError

    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}/log"
    query = [("container", container), ("tailLines", str(_LAST_LINES)), ("limitBytes", str(_LAST_BYTES))]
    try:
        answer = await client.raw.request("GET", path, query=(*query, *([("previous", "true")] if previous else [])))
    except ApiError:
        return []
    return answer.body.decode(errors="replace").splitlines()


async def simulates(client: Client) -> bool:
    """Return whether all nodes are simulated, so that no container runs; `False` if nodes are not readable."""
    from steersman.client.errors import ApiError

    try:
        nodes = json.loads((await client.raw.request("GET", "/api/v1/nodes")).body)["items"] or ()
    except ApiError:
        return False
    runtimes = [str(_at(node, "status", "nodeInfo").get("containerRuntimeVersion") or "") for node in nodes]
    return bool(runtimes) and all(runtime.startswith("simulated://") for runtime in runtimes)


def _at(value: dict[str, Any], *path: str) -> dict[str, Any]:
    for step in path:
        value = value.get(step) or {}
    return value


def _list(value: dict[str, Any] | None, key: str) -> list[dict[str, Any]]:
    return (value or {}).get(key) or []
