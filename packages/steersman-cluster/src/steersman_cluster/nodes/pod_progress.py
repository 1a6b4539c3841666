"""The next effects of a Pod by its state: which containers start, restart, change and stop, and when the Pod ends.

The rules are those of the kubelet (kuberuntime's computePodActions).
"""

from __future__ import annotations

from typing import Final

from steersman_cluster.nodes.pod_events import (
    Prepare,
    Remove,
    Resize,
    Start,
    Stop,
)
from steersman_cluster.nodes.pod_state import (
    Container,
    Preparation,
    Role,
    Stage,
    Termination,
)
from steersman_cluster.nodes.pod_transition import FIRST_BACKOFF, LONGEST_BACKOFF, PodTransition
from steersman_cluster.nodes.resizes import changed_resources, needs_restart, resources_of, summary
from steersman_cluster.objects import Object

__all__ = ["advance"]

_RESIZE_RESTART: Final = "resize requires restart"
"""Part of the message of a stop after which a container starts again with any restart policy."""


def advance(transition: PodTransition) -> None:
    """Derive the next effects from the state."""
    pod_state = transition.pod_state
    if pod_state.finished:
        if pod_state.deleting:
            _remove(transition)
        return
    _check_deadline(transition)
    if transition.pod_state.deleting or transition.pod_state.termination is not None or transition.pod_state.closing:
        _wind_down(transition, transition.pod_state.closing)
        return
    if pod_state.prepared is not Preparation.DONE:
        _prepare(transition)
        return
    for index, container in enumerate(transition.containers):
        if container.role is Role.EPHEMERAL:
            _keep_running(transition, index)
    if _run_inits(transition):
        _run_mains(transition)
    if not transition.pod_state.closing:
        _resize(transition)


def _resize(transition: PodTransition) -> None:
    """Apply the allocated resources to running containers: in place, or by a restart."""
    pending = False
    for index, container in enumerate(transition.containers):
        pending = pending or container.stage is Stage.STARTING
        if container.stage not in (Stage.RUNNING, Stage.STOPPING) or container.actual is None:
            continue
        resources = resources_of(container.spec)
        changed = changed_resources(container.actual, resources)
        if not changed:
            continue
        pending = True
        if container.stage is Stage.STOPPING or container.resizing:
            continue
        if needs_restart(container.spec, changed):
            transition.stop(index, f"Container {container.name} {_RESIZE_RESTART}", transition.pod_state.grace)
            transition.change(index, backoff=0.0)
        elif container.resize_error and container.retry_at > transition.now:
            transition.wakes.append(container.retry_at)
        else:
            transition.change(index, resizing=True)
            transition.effects.append(Resize(container.name, container.attempt, resources))
    if transition.pod_state.resize_generation and not pending:
        transition.set(resize_generation=0)
        transition.report("Normal", "ResizeCompleted", f"Pod resize completed: {summary(transition.pod_state.pod)}")


def _check_deadline(transition: PodTransition) -> None:
    pod_state = transition.pod_state
    seconds = pod_state.spec.get("activeDeadlineSeconds")
    if seconds is None or pod_state.termination is not None:
        return
    at = pod_state.begun_at + seconds
    if transition.now >= at:
        message = "Pod was active on the node longer than the specified deadline"
        transition.set(termination=Termination("DeadlineExceeded", message))
        transition.report("Normal", "DeadlineExceeded", message)
    else:
        transition.wakes.append(at)


def _prepare(transition: PodTransition) -> None:
    if transition.pod_state.prepared is not Preparation.NO:
        return
    if transition.now < transition.pod_state.prepare_retry_at:
        transition.wakes.append(transition.pod_state.prepare_retry_at)
        return
    transition.set(prepared=Preparation.YES)
    transition.effects.append(Prepare())


def _run_inits(transition: PodTransition) -> bool:
    """Advance the init containers; returns whether the main containers may start."""
    initialized = transition.pod_state.initialized
    for index, container in enumerate(transition.containers):
        if container.role is Role.SIDECAR:
            _keep_running(transition, index)
            if not initialized and not transition.containers[index].started:
                return False
        elif container.role is Role.INIT and not initialized:
            if container.exit is not None and container.stage is Stage.EXITED and container.exit.code == 0:
                continue
            if container.stage is Stage.EXITED and not _comes_back(transition, container):
                _wind_down(transition, "Failed")
                return False
            _keep_running(transition, index)
            return False
    return True


def _run_mains(transition: PodTransition) -> None:
    for index, container in enumerate(transition.containers):
        if container.role is Role.MAIN:
            _keep_running(transition, index)
    mains = [c for c in transition.containers if c.role is Role.MAIN]
    if all(c.stage is Stage.EXITED and not _comes_back(transition, c) for c in mains):
        failed = any(c.exit is not None and c.exit.code for c in mains)
        _wind_down(transition, "Failed" if failed else "Succeeded")


