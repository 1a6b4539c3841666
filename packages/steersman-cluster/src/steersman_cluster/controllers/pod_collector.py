"""The Pod garbage collector: deletes Pods that no kubelet can end, and the oldest terminated Pods above a threshold.

It runs at an interval, as the controller `pod-garbage-collector` of kube-controller-manager, and with the same
defaults. A Pod that has not ended becomes Failed first, so that its owner counts it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from steersman.client import Conflict, NotFound, Preconditions
from steersman.k8s import Node, Pod
from steersman.models import ALL_NAMESPACES, StrategicMergePatch
from steersman.operator import Context, Operator
from steersman_cluster.controllers.pods import phase_of

__all__ = ["OUT_OF_SERVICE", "PodCollector", "excess_terminated", "is_out_of_service", "register"]

PERIOD_SECONDS: Final = 20.0
QUARANTINE_SECONDS: Final = 40.0
"""A node must be missing for this long before its Pods are deleted."""
TERMINATED_THRESHOLD: Final = 12_500
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
_NODE_GONE: Final = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByPodGC",
    "message": "PodGC: node no longer exists",
}
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


def register(
    operator: Operator,
    *,
    period: float = PERIOD_SECONDS,
    quarantine: float = QUARANTINE_SECONDS,
    threshold: int = TERMINATED_THRESHOLD,
) -> None:
    """Declare the controller; `period` and `quarantine` are seconds, `threshold` is a number of Pods (0: unlimited)."""
    collector = PodCollector(quarantine, threshold)
    operator.timer(period, name="pod-garbage-collector", reads=[Pod, Node])(collector.collect)


class PodCollector:
    """Deletes Pods at each call of `collect`; remembers since when nodes are missing."""

    def __init__(self, quarantine: float, threshold: int) -> None:
        self._quarantine = quarantine
        self._threshold = threshold
        self._missing_since: dict[str, datetime] = {}

    async def collect(self, ctx: Context) -> None:
        """Delete the Pods that are due now."""
        pods = ctx.list(Pod, namespace=ALL_NAMESPACES)
        nodes = {node.metadata.name: node for node in ctx.list(Node)}
        for pod in excess_terminated(pods, self._threshold):
            await _end(pod, ctx)
        for pod in pods:
            node = nodes.get(pod.spec.node_name or "")
            if pod.metadata.deletion_timestamp is not None and node is not None and is_out_of_service(node):
                await _end(pod, ctx)
        gone = await self._gone_nodes(pods, nodes, ctx)
        for pod in pods:
            if pod.spec.node_name in gone:
                await _end(pod, ctx, _NODE_GONE)
            elif not pod.spec.node_name and pod.metadata.deletion_timestamp is not None:
                await _end(pod, ctx)

    async def _gone_nodes(self, pods: Iterable[Pod], nodes: Mapping[str, Node], ctx: Context) -> Collection[str]:
        """Return the nodes of Pods that have been missing for the quarantine, and that the server does not have."""
        now = ctx.now()
        missing = {pod.spec.node_name for pod in pods if pod.spec.node_name and pod.spec.node_name not in nodes}
        self._missing_since = {name: self._missing_since.get(name, now) for name in sorted(missing)}
        gone: set[str] = set()
        for name, since in self._missing_since.items():
            if (now - since).total_seconds() < self._quarantine:
                continue
            try:
                await ctx.client.get(Node, name)
            except NotFound:
                gone.add(name)
        return gone


def excess_terminated(pods: Iterable[Pod], threshold: int) -> list[Pod]:
    """Return the terminated Pods above the threshold: evicted ones first, then the oldest."""
    if threshold <= 0:
        return []
    terminated = [pod for pod in pods if phase_of(pod) in ("Succeeded", "Failed")]
    terminated.sort(
        key=lambda pod: (
            not (pod.status.phase == "Failed" and pod.status.reason == "Evicted"),
            pod.metadata.creation_timestamp or _EPOCH,
            pod.metadata.name,
        )
    )
    return terminated[: max(0, len(terminated) - threshold)]


def is_out_of_service(node: Node) -> bool:
    """Return whether a node is not ready and has the taint that allows to delete its Pods by force."""
    ready = any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)
    return not ready and any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)


async def _end(pod: Pod, ctx: Context, condition: Mapping[str, Any] | None = None) -> None:
    """Mark a Pod as Failed if it has not ended, and delete it without a grace period."""
    metadata = pod.metadata
    try:
        if phase_of(pod) not in ("Succeeded", "Failed"):
            status: dict[str, Any] = {"phase": "Failed", "observedGeneration": metadata.generation or None}
            if condition is not None:
                since = ctx.now().strftime("%Y-%m-%dT%H:%M:%SZ")
                known = {"observedGeneration": metadata.generation or None, "lastTransitionTime": since}
                status["conditions"] = [{**condition, **known}]
            patch = StrategicMergePatch({"metadata": {"uid": metadata.uid}, "status": status})
            await ctx.client.patch(
                Pod, metadata.name, patch, namespace=metadata.namespace, subresource="status", want="metadata"
            )
        await ctx.client.delete(
            Pod,
            metadata.name,
            namespace=metadata.namespace,
            grace_period=0,
            preconditions=Preconditions(uid=metadata.uid),
            missing_ok=True,
        )
    except (NotFound, Conflict):
        return
