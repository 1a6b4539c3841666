"""Nodes without machines: Pods run and become Ready in pretence, and fail as they are told.

Behaviour comes from annotations (see `behaviour`) and from the testing calls of `SimulatedNode`. Everything is timed
by the agent's heap on the loop's clock, so it runs on virtual time too. No process ever runs, no probe is ever made.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

from steersman.models import Quantity
from steersman_cluster.errors import APIError
from steersman_cluster.kubelet import STDOUT, Connection, LogOptions, Usage
from steersman_cluster.nodes.agent import Agent, NodePod
from steersman_cluster.nodes.behaviour import PREFIX, Behaviour, Defaults, behaviour_of
from steersman_cluster.nodes.logs import MESSAGE_LOG_BYTES, MESSAGE_LOG_LINES, LogLine, selected
from steersman_cluster.nodes.lookup import container_for_logs, pod_on, running_container
from steersman_cluster.nodes.pod_state import (
    Container,
    Effect,
    End,
    Exited,
    NotStarted,
    Prepare,
    Prepared,
    Readiness,
    Resize,
    Resized,
    Stage,
    Start,
    Started,
    Stop,
    Termination,
)
from steersman_cluster.objects import annotations_of, dig

__all__ = ["SimulatedKubelet", "SimulatedNode", "SimulatedRuntime"]


class SimulatedRuntime:
    """Answers the machine's effects with events, later."""

    adopts = True

    def __init__(self, agent: Agent, defaults: Defaults) -> None:
        self.defaults = defaults
        self.slow: dict[str, float] = {}
        """By node: seconds that every start takes longer."""
        self._agent = agent
        self._addresses = 0
        self._behaviours: dict[str, dict[str, Behaviour]] = {}

    async def close(self) -> None:
        """Do nothing: a simulated container is no process."""

    def added(self, node_pod: NodePod) -> None:
        """Handle a Pod that the agent sees for the first time."""
        self._behaviours[node_pod.uid] = {}
        for container in node_pod.pod_state.containers:
            if container.stage is Stage.RUNNING:
                self._runs(node_pod, container, self._read(node_pod, container), container.attempt)

    def synced(self, node_pod: NodePod) -> None:
        """Annotations that have changed take effect on what runs."""
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
        """Kill what still runs of a Pod whose object is gone."""
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
    """A container's termination message: that of `fail`, else the end of its log where the spec asks for it."""
    container = node_pod.pod_state.container(name)
    policy = container.spec.get("terminationMessagePolicy") if container is not None else ""
    if behaviour.message or not behaviour.exit_code or policy != "FallbackToLogsOnError":
        return behaviour.message
    lines = behaviour.logs.splitlines()[-MESSAGE_LOG_LINES:]
    text = "".join(f"{line}\n" for line in lines).encode()[-MESSAGE_LOG_BYTES:]
    return text.decode(errors="ignore")


class SimulatedKubelet:
    """The kubelet of simulated nodes: canned logs, canned exec, no ports."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._amounts: dict[tuple[str, str], dict[str, str]] = {}

    async def logs(self, namespace: str, pod: str, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """What `simulate.steersman.dev/logs` says, every line stamped with the start of the container."""
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
        """`true`, `false`, `echo` and `exit` do what they say; anything else prints itself and succeeds."""
        running_container(pod_on(self._agent, namespace, pod), container)
        return CannedSession(list(command))

    async def attach(self, namespace: str, pod: str, container: str, *, stdin: bool, tty: bool) -> CannedSession:
        """A session that ends at once."""
        running_container(pod_on(self._agent, namespace, pod), container)
        return CannedSession(["true"])

    async def connect(self, namespace: str, pod: str, port: int) -> Connection:
        """Nothing listens in a simulated Pod."""
        pod_on(self._agent, namespace, pod)
        raise APIError(500, "InternalError", f"a simulated Pod has no port {port}: use nodes of kind process")

    def set_amounts(self, namespace: str, pod: str, amounts: Mapping[str, str]) -> None:
        """Set what each container of a Pod uses of `cpu` and `memory`, as quantities."""
        self._amounts[namespace, pod] = dict(amounts)

    def amounts(self, node_pod: NodePod) -> dict[str, dict[str, str]]:
        """The `cpu` and `memory` of a Pod's running containers: as set, else as annotated, else as requested."""
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
        """As `amounts`, used at this rate since the start of the container."""
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
    """A quantity as a number; `None` for text that is not a quantity, or is negative."""
    try:
        amount = Quantity(text).milli() / 1000
    except ValueError:
        return None
    return amount if amount >= 0 else None


