"""Simulated nodes: their Pods start, become Ready and fail without processes and probes.

The behaviour comes from annotations (see `behaviour`) and from calls of `SimulatedNode` in tests. All timers use the
clock of the event loop, so that simulated nodes also work on virtual time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

from steersman.models import Quantity
from steersman_cluster.errors import APIError
from steersman_cluster.kubelet import STDOUT, Connection, LogOptions, Usage
from steersman_cluster.nodes.agent import Agent
from steersman_cluster.nodes.behaviour import PREFIX, Behaviour, Defaults, behaviour_of
from steersman_cluster.nodes.logs import MESSAGE_LOG_BYTES, MESSAGE_LOG_LINES, LogLine, selected
from steersman_cluster.nodes.lookup import container_for_logs, pod_on, running_container
from steersman_cluster.nodes.node_pod import NodePod
from steersman_cluster.nodes.pod_events import (
    Effect,
    End,
    Exited,
    NotStarted,
    Prepare,
    Prepared,
    Readiness,
    Resize,
    Resized,
    Start,
    Started,
    Stop,
)
from steersman_cluster.nodes.pod_state import Container, Stage, Termination
from steersman_cluster.objects import annotations_of, dig

__all__ = ["SimulatedKubelet", "SimulatedNode", "SimulatedRuntime"]


class SimulatedRuntime:
    """Responds to the effects of the state machine with delayed events."""

    adopts = True

    def __init__(self, agent: Agent, defaults: Defaults) -> None:
        self.defaults = defaults
        self.slow: dict[str, float] = {}
        """Additional seconds of each start, by node."""
        self._agent = agent
        self._addresses = 0
        self._behaviours: dict[str, dict[str, Behaviour]] = {}

    async def close(self) -> None:
        """Do nothing, because a simulated container has no process."""

    def added(self, node_pod: NodePod) -> None:
        """Handle a Pod that the agent sees for the first time."""
        self._behaviours[node_pod.uid] = {}
        for container in node_pod.pod_state.containers:
            if container.stage is Stage.RUNNING:
                self._runs(node_pod, container, self._read(node_pod, container), container.attempt)

    def synced(self, node_pod: NodePod) -> None:
        """Apply changed annotations to running containers."""
        known = self._behaviours.get(node_pod.uid)
        if not known:
            return
        for container in node_pod.pod_state.containers:
            before = known.get(container.name)
            if before is None or container.stage is not Stage.RUNNING:
                continue
            after = behaviour_of(node_pod.pod_state, container, self.defaults)
            if after == before:
                continue
            known[container.name] = after
            if (after.exit_after, after.exit_code, after.message) != (
                before.exit_after,
                before.exit_code,
                before.message,
            ):
                self._will_exit(node_pod, container.name, container.attempt, after)
            if after.ready_after != before.ready_after:
                self._will_be_ready(node_pod, container.name, container.attempt, after)

    def perform(self, node_pod: NodePod, effect: Effect) -> None:
        """Execute an effect of the state machine."""
        match effect:
            case Prepare():
                self._agent.post(node_pod.uid, Prepared(self._address(node_pod)))
            case Start(name, attempt):
                self._start(node_pod, name, attempt)
            case Stop(name, attempt, grace):
                behaviour = self._behaviours[node_pod.uid].get(name)
                wait = behaviour.stop_after if behaviour is not None else 0.0
                code = 0
                if wait is None or wait > grace:
                    wait, code = grace, 137
                self._agent.post_after(wait, node_pod.uid, Exited(name, attempt, code))
            case Resize(name, attempt, resources):
                self._agent.post_after(0.0, node_pod.uid, Resized(name, attempt, resources))
            case _:
                pass

    async def removed(self, node_pod: NodePod) -> None:
        """Clean up after a Pod that has ended."""

    def forgotten(self, node_pod: NodePod) -> None:
        """Remove the containers of a Pod that was deleted from the API."""
        self._behaviours.pop(node_pod.uid, None)

    def _read(self, node_pod: NodePod, container: Container) -> Behaviour:
        behaviour = behaviour_of(node_pod.pod_state, container, self.defaults)
        self._behaviours[node_pod.uid][container.name] = behaviour
        return behaviour

    def _start(self, node_pod: NodePod, name: str, attempt: int) -> None:
        container = node_pod.pod_state.container(name)
        if container is None:
            return
        behaviour = self._read(node_pod, container)
        wait = behaviour.start_after + self.slow.get(node_pod.node, 0.0)
        post = self._agent.post_after
        if behaviour.image_error:
            post(wait, node_pod.uid, NotStarted(name, attempt, "ErrImagePull", behaviour.image_error))
        elif behaviour.start_error:
            post(wait, node_pod.uid, NotStarted(name, attempt, "RunContainerError", behaviour.start_error))
        else:
            identity = f"simulated://{node_pod.uid}-{name}-{attempt}"
            ready = behaviour.ready_after == 0
            post(wait, node_pod.uid, Started(name, attempt, identity, ready=ready))
            self._runs(node_pod, container, behaviour, attempt, wait)

    def _runs(
        self, node_pod: NodePod, container: Container, behaviour: Behaviour, attempt: int, after: float = 0.0
    ) -> None:
        self._will_exit(node_pod, container.name, attempt, behaviour, after)
        if behaviour.ready_after != 0 and not container.ready:
            self._will_be_ready(node_pod, container.name, attempt, behaviour, after)

    def _will_exit(self, node_pod: NodePod, name: str, attempt: int, behaviour: Behaviour, after: float = 0.0) -> None:
        if behaviour.exit_after is not None:
            event = Exited(name, attempt, behaviour.exit_code, message=_message(node_pod, name, behaviour))
            self._agent.post_after(after + behaviour.exit_after, node_pod.uid, event)

    def _will_be_ready(
        self, node_pod: NodePod, name: str, attempt: int, behaviour: Behaviour, after: float = 0.0
    ) -> None:
        if behaviour.ready_after is None:
            self._agent.post_after(after, node_pod.uid, Readiness(name, attempt, ready=False))
        else:
            self._agent.post_after(after + behaviour.ready_after, node_pod.uid, Readiness(name, attempt, ready=True))

    def _address(self, node_pod: NodePod) -> str:
        if node_pod.pod_state.spec.get("hostNetwork"):
            return self._agent.registrations[node_pod.node].info.address
        self._addresses += 1
        number = self._addresses % 0xFFFF
        return f"10.{244 + self._addresses // 0xFFFF % 11}.{number >> 8}.{number & 255}"


def _message(node_pod: NodePod, name: str, behaviour: Behaviour) -> str:
    """Return a container's termination message: that of `fail`, or the end of its log if the spec requests it."""
    container = node_pod.pod_state.container(name)
    policy = container.spec.get("terminationMessagePolicy") if container is not None else ""
    if behaviour.message or not behaviour.exit_code or policy != "FallbackToLogsOnError":
        return behaviour.message
    lines = behaviour.logs.splitlines()[-MESSAGE_LOG_LINES:]
    text = "".join(f"{line}\n" for line in lines).encode()[-MESSAGE_LOG_BYTES:]
    return text.decode(errors="ignore")


