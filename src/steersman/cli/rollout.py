"""Waits until a Deployment runs what it was given, and says what keeps it from that."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

if TYPE_CHECKING:
    from steersman.client import Client

__all__ = ["RolloutError", "rolled_out"]


class RolloutError(Exception):
    """The Deployment is not available in time; says why, as far as the cluster does."""


async def rolled_out(client: Client, name: str, namespace: str, within: float, tell: Callable[[str], None]) -> None:
    """Wait until all replicas are of the newest template and available; `tell` hears of steps.

    Raises `RolloutError`.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    said = ""
    path = f"/apis/apps/v1/namespaces/{quote(namespace, safe='')}/deployments/{quote(name, safe='')}"
    while True:
        found = cast("dict[str, Any]", json.loads((await client.raw.request("GET", path)).body))
        words, done = _state(found)
        if words != said:
            tell(f"deployment {name}: {words}")
            said = words
        if done:
            return
        if loop.time() > deadline:
            reasons = await _reasons(client, namespace, found)
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


async def _reasons(client: Client, namespace: str, deployment: dict[str, Any]) -> list[str]:
    """What the Pods say, and the Deployment's own conditions."""
    found = [
        f"{c['type']}: {c.get('message', '')}"
        for c in _list(deployment.get("status"), "conditions")
        if (c["type"], c["status"]) in (("Progressing", "False"), ("ReplicaFailure", "True"))
    ]
    labels: dict[str, str] = deployment["spec"]["selector"].get("matchLabels") or {}
    query = (("labelSelector", ",".join(f"{k}={v}" for k, v in labels.items())),)
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
    pods: list[dict[str, Any]] = json.loads((await client.raw.request("GET", path, query=query)).body)["items"]
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


def _list(value: dict[str, Any] | None, key: str) -> list[dict[str, Any]]:
    return (value or {}).get(key) or []