def _comes_back(transition: PodTransition, container: Container) -> bool:
    if container.role is Role.EPHEMERAL:
        return False
    if container.role is Role.SIDECAR or container.replacing or _RESIZE_RESTART in container.kill:
        return True
    code = container.exit.code if container.exit is not None else 0
    if _has_rule(container.spec, code):
        return True
    policy = container.spec.get("restartPolicy") or transition.pod_state.policy
    if policy == "Never":
        return False
    return code != 0 if policy == "OnFailure" or container.role is Role.INIT else True


def _keep_running(transition: PodTransition, index: int) -> None:
    """Start a container that should run and does not, after its backoff."""
    container = transition.containers[index]
    if container.live:
        return
    if container.stage is Stage.WAITING and container.retry_at > transition.now:
        _wait(transition, index)
        return
    if container.stage is Stage.EXITED:
        if not _comes_back(transition, container):
            return
        if _backs_off(transition, index):
            return
    container = transition.containers[index]
    attempt = container.attempt + 1
    transition.change(
        index,
        stage=Stage.STARTING,
        attempt=attempt,
        kill=container.kill if container.replacing else "",
        retry_at=0.0,
        actual=resources_of(container.spec),
        resizing=False,
        resize_error="",
    )
    transition.effects.append(Start(container.name, attempt))


def _wait(transition: PodTransition, index: int) -> None:
    container = transition.containers[index]
    transition.wakes.append(container.retry_at)
    if container.reason != "ErrImagePull":
        return
    if transition.now < container.flip_at:
        transition.wakes.append(container.flip_at)
        return
    text = f'Back-off pulling image "{container.spec.get("image") or ""}"'
    transition.change(index, reason="ImagePullBackOff", message=f"{text}: ErrImagePull: {container.message}")
    transition.report("Normal", "BackOff", text, container)
    transition.report("Warning", "Failed", "Error: ImagePullBackOff", container)


def _backs_off(transition: PodTransition, index: int) -> bool:
    """Return whether an ended container must wait before its restart; otherwise count the next backoff."""
    container = transition.containers[index]
    assert container.exit is not None
    ended = container.exit.at
    expired = ended - container.backoff_at > 2 * LONGEST_BACKOFF
    if container.backoff and not expired:
        until = ended + container.backoff
        if transition.now < until:
            name, seconds = container.name, _duration(container.backoff)
            transition.change(
                index,
                stage=Stage.WAITING,
                reason="CrashLoopBackOff",
                message=f"back-off {seconds} restarting failed container={name} pod={transition.pod_text}",
                retry_at=until,
                **_next_backoff(container, until),
            )
            text = f"Back-off restarting failed container {name} in pod {transition.pod_text}"
            transition.report("Warning", "BackOff", text, container)
            transition.wakes.append(until)
            return True
        transition.change(index, **_next_backoff(container, transition.now))
    else:
        transition.change(index, backoff=FIRST_BACKOFF, backoff_at=transition.now)
    return False


def _next_backoff(container: Container, at: float) -> dict[str, float]:
    return {"backoff": min(LONGEST_BACKOFF, container.backoff * 2), "backoff_at": at}


def _wind_down(transition: PodTransition, phase: str = "") -> None:
    """Stop running containers, sidecars last in reverse order. Then the Pod is finished, or removed."""
    if phase != transition.pod_state.closing:
        transition.set(closing=phase)
    _abandon_replacements(transition)
    grace = transition.pod_state.grace
    mains = [i for i, c in enumerate(transition.containers) if c.role is not Role.SIDECAR and c.live]
    sidecars = [i for i, c in enumerate(transition.containers) if c.role is Role.SIDECAR and c.live]
    for index in mains or sidecars[-1:]:
        container = transition.containers[index]
        if container.stage is Stage.STOPPING and container.grace <= grace:
            continue
        if container.stage is Stage.STOPPING:
            transition.change(index, grace=grace)
            transition.effects.append(Stop(container.name, container.attempt, grace))
        else:
            transition.stop(index, f"Stopping container {container.name}", grace)
    if mains or sidecars:
        return
    if not phase:
        ran = [c for c in transition.containers if c.role is Role.MAIN]
        good = all(c.exit is not None and c.exit.code == 0 for c in ran)
        phase = "Succeeded" if good else "Failed"
    if transition.pod_state.termination is not None:
        phase = "Failed"
    transition.set(finished=phase)
    if transition.pod_state.deleting:
        _remove(transition)


def _abandon_replacements(transition: PodTransition) -> None:
    """Set the status of containers that no new one replaces."""
    for index, container in enumerate(transition.containers):
        if container.replacing:
            transition.change(index, kill="", ready=False, started=False)


def _remove(transition: PodTransition) -> None:
    if not transition.pod_state.removed:
        transition.set(removed=True)
        transition.effects.append(Remove())


def _has_rule(spec: Object, code: int) -> bool:
    """Return whether one of a container's `restartPolicyRules` restarts it after this exit code."""
    for rule in spec.get("restartPolicyRules") or ():
        codes: Object = rule.get("exitCodes") or {}
        if (code in (codes.get("values") or ())) == (codes.get("operator") == "In"):
            return True
    return False


def _duration(seconds: float) -> str:
    """Format a duration as Go does: `10s`, `1m20s`, `5m0s`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
