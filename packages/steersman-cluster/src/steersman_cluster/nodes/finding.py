"""Finding a Pod and a container for logs, exec and attach; refusals with the texts of a kubelet."""

from __future__ import annotations

from steersman_cluster.errors import bad_request, not_found
from steersman_cluster.nodes.agent import Agent, Held
from steersman_cluster.nodes.life import Container, Role, Stage

__all__ = ["container_for_logs", "container_of", "pod_on", "running_container"]


def pod_on(agent: Agent, namespace: str, name: str) -> Held:
    """The Pod; raises 404 where no node of this agent has it."""
    held = agent.find(namespace, name)
    if held is None:
        raise not_found("", "pods", name)
    return held


def container_of(held: Held, name: str) -> Container:
    """The container of that name, or the first main one where none is named; raises 400."""
    if not name:
        return next(c for c in held.life.containers if c.role is Role.MAIN)
    found = held.life.container(name)
    if found is None:
        raise bad_request(f"container {name} is not valid for pod {held.name}")
    return found


def container_for_logs(held: Held, name: str, *, previous: bool) -> Container:
    """The container whose log is asked for; raises 400 where there is none yet."""
    found = container_of(held, name)
    if previous:
        if found.last is None and (found.exit is None or found.stage is Stage.EXITED):
            raise bad_request(f'previous terminated container "{found.name}" in pod "{held.name}" not found')
        return found
    if not found.started_at and found.exit is None:
        reason = found.reason or "ContainerCreating"
        if reason in ("ErrImagePull", "ImagePullBackOff"):
            raise bad_request(
                f'container "{found.name}" in pod "{held.name}" is waiting to start: trying and failing to pull image'
            )
        if not found.reason and held.life.has_inits:
            reason = "PodInitializing"
        raise bad_request(f'container "{found.name}" in pod "{held.name}" is waiting to start: {reason}')
    return found


def running_container(held: Held, name: str) -> Container:
    """The container, running; raises 400 and 500 as a kubelet does for what does not run."""
    found = container_of(held, name)
    if found.stage not in (Stage.RUNNING, Stage.STOPPING):
        if held.life.finished:
            raise bad_request(f"cannot exec into a container in a completed pod; current phase is {held.life.finished}")
        raise not_running(held, found.name)
    return found


def not_running(held: Held, name: str):
    from steersman_cluster.errors import APIError

    return APIError(500, "InternalError", f'container not found ("{name}")')
