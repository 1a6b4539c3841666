"""The change of a Pod's state by an event. Events of earlier attempts and of unknown containers change nothing."""

from __future__ import annotations

from typing import Final

from steersman_cluster.nodes.pod_events import (
    End,
    Event,
    Exited,
    NotPrepared,
    NotResized,
    NotStarted,
    Prepared,
    ProbeFailed,
    Readiness,
    Resized,
    Started,
    StartedUp,
    Sync,
    Tick,
)
from steersman_cluster.nodes.pod_state import (
    DEFINITION_CHANGED,
    Exit,
    Preparation,
    Refusal,
    Role,
    Stage,
    Termination,
    containers_of,
)
from steersman_cluster.nodes.pod_transition import FIRST_BACKOFF, LONGEST_BACKOFF, PodTransition
from steersman_cluster.nodes.resizes import resources_of, summary
from steersman_cluster.objects import Object, meta

__all__ = ["react"]

_PULL_ERROR_SECONDS: Final = 1.0
"""The time in seconds for which a failed pull has the reason ErrImagePull before ImagePullBackOff."""
_CONFIG_RETRY: Final = 3.0
_PREPARE_RETRY_SECONDS: Final = 3.0
_RESIZE_RETRY_SECONDS: Final = 5.0


def react(transition: PodTransition, event: Event) -> None:
    """Apply an event to the state."""
    match event:
        case Sync(pod, refusal):
            _sync(transition, pod, refusal)
        case Prepared(ip):
            transition.set(prepared=Preparation.DONE, ip=ip)
        case NotPrepared(reason, message):
            transition.set(prepared=Preparation.NO, prepare_retry_at=transition.now + _PREPARE_RETRY_SECONDS)
            transition.report("Warning", reason, message)
        case End(termination):
            _end(transition, termination)
        case Tick():
            pass
        case _:
            _apply_to_container(transition, event)


def _apply_to_container(
    transition: PodTransition,
    event: Started | NotStarted | Exited | StartedUp | Readiness | ProbeFailed | Resized | NotResized,
) -> None:
    index = next((i for i, c in enumerate(transition.containers) if c.name == event.container), -1)
    if index < 0 or transition.containers[index].attempt != event.attempt:
        return
    container = transition.containers[index]
    match event:
        case Started():
            _started(transition, index, event)
        case NotStarted():
            _not_started(transition, index, event)
        case Exited() if container.live:
            _exited(transition, index, event)
        case StartedUp(ready=ready) if container.stage is Stage.RUNNING:
            transition.change(index, started=True, ready=ready)
        case Readiness(ready=ready) if container.stage is Stage.RUNNING:
            transition.change(index, ready=ready)
        case ProbeFailed(why=why, grace=grace) if container.stage is Stage.RUNNING:
            grace = transition.pod_state.grace if grace is None else grace
            transition.stop(index, f"Container {container.name} failed {why} probe, will be restarted", grace)
        case Resized() | NotResized() if container.stage is Stage.RUNNING:
            _resized(transition, index, event)
        case _:
            pass


def _resized(transition: PodTransition, index: int, event: Resized | NotResized) -> None:
    if isinstance(event, Resized):
        transition.change(index, actual=event.resources, resizing=False, resize_error="")
        return
    if event.message != transition.containers[index].resize_error:
        text = f"Pod resize error: {summary(transition.pod_state.pod, event.message)}"
        transition.report("Warning", "ResizeError", text)
    retry_at = transition.now + _RESIZE_RETRY_SECONDS
    transition.change(index, resizing=False, resize_error=event.message, retry_at=retry_at)


def _sync(transition: PodTransition, pod: Object, refusal: Refusal | None) -> None:
    _report_refusal(transition, pod, refusal)
    transition.set(pod=pod, refusal=refusal)
    every = containers_of(pod.get("spec") or {})
    names = {container.name for container in transition.containers}
    transition.containers += [c for c in every if c.role is Role.EPHEMERAL and c.name not in names]
    specs = {container.name: container.spec for container in every}
    resized = False
    for index, container in enumerate(transition.containers):
        spec = specs.get(container.name)
        if spec is None or spec is container.spec:
            continue
        changed = spec.get("image") != container.spec.get("image")
        if resources_of(spec) != resources_of(container.spec):
            if refusal is not None:
                spec = {**spec, "resources": resources_of(container.spec)}
            else:
                resized = True
        transition.change(index, spec=spec)
        if not changed or container.role in (Role.INIT, Role.EPHEMERAL):
            continue
        if container.stage is Stage.RUNNING and not transition.pod_state.finished:
            transition.stop(
                index, f"Container {container.name} {DEFINITION_CHANGED}, will be restarted", transition.pod_state.grace
            )
            # The kubelet writes no status between the end of the old container and the start of the new one.
            transition.change(index, backoff=0.0, ready=container.ready)
        elif container.stage is Stage.WAITING:
            transition.change(index, backoff=0.0, pull_backoff=0.0, retry_at=0.0)
    if resized and not transition.pod_state.finished:
        transition.set(resize_generation=meta(pod).get("generation") or 1)
        transition.report("Normal", "ResizeStarted", f"Pod resize started: {summary(pod)}")


