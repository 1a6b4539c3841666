"""Converts a `PodState` to the Pod's `status`, and back after a restart of the node.

Pure functions. Only the fields of the node are written, by the rules of the kubelet's status generation. Other fields
(PodScheduled, readiness gates, qosClass) do not change.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from steersman_cluster.nodes.pod_state import Container, Exit, PodState, Preparation, Role, Stage
from steersman_cluster.nodes.resizes import changed_resources, resources_of
from steersman_cluster.objects import Object, dig, meta

__all__ = ["OWN_CONDITIONS", "RESIZE_CONDITIONS", "phase_of", "remembered", "seconds_of", "status_of", "time_of"]

OWN_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
RESIZE_CONDITIONS = ("PodResizePending", "PodResizeInProgress")
"""Conditions that are removed when they are not true any more."""


def time_of(seconds: float) -> str:
    """Return a time in RFC 3339 with whole seconds, the format of `metav1.Time`."""
    return _text_of(int(seconds))


@lru_cache(maxsize=256)
def _text_of(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str | None) -> float:
    """Return the seconds of a time in RFC 3339; 0 for no time."""
    if not text:
        return 0.0
    return datetime.fromisoformat(text).timestamp()


def status_of(pod_state: PodState, host_ip: str, now: float) -> Object:
    """Return the node's fields of `status`. Unchanged conditions keep their transition time."""
    phase = phase_of(pod_state)
    status: Object = {"phase": phase, "startTime": time_of(pod_state.begun_at), "hostIP": host_ip}
    status["hostIPs"] = [{"ip": host_ip}]
    if generation := meta(pod_state.pod).get("generation"):
        status["observedGeneration"] = generation
    if pod_state.ip:
        status["podIP"] = pod_state.ip
        status["podIPs"] = [{"ip": pod_state.ip}]
    if pod_state.termination is not None:
        status["reason"] = pod_state.termination.reason
        status["message"] = pod_state.termination.message
    roles = {
        "initContainerStatuses": (Role.INIT, Role.SIDECAR),
        "containerStatuses": (Role.MAIN,),
        "ephemeralContainerStatuses": (Role.EPHEMERAL,),
    }
    for field, wanted in roles.items():
        found = [_container_status(pod_state, c) for c in pod_state.containers if c.role in wanted]
        if found or field == "containerStatuses":
            status[field] = found
    status["conditions"] = _conditions(pod_state, phase, now)
    return status


def phase_of(pod_state: PodState) -> str:
    """Return the phase: Pending until all main containers have started once, Running until none will start again."""
    if pod_state.finished:
        return pod_state.finished
    mains = (c for c in pod_state.containers if c.role is Role.MAIN)
    return "Running" if all(c.exit is not None or c.started_at for c in mains) else "Pending"


def _container_status(pod_state: PodState, container: Container) -> Object:
    status: Object = {
        "name": container.name,
        "state": _state(pod_state, container),
        "lastState": {},
        "ready": _ready(container),
        "restartCount": container.restarts,
        "image": container.image or container.spec.get("image") or "",
        "imageID": container.image,
        "started": container.started,
    }
    last = container.exit if "waiting" in status["state"] and container.exit is not None else container.last
    if last is not None:
        status["lastState"] = {"terminated": _terminated(last)}
    found = container.id or (container.exit.container_id if container.exit is not None else "")
    if found:
        status["containerID"] = found
    if container.role is Role.EPHEMERAL:
        del status["started"]
    elif _ran(container):
        allocated = resources_of(container.spec)
        actual = container.actual if "running" in status["state"] and container.actual is not None else allocated
        status["resources"] = actual if changed_resources(actual, allocated) else allocated
        if allocated.get("requests"):
            status["allocatedResources"] = allocated["requests"]
    return status


def _ready(container: Container) -> bool:
    if container.role is Role.INIT:
        return container.stage is Stage.EXITED and container.exit is not None and container.exit.code == 0
    return container.ready and container.role is not Role.EPHEMERAL