class CannedSession:
    """An exec session whose end is known from the start."""

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
    """One simulated node, in the hands of a test."""

    def __init__(self, name: str, agent: Agent, runtime: SimulatedRuntime, kubelet: SimulatedKubelet) -> None:
        self.name = name
        self.kubelet = kubelet
        self._agent = agent
        self._runtime = runtime

    def fail_pod(
        self, namespace: str, name: str, *, container: str = "", exit_code: int = 1, message: str = "", reason: str = ""
    ) -> None:
        """End a running container (all main containers unless named), as if its process had died.

        What follows is up to the Pod's restart policy. Raises `KeyError` where this node has no such Pod.
        """
        node_pod = self._held(namespace, name)
        for found in node_pod.pod_state.containers:
            if found.stage is Stage.RUNNING and (
                found.name == container or (not container and found.role.value == "main")
            ):
                self._agent.post(node_pod.uid, Exited(found.name, found.attempt, exit_code, 0, reason, message))

    def set_ready(self, namespace: str, name: str, ready: bool, *, container: str = "") -> None:
        """Make the readiness of a Pod's containers what it says."""
        node_pod = self._held(namespace, name)
        for found in node_pod.pod_state.containers:
            if found.stage is Stage.RUNNING and container in ("", found.name):
                self._agent.post(node_pod.uid, Readiness(found.name, found.attempt, ready))

    def evict(self, namespace: str, name: str, message: str = "The node was low on resource: memory.") -> None:
        """End a Pod as a node does that runs out of something: Failed, reason `Evicted`. Budgets have no say."""
        node_pod = self._held(namespace, name)
        self._agent.post(node_pod.uid, End(Termination("Evicted", message, grace=0.0)))

    async def lose(self, *, mark: bool = True) -> None:
        """Fall silent: no heartbeat, no status, no deletion, until `recover`.

        With `mark` the Node is set to Ready=Unknown at once, as the node controller does after 40 seconds.
        """
        registration = self._agent.registrations[self.name]
        registration.silent = True
        if mark:
            await registration.mark("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")

    async def recover(self) -> None:
        """Come back: Ready, and everything written that was held back."""
        await self._agent.registrations[self.name].recovered()
        self._agent.resume(self.name)

    def slow_start(self, seconds: float) -> None:
        """From now on each container starts so many seconds later; 0 ends that."""
        self._runtime.slow[self.name] = seconds

    def defaults(self, **changes: float) -> None:
        """Change what Pods do that ask for nothing: `start_after`, `ready_after`, `exit_after`, `stop_after`.

        It holds for all nodes that were started together.
        """
        self._runtime.defaults = replace(self._runtime.defaults, **changes)

    def set_usage(self, namespace: str, name: str, **usage: str | int | float) -> None:
        """What a Pod is seen to use: `cpu="250m"`, `memory="64Mi"`; for each of its containers."""
        amounts = {resource: str(Quantity(str(value))) for resource, value in usage.items()}
        self.kubelet.set_amounts(namespace, name, amounts)

    def usage(self, namespace: str, name: str) -> dict[str, dict[str, str]]:
        """What a running Pod's containers use: as set, else as annotated (`cpu`, `memory`), else as requested."""
        return self.kubelet.amounts(self._held(namespace, name))

    def _held(self, namespace: str, name: str) -> NodePod:
        node_pod = self._agent.find(namespace, name)
        if node_pod is None or node_pod.node != self.name:
            raise KeyError(f"node {self.name} has no Pod {namespace}/{name}")
        return node_pod
