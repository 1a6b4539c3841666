"""Finds a Pod and a container for logs, exec and attach; errors have the kubelet's messages."""

from __future__ import annotations

from steersman_cluster.errors import bad_request, not_found
from steersman_cluster.nodes.agent import Agent
from steersman_cluster.nodes.node_pod import NodePod
from steersman_cluster.nodes.pod_state import Container, Role, Stage

__all__ = ["container_for_logs", "container_of", "pod_on", "running_container"]


def pod_on(agent: Agent, namespace: str, name: str) -> NodePod:
    """Return the Pod; raises 404 if it is not on a node of this agent."""
    node_pod = agent.find(namespace, name)
    if node_pod is None:
        raise not_found("", "pods", name)
    return node_pod


def container_of(node_pod: NodePod, name: str) -> Container:
    """Return the container of that name, by default the first main one; raises 400."""
    if not name:
        return next(c for c in node_pod.pod_state.containers if c.role is Role.MAIN)
    found = node_pod.pod_state.container(name)
    if found is None:
        raise bad_request(f"container {name} is not valid for pod {node_pod.name}")
    return found


def container_for_logs(node_pod: NodePod, name: str, *, previous: bool) -> Container:
    """Return the container whose log is requested; raises 400 if it has none yet."""
    found = container_of(node_pod, name)
    if previous:
        if found.last is None and (found.exit is None or found.stage is Stage.EXITED):
            raise bad_request(f'previous terminated container "{found.name}" in pod "{node_pod.name}" not found')
        return found
    if not found.started_at and found.exit is None:
        reason = found.reason or "ContainerCreating"
        if reason in ("ErrImagePull", "ImagePullBackOff"):
            raise bad_request(
                f'container "{found.name}" in pod "{node_pod.name}" is waiting to start: '
                "trying and failing to pull image"
            )
        if not found.reason and node_pod.pod_state.has_inits:
            reason = "PodInitializing"
        raise bad_request(f'container "{found.name}" in pod "{node_pod.name}" is waiting to start: {reason}')
    return found


def running_container(node_pod: NodePod, name: str) -> Container:
    """Return the running container; raises 400 and 500 as a kubelet does for one that does not run."""
    found = container_of(node_pod, name)
    if found.stage not in (Stage.RUNNING, Stage.STOPPING):
        if node_pod.pod_state.finished:
            raise bad_request(
                f"cannot exec into a container in a completed pod; current phase is {node_pod.pod_state.finished}"
            )
        raise not_running(node_pod, found.name)
    return found


def not_running(node_pod: NodePod, name: str):
    from steersman_cluster.errors import APIError

    return APIError(500, "InternalError", f'container not found ("{name}")')
