"""The Pod life cycle as a pure state machine: `step(state, event, now) -> (state, effects)`.

First the event changes the state, then `_Step.advance` derives the next effects from it: init containers in order,
sidecars before the other containers, restarts after a backoff, stops within the grace period. The rules are those of
the kubelet (kuberuntime's computePodActions). No clock, no I/O.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from steersman_cluster.nodes.pod_events import (
    Effect,
    End,
    Event,
    Exited,
    NotPrepared,
    NotResized,
    NotStarted,
    Prepare,
    Prepared,
    ProbeFailed,
    Readiness,
    Remove,
    Report,
    Resize,
    Resized,
    Start,
    Started,
    StartedUp,
    Stop,
    Sync,
    Tick,
    Wake,
)
from steersman_cluster.nodes.pod_state import (
    DEFINITION_CHANGED,
    Container,
    Exit,
    PodState,
    Preparation,
    Refusal,
    Role,
    Stage,
    Termination,
    containers_of,
)
from steersman_cluster.nodes.resizes import changed_resources, needs_restart, resources_of, summary
from steersman_cluster.objects import Object, meta, name_of, namespace_of

__all__ = ["FIRST_BACKOFF", "LONGEST_BACKOFF", "begin", "step"]

FIRST_BACKOFF: Final = 10.0
LONGEST_BACKOFF: Final = 300.0
"""Seconds; doubled at each restart, and reset after twice the maximum without a failure."""
_PULL_SHOWN: Final = 1.0
"""The time in seconds for which a failed pull has the reason ErrImagePull before ImagePullBackOff."""
_CONFIG_RETRY: Final = 3.0
_PREPARE_RETRY_SECONDS: Final = 3.0
_RESIZE_RETRY_SECONDS: Final = 5.0
_RESIZE_RESTART: Final = "resize requires restart"
"""Part of the message of a stop after which a container starts again with any restart policy."""


def begin(pod: Object, now: float, *, adopt: bool) -> PodState:
    """Return the state of a Pod that is new to this node.

    A Pod with a status continues: with `adopt` its running containers still run, without it they ended with their node.
    """
    pod_state = PodState(pod, containers_of(pod.get("spec") or {}), now)
    status: Object = pod.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        pod_state = replace(pod_state, finished=status["phase"])
    fields = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    known = {s["name"]: s for field in fields for s in status.get(field) or ()}
    if not known:
        return pod_state
    from steersman_cluster.nodes.status import remembered, seconds_of

    containers = tuple(remembered(c, known.get(c.name), now, adopt=adopt) for c in pod_state.containers)
    begun = seconds_of(status.get("startTime")) or now
    adopted = adopt and bool(status.get("podIP"))
    return replace(
        pod_state,
        containers=containers,
        begun_at=begun,
        ip=(status.get("podIP") or "") if adopted else "",
        prepared=Preparation.DONE if adopted else Preparation.NO,
    )


def step(pod_state: PodState, event: Event, now: float) -> tuple[PodState, tuple[Effect, ...]]:
    """Apply an event and return the effects; events of earlier attempts and unknown containers are ignored."""
    turn = _Step(pod_state, now)
    turn.take(event)
    turn.advance()
    return turn.result()


class _Step:
    """The mutable state of one step."""

    def __init__(self, pod_state: PodState, now: float) -> None:
        self.pod_state = pod_state
        self.now = now
        self.containers = list(pod_state.containers)
        self.effects: list[Effect] = []
        self.wakes: list[float] = []

    def result(self) -> tuple[PodState, tuple[Effect, ...]]:
        if self.wakes:
            self.effects.append(Wake(min(self.wakes)))
        containers = tuple(self.containers)
        if containers != self.pod_state.containers:
            self.pod_state = replace(self.pod_state, containers=containers)
        return self.pod_state, tuple(self.effects)

    def change(self, index: int, **fields: Any) -> Container:
        changed = self.containers[index] = replace(self.containers[index], **fields)
        return changed

    def set(self, **fields: Any) -> None:
        self.pod_state = replace(self.pod_state, **fields)

    def report(self, type: str, reason: str, message: str, container: Container | None = None) -> None:
        self.effects.append(Report(type, reason, message, container))

    @property
    def pod_text(self) -> str:
        pod = self.pod_state.pod
        return f"{name_of(pod)}_{namespace_of(pod)}({self.pod_state.uid})"

    # Events.

    def take(self, event: Event) -> None:
        match event:
            case Sync(pod, refusal):
                self._sync(pod, refusal)
            case Prepared(ip):
                self.set(prepared=Preparation.DONE, ip=ip)
            case NotPrepared(reason, message):
                self.set(prepared=Preparation.NO, prepare_retry_at=self.now + _PREPARE_RETRY_SECONDS)
                self.report("Warning", reason, message)
            case End(termination):
                self._end(termination)
            case Tick():
                pass
            case _:
                self._apply_to_container(event)

    def _apply_to_container(
        self, event: Started | NotStarted | Exited | StartedUp | Readiness | ProbeFailed | Resized | NotResized
    ) -> None:
        index = next((i for i, c in enumerate(self.containers) if c.name == event.container), -1)
        if index < 0 or self.containers[index].attempt != event.attempt:
            return
        container = self.containers[index]
        match event:
            case Started():
                self._started(index, event)
            case NotStarted():
                self._not_started(index, event)
            case Exited() if container.live:
                self._exited(index, event)
            case StartedUp(ready=ready) if container.stage is Stage.RUNNING:
                self.change(index, started=True, ready=ready)
            case Readiness(ready=ready) if container.stage is Stage.RUNNING:
                self.change(index, ready=ready)
            case ProbeFailed(why=why, grace=grace) if container.stage is Stage.RUNNING:
                grace = self.pod_state.grace if grace is None else grace
                self._stop(index, f"Container {container.name} failed {why} probe, will be restarted", grace)
            case Resized() | NotResized() if container.stage is Stage.RUNNING:
                self._resized(index, event)
            case _:
                pass

    def _resized(self, index: int, event: Resized | NotResized) -> None:
        if isinstance(event, Resized):
            self.change(index, actual=event.resources, resizing=False, resize_error="")
            return
        if event.message != self.containers[index].resize_error:
            text = f"Pod resize error: {summary(self.pod_state.pod, event.message)}"
            self.report("Warning", "ResizeError", text)
        retry_at = self.now + _RESIZE_RETRY_SECONDS
        self.change(index, resizing=False, resize_error=event.message, retry_at=retry_at)

    def _sync(self, pod: Object, refusal: Refusal | None) -> None:
        self._report_refusal(pod, refusal)
        self.set(pod=pod, refusal=refusal)
        every = containers_of(pod.get("spec") or {})
        names = {container.name for container in self.containers}
        self.containers += [c for c in every if c.role is Role.EPHEMERAL and c.name not in names]
        specs = {container.name: container.spec for container in every}
        resized = False
        for index, container in enumerate(self.containers):
            spec = specs.get(container.name)
            if spec is None or spec is container.spec:
                continue
            changed = spec.get("image") != container.spec.get("image")
            if resources_of(spec) != resources_of(container.spec):
                if refusal is not None:
                    spec = {**spec, "resources": resources_of(container.spec)}
                else:
                    resized = True
            self.change(index, spec=spec)
            if not changed or container.role in (Role.INIT, Role.EPHEMERAL):
                continue
            if container.stage is Stage.RUNNING and not self.pod_state.finished:
                self._stop(
                    index, f"Container {container.name} {DEFINITION_CHANGED}, will be restarted", self.pod_state.grace
                )
                # The kubelet writes no status between the end of the old container and the start of the new one.
                self.change(index, backoff=0.0, ready=container.ready)
            elif container.stage is Stage.WAITING:
                self.change(index, backoff=0.0, pull_backoff=0.0, retry_at=0.0)
        if resized and not self.pod_state.finished:
            self.set(resize_generation=meta(pod).get("generation") or 1)
            self.report("Normal", "ResizeStarted", f"Pod resize started: {summary(pod)}")

    def _report_refusal(self, pod: Object, refusal: Refusal | None) -> None:
        before = self.pod_state.refusal
        same_generation = meta(pod).get("generation") == meta(self.pod_state.pod).get("generation")
        if refusal is not None and not (before is not None and before.reason == refusal.reason and same_generation):
            text = f"Pod resize {refusal.reason}: {summary(pod, refusal.message)}"
            self.report("Warning", f"Resize{refusal.reason}", text)

    def _started(self, index: int, event: Started) -> None:
        before = self.containers[index]
        if before.stage not in (Stage.STARTING, Stage.STOPPING):
            return
        image = before.spec.get("image") or ""
        container = self.change(
            index,
            stage=Stage.RUNNING if before.stage is Stage.STARTING else before.stage,
            id=event.id,
            image=image,
            started_at=self.now,
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
        self.report("Normal", "Pulled", present, container)
        self.report("Normal", "Created", "Container created", container)
        self.report("Normal", "Started", "Container started", container)

    def _not_started(self, index: int, event: NotStarted) -> None:
        container = self.containers[index]
        if container.stage is Stage.STOPPING:
            self.change(index, stage=Stage.WAITING)
            return
        if container.stage is not Stage.STARTING:
            return
        if container.replacing:
            container = self.change(index, kill="", ready=False, started=False)
        image = container.spec.get("image") or ""
        if event.reason == "ErrImagePull":
            wait = min(LONGEST_BACKOFF, container.pull_backoff * 2 or FIRST_BACKOFF)
            self.change(
                index,
                stage=Stage.WAITING,
                reason=event.reason,
                message=event.message,
                pull_backoff=wait,
                flip_at=self.now + _PULL_SHOWN,
                retry_at=self.now + wait,
            )
            self.report("Normal", "Pulling", f'Pulling image "{image}"', container)
            self.report("Warning", "Failed", f'Failed to pull image "{image}": {event.message}', container)
            self.report("Warning", "Failed", "Error: ErrImagePull", container)
        elif event.reason in ("RunContainerError", "StartError"):
            self.report("Warning", "Failed", f"Error: {event.message}", container)
            ended = Exit(128, self.now, reason="StartError", message=event.message)
            restarts = container.restarts + (container.exit is not None)
            last = container.exit or container.last
            self.change(index, stage=Stage.EXITED, exit=ended, restarts=restarts, last=last)
        else:
            self.change(
                index,
                stage=Stage.WAITING,
                reason=event.reason,
                message=event.message,
                retry_at=self.now + _CONFIG_RETRY,
            )
            self.report("Warning", "Failed", f"Error: {event.message}", container)

    def _exited(self, index: int, event: Exited) -> None:
        container = self.containers[index]
        reason = event.reason or ("Completed" if event.code == 0 else "Error")
        ended = Exit(
            event.code,
            self.now,
            event.signal,
            reason,
            event.message,
            container.started_at or None,
            container.id,
        )
        kept = container.replacing
        ready, started = container.ready and kept, container.started and kept
        self.change(index, stage=Stage.EXITED, exit=ended, ready=ready, started=started)

    def _end(self, termination: Termination) -> None:
        if self.pod_state.termination is None and not self.pod_state.finished:
            self.set(termination=termination)
            self.report("Warning", termination.reason, termination.message)

    # Effects.

    def advance(self) -> None:
        pod_state = self.pod_state
        if pod_state.finished:
            if pod_state.deleting:
                self._remove()
            return
        self._check_deadline()
        if self.pod_state.deleting or self.pod_state.termination is not None or self.pod_state.closing:
            self._wind_down(self.pod_state.closing)
            return
        if pod_state.prepared is not Preparation.DONE:
            self._prepare()
            return
        for index, container in enumerate(self.containers):
            if container.role is Role.EPHEMERAL:
                self._keep_running(index)
        if self._run_inits():
            self._run_mains()
        if not self.pod_state.closing:
            self._resize()

    def _resize(self) -> None:
        """Apply the allocated resources to running containers: in place, or by a restart."""
        pending = False
        for index, container in enumerate(self.containers):
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
                self._stop(index, f"Container {container.name} {_RESIZE_RESTART}", self.pod_state.grace)
                self.change(index, backoff=0.0)
            elif container.resize_error and container.retry_at > self.now:
                self.wakes.append(container.retry_at)
            else:
                self.change(index, resizing=True)
                self.effects.append(Resize(container.name, container.attempt, resources))
        if self.pod_state.resize_generation and not pending:
            self.set(resize_generation=0)
            self.report("Normal", "ResizeCompleted", f"Pod resize completed: {summary(self.pod_state.pod)}")

    def _check_deadline(self) -> None:
        pod_state = self.pod_state
        seconds = pod_state.spec.get("activeDeadlineSeconds")
        if seconds is None or pod_state.termination is not None:
            return
        at = pod_state.begun_at + seconds
        if self.now >= at:
            message = "Pod was active on the node longer than the specified deadline"
            self.set(termination=Termination("DeadlineExceeded", message))
            self.report("Normal", "DeadlineExceeded", message)
        else:
            self.wakes.append(at)

    def _prepare(self) -> None:
        if self.pod_state.prepared is not Preparation.NO:
            return
        if self.now < self.pod_state.prepare_retry_at:
            self.wakes.append(self.pod_state.prepare_retry_at)
            return
        self.set(prepared=Preparation.YES)
        self.effects.append(Prepare())

    def _run_inits(self) -> bool:
        """Advance the init containers; returns whether the main containers may start."""
        initialized = self.pod_state.initialized
        for index, container in enumerate(self.containers):
            if container.role is Role.SIDECAR:
                self._keep_running(index)
                if not initialized and not self.containers[index].started:
                    return False
            elif container.role is Role.INIT and not initialized:
                if container.exit is not None and container.stage is Stage.EXITED and container.exit.code == 0:
                    continue
                if container.stage is Stage.EXITED and not self._comes_back(container):
                    self._wind_down("Failed")
                    return False
                self._keep_running(index)
                return False
        return True

    def _run_mains(self) -> None:
        for index, container in enumerate(self.containers):
            if container.role is Role.MAIN:
                self._keep_running(index)
        mains = [c for c in self.containers if c.role is Role.MAIN]
        if all(c.stage is Stage.EXITED and not self._comes_back(c) for c in mains):
            failed = any(c.exit is not None and c.exit.code for c in mains)
            self._wind_down("Failed" if failed else "Succeeded")

    def _comes_back(self, container: Container) -> bool:
        if container.role is Role.EPHEMERAL:
            return False
        if container.role is Role.SIDECAR or container.replacing or _RESIZE_RESTART in container.kill:
            return True
        code = container.exit.code if container.exit is not None else 0
        if _has_rule(container.spec, code):
            return True
        policy = container.spec.get("restartPolicy") or self.pod_state.policy
        if policy == "Never":
            return False
        return code != 0 if policy == "OnFailure" or container.role is Role.INIT else True

    def _keep_running(self, index: int) -> None:
        """Start a container that should run and does not, after its backoff."""
        container = self.containers[index]
        if container.live:
            return
        if container.stage is Stage.WAITING and container.retry_at > self.now:
            self._wait(index)
            return
        if container.stage is Stage.EXITED:
            if not self._comes_back(container):
                return
            if self._backs_off(index):
                return
        container = self.containers[index]
        attempt = container.attempt + 1
        self.change(
            index,
            stage=Stage.STARTING,
            attempt=attempt,
            kill=container.kill if container.replacing else "",
            retry_at=0.0,
            actual=resources_of(container.spec),
            resizing=False,
            resize_error="",
        )
        self.effects.append(Start(container.name, attempt))

    def _wait(self, index: int) -> None:
        container = self.containers[index]
        self.wakes.append(container.retry_at)
        if container.reason != "ErrImagePull":
            return
        if self.now < container.flip_at:
            self.wakes.append(container.flip_at)
            return
        text = f'Back-off pulling image "{container.spec.get("image") or ""}"'
        self.change(index, reason="ImagePullBackOff", message=f"{text}: ErrImagePull: {container.message}")
        self.report("Normal", "BackOff", text, container)
        self.report("Warning", "Failed", "Error: ImagePullBackOff", container)

    def _backs_off(self, index: int) -> bool:
        """Return whether an ended container must wait before its restart; otherwise count the next backoff."""
        container = self.containers[index]
        assert container.exit is not None
        ended = container.exit.at
        expired = ended - container.backoff_at > 2 * LONGEST_BACKOFF
        if container.backoff and not expired:
            until = ended + container.backoff
            if self.now < until:
                name, seconds = container.name, _duration(container.backoff)
                self.change(
                    index,
                    stage=Stage.WAITING,
                    reason="CrashLoopBackOff",
                    message=f"back-off {seconds} restarting failed container={name} pod={self.pod_text}",
                    retry_at=until,
                    **self._next_backoff(container, until),
                )
                text = f"Back-off restarting failed container {name} in pod {self.pod_text}"
                self.report("Warning", "BackOff", text, container)
                self.wakes.append(until)
                return True
            self.change(index, **self._next_backoff(container, self.now))
        else:
            self.change(index, backoff=FIRST_BACKOFF, backoff_at=self.now)
        return False

    @staticmethod
    def _next_backoff(container: Container, at: float) -> dict[str, float]:
        return {"backoff": min(LONGEST_BACKOFF, container.backoff * 2), "backoff_at": at}

    # The end of the Pod.

    def _stop(self, index: int, message: str, grace: float) -> None:
        container = self.change(index, stage=Stage.STOPPING, kill=message, grace=grace, ready=False)
        self.report("Normal", "Killing", message, container)
        self.effects.append(Stop(container.name, container.attempt, grace))

    def _wind_down(self, phase: str = "") -> None:
        """Stop running containers, sidecars last in reverse order. Then the Pod is finished, or removed."""
        if phase != self.pod_state.closing:
            self.set(closing=phase)
        self._abandon_replacements()
        grace = self.pod_state.grace
        mains = [i for i, c in enumerate(self.containers) if c.role is not Role.SIDECAR and c.live]
        sidecars = [i for i, c in enumerate(self.containers) if c.role is Role.SIDECAR and c.live]
        for index in mains or sidecars[-1:]:
            container = self.containers[index]
            if container.stage is Stage.STOPPING and container.grace <= grace:
                continue
            if container.stage is Stage.STOPPING:
                self.change(index, grace=grace)
                self.effects.append(Stop(container.name, container.attempt, grace))
            else:
                self._stop(index, f"Stopping container {container.name}", grace)
        if mains or sidecars:
            return
        if not phase:
            ran = [c for c in self.containers if c.role is Role.MAIN]
            good = all(c.exit is not None and c.exit.code == 0 for c in ran)
            phase = "Succeeded" if good else "Failed"
        if self.pod_state.termination is not None:
            phase = "Failed"
        self.set(finished=phase)
        if self.pod_state.deleting:
            self._remove()

    def _abandon_replacements(self) -> None:
        """Set the status of containers that no new one replaces."""
        for index, container in enumerate(self.containers):
            if container.replacing:
                self.change(index, kill="", ready=False, started=False)

    def _remove(self) -> None:
        if not self.pod_state.removed:
            self.set(removed=True)
            self.effects.append(Remove())


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