def _state(pod_state: PodState, container: Container) -> Object:
    stage = container.stage
    if container.replacing and container.started_at:
        return {"running": {"startedAt": time_of(container.started_at)}}
    if stage in (Stage.RUNNING, Stage.STOPPING) and container.started_at and container.exit is None:
        return {"running": {"startedAt": time_of(container.started_at)}}
    if stage is Stage.EXITED and container.exit is not None:
        return {"terminated": _terminated(container.exit)}
    if container.exit is not None and (not container.reason or pod_state.finished):
        return {"terminated": _terminated(container.exit)}
    if pod_state.finished and _should_have_run(pod_state, container):
        unknown = "The container could not be located when the pod was terminated"
        return {
            "terminated": {
                "exitCode": 137,
                "reason": "ContainerStatusUnknown",
                "message": unknown,
                "startedAt": None,
                "finishedAt": None,
            }
        }
    if container.reason and not pod_state.finished:
        waiting: Object = {"reason": container.reason}
        if container.message:
            waiting["message"] = container.message
        return {"waiting": waiting}
    return {"waiting": {"reason": "PodInitializing" if pod_state.has_inits else "ContainerCreating"}}


def _should_have_run(pod_state: PodState, container: Container) -> bool:
    """Return whether a container without a run should have run before its Pod ended; otherwise it stays waiting.

    The rules are those of the kubelet's status manager.
    """
    if container.role is Role.EPHEMERAL:
        return False
    inits = [c for c in pod_state.containers if c.role in (Role.INIT, Role.SIDECAR)]
    if container.role is Role.MAIN:
        return pod_state.initialized or not inits or _has_passed(inits[-1])
    return (not any(_ran(c) for c in inits) and container is inits[0]) or any(
        map(_ran, inits[inits.index(container) :])
    )


def _ran(container: Container) -> bool:
    return container.exit is not None or container.last is not None or bool(container.started_at)


def _has_passed(init: Container) -> bool:
    """Return whether the main containers may start after this init container."""
    if init.role is Role.SIDECAR:
        return init.started
    return any(end is not None and end.code == 0 for end in (init.exit, init.last))


def _terminated(exit: Exit) -> Object:
    state: Object = {"exitCode": exit.code}
    if exit.signal:
        state["signal"] = exit.signal
    if exit.reason:
        state["reason"] = exit.reason
    if exit.message:
        state["message"] = exit.message
    state["startedAt"] = time_of(exit.started_at) if exit.started_at else None
    state["finishedAt"] = time_of(exit.at)
    if exit.container_id:
        state["containerID"] = exit.container_id
    return state


def _conditions(pod_state: PodState, phase: str, now: float) -> list[Object]:
    containers = _containers_ready(pod_state, phase)
    found = {
        "PodReadyToStartContainers": (pod_state.prepared is Preparation.DONE and not pod_state.finished, "", ""),
        "Initialized": _initialized(pod_state, phase),
        "Ready": _pod_ready(pod_state, containers),
        "ContainersReady": containers,
    }
    found |= _resize_conditions(pod_state)
    old = {c["type"]: c for c in dig(pod_state.pod, "status", "conditions") or ()}
    generation = meta(pod_state.pod).get("generation")
    conditions: list[Object] = []
    for kind in found:
        true, reason, message = found[kind]
        value = "True" if true else "False"
        before = old.get(kind)
        same = before is not None and before.get("status") == value
        condition: dict[str, Any] = {"type": kind, "status": value, "lastProbeTime": None}
        condition["lastTransitionTime"] = before["lastTransitionTime"] if same and before else time_of(now)
        if reason or (before and before.get("reason")):
            condition["reason"] = reason or None
        if message or (before and before.get("message")):
            condition["message"] = message or None
        if generation:
            condition["observedGeneration"] = generation
        conditions.append(condition)
    return conditions