def _report_refusal(transition: PodTransition, pod: Object, refusal: Refusal | None) -> None:
    before = transition.pod_state.refusal
    same_generation = meta(pod).get("generation") == meta(transition.pod_state.pod).get("generation")
    if refusal is not None and not (before is not None and before.reason == refusal.reason and same_generation):
        text = f"Pod resize {refusal.reason}: {summary(pod, refusal.message)}"
        transition.report("Warning", f"Resize{refusal.reason}", text)


def _started(transition: PodTransition, index: int, event: Started) -> None:
    before = transition.containers[index]
    if before.stage not in (Stage.STARTING, Stage.STOPPING):
        return
    image = before.spec.get("image") or ""
    container = transition.change(
        index,
        stage=Stage.RUNNING if before.stage is Stage.STARTING else before.stage,
        id=event.id,
        image=image,
        started_at=transition.now,
        started=event.started,
        ready=event.started and event.ready and before.stage is Stage.STARTING,
        restarts=before.restarts + (before.exit is not None),
        last=before.exit or before.last,
        exit=None,
        reason="",
        message="",
        kill="" if before.stage is Stage.STARTING else before.kill,
        pull_backoff=0.0,
    )
    present = f'Container image "{image}" already present on machine and can be accessed by the pod'
    transition.report("Normal", "Pulled", present, container)
    transition.report("Normal", "Created", "Container created", container)
    transition.report("Normal", "Started", "Container started", container)


def _not_started(transition: PodTransition, index: int, event: NotStarted) -> None:
    container = transition.containers[index]
    if container.stage is Stage.STOPPING:
        transition.change(index, stage=Stage.WAITING)
        return
    if container.stage is not Stage.STARTING:
        return
    if container.replacing:
        container = transition.change(index, kill="", ready=False, started=False)
    image = container.spec.get("image") or ""
    if event.reason == "ErrImagePull":
        wait = min(LONGEST_BACKOFF, container.pull_backoff * 2 or FIRST_BACKOFF)
        transition.change(
            index,
            stage=Stage.WAITING,
            reason=event.reason,
            message=event.message,
            pull_backoff=wait,
            flip_at=transition.now + _PULL_ERROR_SECONDS,
            retry_at=transition.now + wait,
        )
        transition.report("Normal", "Pulling", f'Pulling image "{image}"', container)
        transition.report("Warning", "Failed", f'Failed to pull image "{image}": {event.message}', container)
        transition.report("Warning", "Failed", "Error: ErrImagePull", container)
    elif event.reason in ("RunContainerError", "StartError"):
        transition.report("Warning", "Failed", f"Error: {event.message}", container)
        ended = Exit(128, transition.now, reason="StartError", message=event.message)
        restarts = container.restarts + (container.exit is not None)
        last = container.exit or container.last
        transition.change(index, stage=Stage.EXITED, exit=ended, restarts=restarts, last=last)
    else:
        transition.change(
            index,
            stage=Stage.WAITING,
            reason=event.reason,
            message=event.message,
            retry_at=transition.now + _CONFIG_RETRY,
        )
        transition.report("Warning", "Failed", f"Error: {event.message}", container)


def _exited(transition: PodTransition, index: int, event: Exited) -> None:
    container = transition.containers[index]
    reason = event.reason or ("Completed" if event.code == 0 else "Error")
    ended = Exit(
        event.code,
        transition.now,
        event.signal,
        reason,
        event.message,
        container.started_at or None,
        container.id,
    )
    kept = container.replacing
    ready, started = container.ready and kept, container.started and kept
    transition.change(index, stage=Stage.EXITED, exit=ended, ready=ready, started=started)


def _end(transition: PodTransition, termination: Termination) -> None:
    if transition.pod_state.termination is None and not transition.pod_state.finished:
        transition.set(termination=termination)
        transition.report("Warning", termination.reason, termination.message)