class SimulatedKubelet:
    """The kubelet of simulated nodes: logs from annotations, a few commands for exec, no ports."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._amounts: dict[tuple[str, str], dict[str, str]] = {}

    async def logs(self, namespace: str, pod: str, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield the log in `simulate.steersman.dev/logs`, with the start of the container as the time of each line."""
        node_pod = pod_on(self._agent, namespace, pod)
        found = container_for_logs(node_pod, container, previous=options.previous)
        texts = annotations_of(node_pod.pod_state.pod)
        text = texts.get(f"{PREFIX}logs.{found.name}", texts.get(PREFIX + "logs", ""))
        at = found.started_at or node_pod.pod_state.begun_at
        lines = (LogLine(at, STDOUT, line.encode() + b"\n") for line in text.splitlines())
        for chunk in selected(lines, options, self._agent.clock()):
            yield chunk
        while options.follow and (now := node_pod.pod_state.container(found.name)) is not None and now.live:
            if node_pod.deleted or now.attempt != found.attempt:
                return
            await asyncio.sleep(1.0)

    async def exec(
        self, namespace: str, pod: str, container: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> CannedSession:
        """Simulate `true`, `false`, `echo` and `exit`; other commands print themselves and succeed."""
        running_container(pod_on(self._agent, namespace, pod), container)
        return CannedSession(list(command))

    async def attach(self, namespace: str, pod: str, container: str, *, stdin: bool, tty: bool) -> CannedSession:
        """Return a session that ends immediately."""
        running_container(pod_on(self._agent, namespace, pod), container)
        return CannedSession(["true"])

    async def connect(self, namespace: str, pod: str, port: int) -> Connection:
        """Raise an error, because no process listens in a simulated Pod."""
        pod_on(self._agent, namespace, pod)
        raise APIError(500, "InternalError", f"a simulated Pod has no port {port}: use nodes of kind process")

    def set_amounts(self, namespace: str, pod: str, amounts: Mapping[str, str]) -> None:
        """Set the usage of `cpu` and `memory` of each container of a Pod, as quantities."""
        self._amounts[namespace, pod] = dict(amounts)

    def amounts(self, node_pod: NodePod) -> dict[str, dict[str, str]]:
        """Return the usage of a Pod's running containers: the set one, else that of annotations, else the requests."""
        annotations = annotations_of(node_pod.pod_state.pod)
        set_here = self._amounts.get((node_pod.namespace, node_pod.name), {})
        found: dict[str, dict[str, str]] = {}
        for container in node_pod.pod_state.containers:
            if container.stage is not Stage.RUNNING:
                continue
            requests: dict[str, str] = dig(container.spec, "resources", "requests", default={})
            used = {resource: str(requests.get(resource, "0")) for resource in ("cpu", "memory")}
            for resource in used:
                for key in (PREFIX + resource, f"{PREFIX}{resource}.{container.name}"):
                    if _amount(annotations.get(key, "")) is not None:
                        used[resource] = annotations[key]
            found[container.name] = {**used, **set_here}
        return found

    def usage(self, namespace: str, pod: str) -> dict[str, Usage]:
        """Return the usage of `amounts` at a constant rate since the start of each container."""
        node_pod = self._agent.find(namespace, pod)
        annotations = annotations_of(node_pod.pod_state.pod) if node_pod is not None else {}
        told = bool(self._amounts.get((namespace, pod)))
        found: dict[str, Usage] = {}
        for name, amounts in (self.amounts(node_pod) if node_pod is not None else {}).items():
            container = node_pod.pod_state.container(name) if node_pod is not None else None
            started = (container.started_at if container is not None else None) or self._agent.clock()
            cores, memory = (_amount(amounts[resource]) or 0.0 for resource in ("cpu", "memory"))
            keys = (f"{PREFIX}{resource}{suffix}" for resource in amounts for suffix in ("", f".{name}"))
            assumed = not told and all(_amount(annotations.get(key, "")) is None for key in keys)
            spent = cores * max(0.0, self._agent.clock() - started)
            found[name] = Usage(started, spent, int(memory), cores, assumed=assumed)
        return found


def _amount(text: str) -> float | None:
    """Return a quantity as a number; `None` for a negative quantity and other text."""
    try:
        amount = Quantity(text).milli() / 1000
    except ValueError:
        return None
    return amount if amount >= 0 else None


class CannedSession:
    """An exec session with predefined output and exit code."""

    def __init__(self, command: list[str]) -> None:
        script = command[-1] if command[:2] in (["sh", "-c"], ["/bin/sh", "-c"]) else " ".join(command)
        words = script.split()
        self._code = 0
        self._output = script.encode() + b"\n"
        match words:
            case ["true"]:
                self._output = b""
            case ["false"]:
                self._code, self._output = 1, b""
            case ["exit", number] if number.isdecimal():
                self._code, self._output = int(number) & 255, b""
            case ["echo", *rest]:
                self._output = " ".join(rest).encode() + b"\n"
            case _:
                pass

    async def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        if self._output:
            yield STDOUT, self._output

    async def write(self, data: bytes) -> None:
        pass

    async def close_stdin(self) -> None:
        pass

    async def resize(self, columns: int, rows: int) -> None:
        pass

    async def wait(self) -> int:
        return self._code

    async def close(self) -> None:
        pass


class SimulatedNode:
    """One simulated node, for tests to control."""

    def __init__(self, name: str, agent: Agent, runtime: SimulatedRuntime, kubelet: SimulatedKubelet) -> None:
        self.name = name
        self.kubelet = kubelet
        self._agent = agent
        self._runtime = runtime

    def fail_pod(
        self, namespace: str, name: str, *, container: str = "", exit_code: int = 1, message: str = "", reason: str = ""
    ) -> None:
        """End a running container (all main containers unless named), as if its process had exited.

        The restart policy of the Pod applies. Raises `KeyError` if this node has no such Pod.
        """
        node_pod = self._held(namespace, name)
        for found in node_pod.pod_state.containers:
            if found.stage is Stage.RUNNING and (
                found.name == container or (not container and found.role.value == "main")
            ):
                self._agent.post(node_pod.uid, Exited(found.name, found.attempt, exit_code, 0, reason, message))

    def set_ready(self, namespace: str, name: str, *, ready: bool, container: str = "") -> None:
        """Set the readiness of a container, or of all containers of a Pod."""
        node_pod = self._held(namespace, name)
        for found in node_pod.pod_state.containers:
            if found.stage is Stage.RUNNING and container in ("", found.name):
                self._agent.post(node_pod.uid, Readiness(found.name, found.attempt, ready))

    def evict(self, namespace: str, name: str, message: str = "The node was low on resource: memory.") -> None:
        """Evict a Pod as a node under resource pressure: Failed, reason `Evicted`, without disruption budgets."""
        node_pod = self._held(namespace, name)
        self._agent.post(node_pod.uid, End(Termination("Evicted", message, grace=0.0)))

    async def lose(self, *, mark: bool = True) -> None:
        """Suspend the heartbeats, status writes and deletions of the node until `recover`.

        With `mark` the Node becomes Ready=Unknown immediately, as the node controller does after 40 seconds.
        """
        registration = self._agent.registrations[self.name]
        registration.silent = True
        if mark:
            await registration.mark("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")

    async def recover(self) -> None:
        """End the suspension: report Ready and write the pending statuses."""
        await self._agent.registrations[self.name].recovered()
        self._agent.resume(self.name)

    def slow_start(self, seconds: float) -> None:
        """Delay the start of each container by this number of seconds; 0 ends the delay."""
        self._runtime.slow[self.name] = seconds

    def defaults(self, **changes: float) -> None:
        """Change the defaults of Pods without annotations: `start_after`, `ready_after`, `exit_after`, `stop_after`.

        The change applies to all nodes that were started together.
        """
        self._runtime.defaults = replace(self._runtime.defaults, **changes)

    def set_usage(self, namespace: str, name: str, **usage: str | int | float) -> None:
        """Set the usage of each container of a Pod, such as `cpu="250m"`, `memory="64Mi"`."""
        amounts = {resource: str(Quantity(str(value))) for resource, value in usage.items()}
        self.kubelet.set_amounts(namespace, name, amounts)

    def usage(self, namespace: str, name: str) -> dict[str, dict[str, str]]:
        """Return the usage of a Pod's running containers: the set one, else that of annotations, else the requests."""
        return self.kubelet.amounts(self._held(namespace, name))

    def _held(self, namespace: str, name: str) -> NodePod:
        node_pod = self._agent.find(namespace, name)
        if node_pod is None or node_pod.node != self.name:
            raise KeyError(f"node {self.name} has no Pod {namespace}/{name}")
        return node_pod