def _resize_conditions(pod_state: PodState) -> dict[str, tuple[bool, str, str]]:
    found: dict[str, tuple[bool, str, str]] = {}
    if pod_state.finished:
        return found
    if pod_state.refusal is not None:
        found["PodResizePending"] = (True, pod_state.refusal.reason, pod_state.refusal.message)
    if pod_state.resize_generation:
        errors = [c.resize_error for c in pod_state.containers if c.resize_error]
        found["PodResizeInProgress"] = (True, "Error" if errors else "", "; ".join(errors))
    return found


def _names(containers: list[Container]) -> str:
    return f"[{' '.join(c.name for c in containers)}]"


def _containers_ready(pod_state: PodState, phase: str) -> tuple[bool, str, str]:
    if phase == "Succeeded":
        return False, "PodCompleted", ""
    if phase == "Failed":
        return False, "PodFailed", ""
    unready = [c for c in pod_state.containers if c.role in (Role.MAIN, Role.SIDECAR) and not c.ready]
    if unready:
        return False, "ContainersNotReady", f"containers with unready status: {_names(unready)}"
    return True, "", ""


def _pod_ready(pod_state: PodState, containers: tuple[bool, str, str]) -> tuple[bool, str, str]:
    if not containers[0]:
        return containers
    present = {c["type"]: c.get("status") for c in dig(pod_state.pod, "status", "conditions") or ()}
    texts: list[str] = []
    for gate in pod_state.spec.get("readinessGates") or ():
        kind = gate["conditionType"]
        if kind not in present:
            texts.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif present[kind] != "True":
            texts.append(f'the status of pod readiness gate "{kind}" is not "True", but {present[kind]}')
    return (False, "ReadinessGatesNotReady", ", ".join(texts)) if texts else (True, "", "")


def _initialized(pod_state: PodState, phase: str) -> tuple[bool, str, str]:
    if phase == "Succeeded":
        return True, "PodCompleted", ""
    if pod_state.initialized:
        return True, "", ""
    waiting = [
        c
        for c in pod_state.containers
        if (c.role is Role.INIT and not _ready(c)) or (c.role is Role.SIDECAR and not c.started)
    ]
    if waiting:
        return False, "ContainersNotInitialized", f"containers with incomplete status: {_names(waiting)}"
    return True, "", ""


def remembered(container: Container, status: Object | None, now: float, *, adopt: bool) -> Container:
    """Return the state of a container from the status in the API, for a node that has just started."""
    if status is None:
        return container
    restarts = status.get("restartCount") or 0
    last = _exit_of(dig(status, "lastState", "terminated"))
    base = replace(container, restarts=restarts, attempt=restarts, id=status.get("containerID") or "", last=last)
    running, terminated = dig(status, "state", "running"), dig(status, "state", "terminated")
    if terminated is not None:
        return replace(base, stage=Stage.EXITED, attempt=restarts + 1, exit=_exit_of(terminated))
    if running is not None:
        began = seconds_of(running.get("startedAt"))
        if adopt:
            return replace(
                base,
                stage=Stage.RUNNING,
                attempt=restarts + 1,
                started_at=began,
                image=status.get("image") or "",
                actual=status.get("resources") or resources_of(container.spec),
                started=bool(status.get("started")),
                ready=bool(status.get("ready")),
            )
        lost = Exit(
            137,
            now,
            reason="ContainerStatusUnknown",
            message="The container could not be located when the node was restarted",
            started_at=began,
            container_id=base.id,
        )
        return replace(base, stage=Stage.EXITED, attempt=restarts + 1, exit=lost)
    if last is not None:
        return replace(base, stage=Stage.EXITED, exit=last, last=None)
    return base


def _exit_of(state: Object | None) -> Exit | None:
    if state is None:
        return None
    return Exit(
        state.get("exitCode") or 0,
        seconds_of(state.get("finishedAt")),
        state.get("signal") or 0,
        state.get("reason") or "",
        state.get("message") or "",
        seconds_of(state.get("startedAt")) or None,
        state.get("containerID") or "",
    )
