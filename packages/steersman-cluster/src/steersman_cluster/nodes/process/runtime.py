"""The runtime of process nodes: performs the effects of the Pod state machine with processes, and reports events.

Each start, stop and probe is a task of the Pod's resources and ends with them. A failed task posts an event to the
state machine, which makes all decisions.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from steersman.client import ClientError
from steersman.telemetry.log import get_logger
from steersman_cluster.nodes.agent import Agent
from steersman_cluster.nodes.logs import MESSAGE_LOG_BYTES, MESSAGE_LOG_LINES
from steersman_cluster.nodes.network.addresses import KUBERNETES_SERVICE
from steersman_cluster.nodes.network.cluster_network import ClusterNetwork
from steersman_cluster.nodes.node_pod import NodePod
from steersman_cluster.nodes.pod_events import (
    Effect,
    Exited,
    NotResized,
    NotStarted,
    Prepare,
    Resize,
    Resized,
    Start,
    Started,
    Stop,
)
from steersman_cluster.nodes.pod_state import Container
from steersman_cluster.nodes.process import cleanup, probe_tasks
from steersman_cluster.nodes.process.api_reader import ApiReader
from steersman_cluster.nodes.process.cgroups import NODE_GROUP_PREFIX, NodeGroups, limits_of
from steersman_cluster.nodes.process.cleanup_guard import CleanupGuard
from steersman_cluster.nodes.process.container_commands import ContainerCommands
from steersman_cluster.nodes.process.container_launch import ContainerLauncher
from steersman_cluster.nodes.process.container_run import Run
from steersman_cluster.nodes.process.environment import ConfigError
from steersman_cluster.nodes.process.handlers import act
from steersman_cluster.nodes.process.images import ImageError, Images
from steersman_cluster.nodes.process.logfile import last_text
from steersman_cluster.nodes.process.measurements import Measurements
from steersman_cluster.nodes.process.memory_volumes import MemoryVolumes
from steersman_cluster.nodes.process.node_tasks import start_task
from steersman_cluster.nodes.process.path_lookup import LaunchError
from steersman_cluster.nodes.process.pod_resources import PodResources
from steersman_cluster.nodes.process.preparation import PodPreparation
from steersman_cluster.nodes.process.sandbox import Mode
from steersman_cluster.objects import Object, dig

__all__ = ["ProcessRuntime", "Run"]

_LEAST_GRACE: Final = 2.0
"""The least grace period in seconds after a preStop hook."""
_MAX_MESSAGE_BYTES: Final = 4096
"""The greatest length of a termination message; the end of the file is used."""
_log = get_logger("nodes")


class ProcessRuntime:
    """Runs containers as processes. `data` has the directories of Pods, logs and volumes; `images` the commands.

    A `temporary` directory is deleted when the runtime ends, also if its process is killed.
    """

    adopts = False

    def __init__(
        self,
        agent: Agent,
        images: Images,
        data: Path,
        mode: Mode,
        server: tuple[str, int] | None = None,
        network: ClusterNetwork | None = None,
        temporary: Path | None = None,
    ) -> None:
        self.mode: Mode = mode
        self.network = network
        self.network_changed: Callable[[], None] = lambda: None
        """Called when a Pod has received or lost its address."""
        self.resources: dict[str, PodResources] = {}
        self.mark = secrets.token_hex(8)
        self._agent = agent
        self._images = images
        self._data = data
        self._temporary = temporary
        self._reader = ApiReader(agent.client, self._source_changed)
        self._groups: NodeGroups | None = None
        self._memory: MemoryVolumes | None = None
        if mode != "plain":
            self._memory = MemoryVolumes(network.user_namespace if network is not None else None)
        self.guard: CleanupGuard | None = None
        """The cleanup program, where the kernel does not end and delete everything of a node itself."""
        self._cleaning: set[asyncio.Task[None]] = set()
        self.commands = ContainerCommands(mode)
        """The additional commands in containers."""
        self.measurements = Measurements(agent, self.resources)
        api_server = KUBERNETES_SERVICE if network is not None else server or self._reader.api_server()
        self._launcher = ContainerLauncher(agent, images, data, mode, self.mark, self._reader, api_server, network)
        self._preparation = PodPreparation(
            agent,
            images,
            data,
            self._reader,
            self._memory,
            network,
            self.resources,
            lambda: self.network_changed(),
        )

    async def start(self) -> None:
        """Watch the objects in volumes, and start the cleanup program if the kernel does not clean up everything."""
        self._data.mkdir(parents=True, exist_ok=True, mode=0o700)
        await self._reader.start()
        self.measurements.start()
        self._groups = NodeGroups.create(f"{NODE_GROUP_PREFIX}{self.mark}") if os.geteuid() == 0 else None
        self._launcher.groups = self._groups
        if self.mode == "plain" or self._groups is not None or self._temporary is not None:
            groups = self._groups.directories if self._groups is not None else []
            self.guard = CleanupGuard(self.mark, groups, self._temporary)
            await self.guard.start()

    async def close(self) -> None:
        """Kill all containers and wait for their end. The Pods stay in the API."""
        await self.measurements.close()
        for resources in list(self.resources.values()):
            await self._clear(resources)
        self.resources.clear()
        if self._cleaning:
            await asyncio.wait(self._cleaning)
        await self.commands.close()
        if self._memory is not None:
            await self._memory.close()
        await self._reader.close()
        self._images.close()
        if self.guard is not None:
            await self.guard.close()
            self.guard = None
        else:
            # The remaining processes of a sandbox end shortly after its first process.
            await asyncio.to_thread(cleanup.kill_marked, self.mark)
        if self._groups is not None:
            self._groups.close()
            self._groups = None

    # Methods that the agent calls.

    def added(self, node_pod: NodePod) -> None:
        """Handle a Pod that the agent sees for the first time."""

    def synced(self, node_pod: NodePod) -> None:
        """Handle a new version of a Pod."""
        resources = self.resources.get(node_pod.uid)
        if resources is None:
            return
        resources.facts.pod = node_pod.pod_state.pod
        if any("downwardAPI" in v or "projected" in v for v in node_pod.pod_state.spec.get("volumes") or ()):
            self._preparation.refresh(resources)

    def perform(self, node_pod: NodePod, effect: Effect) -> None:
        """Execute an effect of the state machine."""
        match effect:
            case Prepare():
                resources = self.resources.get(node_pod.uid) or self._preparation.new_resources(node_pod)
                start_task(resources.tasks, self._preparation.prepare(node_pod, resources), f"prepare {node_pod.name}")
            case Start(name, attempt):
                resources = self.resources[node_pod.uid]
                container = node_pod.pod_state.container(name)
                assert container is not None
                task = start_task(
                    resources.tasks, self._start(node_pod, resources, container, attempt), f"start {name}"
                )
                resources.starts[name] = task
            case Stop(name, attempt, grace):
                self._stop(node_pod, name, attempt, grace)
            case Resize(name, attempt, resources):
                self._resize(node_pod, name, attempt, resources)
            case _:
                pass

    def _resize(self, node_pod: NodePod, name: str, attempt: int, resources: Object) -> None:
        """Change the limits of a running container; without control groups, only the recorded limits change."""
        held = self.resources.get(node_pod.uid)
        run = held.runs.get(name) if held is not None else None
        answer: Resized | NotResized = Resized(name, attempt, resources)
        try:
            if run is not None and run.attempt == attempt and run.group is not None:
                run.group.set(limits_of({"resources": resources}))
        except OSError as problem:
            answer = NotResized(name, attempt, problem.strerror or str(problem))
        asyncio.get_running_loop().call_soon(self._agent.post, node_pod.uid, answer)

    async def removed(self, node_pod: NodePod) -> None:
        """Clean up after a Pod that has ended."""
        resources = self.resources.pop(node_pod.uid, None)
        if resources is not None:
            await self._clear(resources)
            self._preparation.detach(resources)
            await resources.remove()

    def forgotten(self, node_pod: NodePod) -> None:
        """Kill the remaining containers of a Pod that was deleted from the API."""
        start_task(self._cleaning, self.removed(node_pod), f"forget {node_pod.name}")

    def _source_changed(self, kind: str, namespace: str, name: str) -> None:
        self._preparation.source_changed(kind, namespace, name)

    async def _clear(self, resources: PodResources) -> None:
        """Kill the containers of a Pod and cancel its tasks."""
        for task in list(resources.tasks):
            if task is not asyncio.current_task():
                task.cancel()
        if resources.tasks:
            await asyncio.wait(resources.tasks)
        runs = list(resources.runs.values())
        beside = [task for run in runs for task in run.tasks]
        for task in beside:
            task.cancel()
        for run in runs:
            run.process.kill()
        for run in runs:
            await run.process.wait()
            run.log.close()  # A run that ends while its container starts is not reported as exited.
        if beside:
            await asyncio.wait(beside)

    # Containers.

    async def _start(  # noqa: C901 - one refusal after the other
        self, node_pod: NodePod, resources: PodResources, container: Container, attempt: int
    ) -> None:
        name = container.name

        def refuse(reason: str, message: object) -> None:
            self._agent.post(node_pod.uid, NotStarted(name, attempt, reason, str(message)))

        try:
            run = await self._launcher.launch(
                node_pod,
                resources,
                container.spec,
                attempt,
                lambda ended: self._agent_exited(node_pod, resources, ended),
            )
        except ImageError as problem:
            refuse("ErrImagePull", problem)
            return
        except ConfigError as problem:
            refuse("CreateContainerConfigError", problem)
            return
        except LaunchError as problem:
            refuse("RunContainerError", f"failed to create containerd task: {problem}")
            return
        except OSError as problem:
            refuse("RunContainerError", f"failed to create containerd task: {problem.strerror or problem}")
            return
        except Exception as problem:  # noqa: BLE001 - the Pod shows an unexpected error, and the start is retried
            if not isinstance(problem, ClientError):
                _log.exception("container_create_failed", pod=node_pod.name, container=name)
            refuse("CreateContainerError", problem)
            return
        spec = container.spec
        hook = dig(spec, "lifecycle", "postStart")
        if hook is not None:
            passed, output = await act(
                hook, spec, resources.facts.ip, self.commands.executor(run), 3600.0, self.network
            )
            if not passed:
                path = f"spec.containers{{{name}}}"
                self._agent.report(node_pod, "Warning", "FailedPostStartHook", f"PostStartHook failed: {output}", path)
                run.process.kill()
        started, ready = "startupProbe" not in spec, "readinessProbe" not in spec
        identity = f"process://{node_pod.uid}/{name}/{attempt}"
        self._agent.post(node_pod.uid, Started(name, attempt, identity, started=started, ready=started and ready))
        if run.process.ended:
            self._exited(node_pod, resources, run)
            return
        if started:
            run.started_up.set()
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            if kind in spec:
                start_task(
                    run.tasks,
                    probe_tasks.watch(
                        self._agent, node_pod, resources, run, kind, self.commands.executor(run), self.network
                    ),
                    f"{kind} of {name}",
                )

    def _agent_exited(self, node_pod: NodePod, resources: PodResources, run: Run) -> None:
        pod_state = node_pod.pod_state.container(run.container["name"])
        if (
            pod_state is not None
            and pod_state.attempt == run.attempt
            and not pod_state.started_at
            and pod_state.stage.value == "starting"
        ):
            return  # The start still runs and will notice that the process has ended.
        self._exited(node_pod, resources, run)

    def _exited(self, node_pod: NodePod, resources: PodResources, run: Run) -> None:
        for task in list(run.tasks):
            task.cancel()
        run.log.close()
        name: str = run.container["name"]
        if resources.runs.get(name) is not run:
            return

        async def tell() -> None:
            code, _ = await run.process.wait()
            reason = ""
            if run.group is not None:
                reason = "OOMKilled" if run.group.out_of_memory else ""
                run.group.remove()
            self._agent.post(
                node_pod.uid, Exited(name, run.attempt, code, reason=reason, message=self._message(run, code))
            )

        start_task(resources.tasks, tell(), f"end of {name}")

    def _message(self, run: Run, code: int) -> str:
        try:
            with run.message_file.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _MAX_MESSAGE_BYTES))
                text = file.read(_MAX_MESSAGE_BYTES)
        except OSError:
            text = b""
        if not text and code and run.container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            text = last_text(run.log.path, lines=MESSAGE_LOG_LINES, size=MESSAGE_LOG_BYTES)
        return text.decode(errors="replace")

    def _stop(self, node_pod: NodePod, name: str, attempt: int, grace: float) -> None:
        resources = self.resources.get(node_pod.uid)
        run = resources.runs.get(name) if resources is not None else None
        if resources is None or run is None or run.attempt != attempt:
            if resources is not None and (starting := resources.starts.pop(name, None)) is not None:
                starting.cancel()
            asyncio.get_running_loop().call_soon(self._agent.post, node_pod.uid, Exited(name, attempt, 137))
            return
        again = run.stopping is not None
        if run.stopping is not None:
            run.stopping.cancel()
        for task in list(run.tasks):
            task.cancel()
        run.stopping = start_task(
            resources.tasks, self._stopping(node_pod, resources, run, grace, again=again), f"stop {name}"
        )

    async def _stopping(
        self, node_pod: NodePod, resources: PodResources, run: Run, grace: float, *, again: bool
    ) -> None:
        time = asyncio.get_running_loop().time
        deadline = time() + grace
        hook = dig(run.container, "lifecycle", "preStop")
        if hook is not None and not again and grace > 0:
            passed, _ = await act(
                hook, run.container, resources.facts.ip, self.commands.executor(run), grace, self.network
            )
            if not passed:
                path = f"spec.containers{{{run.container['name']}}}"
                self._agent.report(node_pod, "Warning", "FailedPreStopHook", "PreStopHook failed", path)
        if grace > 0:
            left = max(_LEAST_GRACE, deadline - time())
            run.process.signal(run.stop_signal, sandboxed=self.mode != "plain")
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await run.process.wait()
        run.process.kill()
