"""The runtime of process nodes: performs what the machine says with real processes, and reports what they do.

Every start, stop and probe is a task of its Pod's resources and ends with it. What a task cannot do becomes an event of
the machine; nothing is decided here.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

from steersman.client import ClientError
from steersman.telemetry.log import get_logger
from steersman_cluster.nodes.agent import Agent, NodePod
from steersman_cluster.nodes.logs import MESSAGE_LOG_BYTES, MESSAGE_LOG_LINES
from steersman_cluster.nodes.network.addresses import KUBERNETES_SERVICE
from steersman_cluster.nodes.network.cluster_network import ClusterNetwork
from steersman_cluster.nodes.pod_state import (
    Container,
    Effect,
    End,
    Exited,
    NotPrepared,
    NotResized,
    NotStarted,
    Prepare,
    Prepared,
    Resize,
    Resized,
    Start,
    Started,
    Stop,
)
from steersman_cluster.nodes.process import cleanup, probe_tasks
from steersman_cluster.nodes.process.api_reader import ApiReader
from steersman_cluster.nodes.process.cgroups import CGROUP_MOUNT, ContainerGroup, NodeGroups, limits_of
from steersman_cluster.nodes.process.command import DEFAULT_PATH, Identity, Sandbox
from steersman_cluster.nodes.process.container_run import Run
from steersman_cluster.nodes.process.environment import (
    ConfigError,
    Facts,
    command_of,
    environment_of,
    references_of,
    service_variables,
)
from steersman_cluster.nodes.process.handlers import act
from steersman_cluster.nodes.process.identity import account_of, accounts, groups_of, identity_of
from steersman_cluster.nodes.process.images import Image, ImageError, Images
from steersman_cluster.nodes.process.logfile import LogFile, last_text
from steersman_cluster.nodes.process.memory_volumes import MemoryVolumes
from steersman_cluster.nodes.process.meter import SAMPLE_EVERY_SECONDS
from steersman_cluster.nodes.process.path_lookup import LaunchError, check_command
from steersman_cluster.nodes.process.pod_resources import MountError, PodResources
from steersman_cluster.nodes.process.processes import Exit, Process, children_of, consumed, spawn
from steersman_cluster.nodes.process.roots import (
    Layer,
    copy_root,
    lay_out,
    make_directory,
    named_paths,
    node_paths,
)
from steersman_cluster.nodes.process.sandbox import Mode, Mount, overlays_work, plan, real, sandbox_of
from steersman_cluster.nodes.process.volume_sizes import (
    CHECK_EVERY_SECONDS,
    eviction_of,
    limited_volumes,
    used_bytes,
)
from steersman_cluster.objects import Object, dig, name_of, namespace_of

__all__ = ["ProcessRuntime", "Run"]

_TERMINATION_LOG: Final = "/dev/termination-log"
_LEAST_GRACE: Final = 2.0
"""Seconds that a container gets after its preStop, however long that took."""
_SANDBOX_CHECKS: Final = 3000
"""The number of checks, one each 10 ms, before a sandbox that is not ready counts as failed."""
_MAX_MESSAGE_BYTES: Final = 4096
"""The length of the message that a termination message file contributes: its end."""
_ADDRESSES: Final = count(1)
"""Numbers of Pods' addresses: of all clusters of this process, whose Pods share the machine's loopback network."""
_log = get_logger("nodes")


class ProcessRuntime:
    """Runs containers as processes. `data` holds directories of Pods, logs and volumes; `images` says what runs."""

    adopts = False

    def __init__(
        self,
        agent: Agent,
        images: Images,
        data: Path,
        mode: Mode,
        server: tuple[str, int] | None = None,
        network: ClusterNetwork | None = None,
    ) -> None:
        self.mode: Mode = mode
        self.network = network
        self.network_changed: Callable[[], None] = lambda: None
        """Called after a Pod has got or lost its address."""
        self.resources: dict[str, PodResources] = {}
        self.mark = secrets.token_hex(8)
        self._agent = agent
        self._images = images
        self._data = data
        self._reader = ApiReader(agent.client, self._source_changed)
        self._server = KUBERNETES_SERVICE if network is not None else server or self._reader.api_server()
        self._overlays: bool | None = None
        """Whether writable layers above images work here; `None` before the first image with a root directory."""
        self._groups: NodeGroups | None = None
        self._memory: MemoryVolumes | None = None
        if mode != "plain":
            self._memory = MemoryVolumes(network.user_namespace if network is not None else None)
        self._guard: asyncio.subprocess.Process | None = None
        self._cleaning: set[asyncio.Task[None]] = set()
        self._watching: list[asyncio.Task[None]] = []
        """The tasks that measure what containers and volumes use."""
        self._beside: list[Process] = []
        """What was started in containers that run: by probes, hooks and people."""

    async def start(self) -> None:
        """Before the first Pod: watch what volumes show, and set the guard where the kernel does not help."""
        self._data.mkdir(parents=True, exist_ok=True, mode=0o700)
        await self._reader.start()
        self._watching = [
            asyncio.create_task(self._meter(), name="container metrics"),
            asyncio.create_task(self._watch_volumes(), name="volume sizes"),
        ]
        self._groups = NodeGroups.create(f"steersman-{self.mark}") if os.geteuid() == 0 else None
        if self.mode == "plain" or self._groups is not None:
            groups = self._groups.directories if self._groups is not None else ()
            self._guard = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", cleanup.__file__, self.mark, *groups),
                stdin=asyncio.subprocess.PIPE,
                start_new_session=True,
            )

    async def close(self) -> None:
        """Kill everything and wait until it is gone. Pods stay in the API."""
        for task in self._watching:
            task.cancel()
        if self._watching:
            await asyncio.wait(self._watching)
        self._watching = []
        for resources in list(self.resources.values()):
            await self._clear(resources)
        self.resources.clear()
        if self._cleaning:
            await asyncio.wait(self._cleaning)
        beside = [process for process in self._beside if not process.ended]
        for process in beside:
            process.kill()
        for process in beside:
            await process.wait()
        if self._memory is not None:
            await self._memory.close()
        await self._reader.close()
        self._images.close()
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()
            await self._guard.wait()
            self._guard = None
        else:
            # What a sandbox still holds dies with its first process, or was started beside it: a moment later.
            await asyncio.to_thread(cleanup.kill_marked, self.mark)

    async def _meter(self) -> None:
        """Take a sample of every container now and then, so that a request finds one that is recent."""
        while True:
            await asyncio.sleep(SAMPLE_EVERY_SECONDS)
            for run in [run for resources in self.resources.values() for run in resources.runs.values()]:
                if not run.process.ended:
                    cpu_seconds, _ = await asyncio.to_thread(consumed, run.process.pid)
                    run.meter.take(time.monotonic(), cpu_seconds)

    async def _watch_volumes(self) -> None:
        while True:
            await asyncio.sleep(CHECK_EVERY_SECONDS)
            await self.check_volume_sizes()

    async def check_volume_sizes(self) -> None:
        """Evict each Pod with an emptyDir volume that uses more than its size limit."""
        for uid, resources in list(self.resources.items()):
            limits = limited_volumes(resources.pod)
            used: dict[str, int] = {}
            for name in limits.keys() & resources.volumes.keys():
                used[name] = await asyncio.to_thread(used_bytes, resources.volumes[name])
            if (termination := eviction_of(limits, used)) is not None:
                self._agent.post(uid, End(termination))

    # What the agent calls.

    def added(self, node_pod: NodePod) -> None:
        """Handle a Pod that the agent sees for the first time."""

    def synced(self, node_pod: NodePod) -> None:
        """Handle a new version of a Pod."""
        resources = self.resources.get(node_pod.uid)
        if resources is None:
            return
        resources.facts.pod = node_pod.pod_state.pod
        if any("downwardAPI" in v or "projected" in v for v in node_pod.pod_state.spec.get("volumes") or ()):
            self._refresh(resources)

    def perform(self, node_pod: NodePod, effect: Effect) -> None:
        """Execute an effect of the state machine."""
        match effect:
            case Prepare():
                resources = self.resources.get(node_pod.uid) or self._new_resources(node_pod)
                self._task(resources.tasks, self._prepare(node_pod, resources), f"prepare {node_pod.name}")
            case Start(name, attempt):
                resources = self.resources[node_pod.uid]
                container = node_pod.pod_state.container(name)
                assert container is not None
                task = self._task(
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
        """Change the limits of a running container; where this process may not set limits, only their record."""
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
            self._detach(resources)
            await resources.remove()

    def forgotten(self, node_pod: NodePod) -> None:
        """Kill what still runs of a Pod whose object is gone."""
        self._task(self._cleaning, self.removed(node_pod), f"forget {node_pod.name}")

    # PodResources.

    def _new_resources(self, node_pod: NodePod) -> PodResources:
        registration = self._agent.registrations[node_pod.node]
        host = registration.info.address
        if self.network is not None:
            ip = ""  # the Pod is attached when it is prepared
        elif node_pod.pod_state.spec.get("hostNetwork"):
            ip = host
        else:
            number = next(_ADDRESSES)
            ip = f"127.{16 + os.getpid() % 200}.{number >> 8 & 255}.{number & 255}"
        facts = Facts(
            node_pod.pod_state.pod, ip=ip, host_ip=host, node=node_pod.node, allocatable=registration.info.capacity
        )
        directory = self._data / "pods" / node_pod.uid
        resources = PodResources(
            facts, directory, self._data / "volumes", self._agent.clock, self._images, self._memory
        )
        self.resources[node_pod.uid] = resources
        return resources

    async def _attach(self, node_pod: NodePod, resources: PodResources) -> None:
        """Give a Pod its place in the network; raises `OSError`."""
        if self.network is None or resources.attachment is not None:
            return
        if node_pod.pod_state.spec.get("hostNetwork"):
            resources.attachment = self.network.attachment(resources.facts.host_ip)
            resources.facts.ip = resources.facts.host_ip
            return
        resources.attachment = self.network.add_pod(node_pod.node)
        resources.facts.ip = resources.attachment.address
        self.network_changed()
        containers = node_pod.pod_state.spec.get("containers") or ()
        await self.network.set_host_ports(resources.facts.ip, node_pod.node, containers)

    def _detach(self, resources: PodResources) -> None:
        if self.network is None or resources.attachment is None:
            return
        attachment, resources.attachment = resources.attachment, None
        if not dig(resources.pod, "spec", "hostNetwork", default=False):
            with suppress(OSError):
                self.network.remove_pod(attachment)
                self.network_changed()

    async def _prepare(self, node_pod: NodePod, resources: PodResources) -> None:
        try:
            await self._attach(node_pod, resources)
            await resources.make(self._reader)
        except MountError as problem:
            self._agent.post(node_pod.uid, NotPrepared("FailedMount", str(problem)))
        except (ClientError, OSError) as problem:
            self._agent.post(
                node_pod.uid, NotPrepared("FailedCreatePodSandBox", f"Failed to create pod sandbox: {problem}")
            )
        else:
            if resources.renew_at is not None:
                self._task(resources.tasks, self._renew_tokens(resources), f"tokens of {node_pod.name}")
            self._agent.post(node_pod.uid, Prepared(resources.facts.ip))

    async def _renew_tokens(self, resources: PodResources) -> None:
        while (at := resources.renew_at) is not None:
            await asyncio.sleep(max(5.0, at - self._agent.clock()))
            self._refresh(resources)

    def _source_changed(self, kind: str, namespace: str, name: str) -> None:
        for resources in self.resources.values():
            if (kind, name) in resources.references and namespace_of(resources.pod) == namespace:
                self._refresh(resources)

    def _refresh(self, resources: PodResources) -> None:
        async def refresh() -> None:
            try:
                await asyncio.sleep(0)
                await resources.refresh(self._reader)
            except (ClientError, OSError) as problem:
                _log.warning("volume_refresh_failed", pod=name_of(resources.pod), problem=str(problem))

        previous = resources.refreshing

        async def after() -> None:
            if previous is not None and not previous.done():
                await asyncio.wait([previous])
            await refresh()

        resources.refreshing = self._task(resources.tasks, after(), f"refresh {name_of(resources.pod)}")

    async def _clear(self, resources: PodResources) -> None:
        """Kill what runs in a Pod and end its tasks."""
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
            run.log.close()  # a run that ends while its container starts is not reported as exited
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
            run = await self._launch(node_pod, resources, container.spec, attempt)
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
        except Exception as problem:  # noqa: BLE001 - the Pod shows what nobody thought of, and is tried again
            if not isinstance(problem, ClientError):
                _log.exception("container_create_failed", pod=node_pod.name, container=name)
            refuse("CreateContainerError", problem)
            return
        spec = container.spec
        hook = dig(spec, "lifecycle", "postStart")
        if hook is not None:
            passed, output = await act(hook, spec, resources.facts.ip, self.executor(run), 3600.0, self.network)
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
                self._task(
                    run.tasks,
                    probe_tasks.watch(self._agent, node_pod, resources, run, kind, self.executor(run), self.network),
                    f"{kind} of {name}",
                )

    async def _launch(self, node_pod: NodePod, resources: PodResources, spec: Object, attempt: int) -> Run:
        image = self._images.find(spec.get("image") or "")
        pod = node_pod.pod_state.pod
        references = await self._reader.objects(node_pod.namespace, references_of(spec))
        services = service_variables(await self._reader.services(pod))
        services["KUBERNETES_SERVICE_HOST"], services["KUBERNETES_SERVICE_PORT"] = (
            self._server[0],
            str(self._server[1]),
        )
        services["KUBERNETES_SERVICE_PORT_HTTPS"] = services["KUBERNETES_SERVICE_PORT"]
        base = self._base_environment(resources, image, spec)
        env = {**base, **environment_of(spec, resources.facts, references, services, image), cleanup.MARK: self.mark}
        command = command_of(spec, image, env)
        directory = spec.get("workingDir") or image.working_dir or "/"
        _check_values(command, env, directory)
        home = resources.directory / "containers" / spec["name"]
        (home / "tmp").mkdir(parents=True, exist_ok=True)
        message_file = home / "termination-log"
        message_file.write_bytes(b"")
        message_file.chmod(0o666)
        (home / "tmp").chmod(0o1777)
        identity = self._identity(pod, spec, image) if os.geteuid() == 0 else None
        mounts = resources.mounts(spec, env)
        group = None
        run: Run | None = None

        def ended(_: Exit) -> None:
            if run is not None and resources.runs.get(spec["name"]) is run and run.attempt == attempt:
                self._agent_exited(node_pod, resources, run)

        with ExitStack() as undo:
            if self._groups is not None:
                group = self._groups.add(f"{node_pod.uid}-{spec['name']}-{attempt}", limits_of(spec))
                undo.callback(group.remove)
            if self.mode == "plain":
                sandbox = None
                directory = self._without_sandbox(spec, image, mounts, home, directory, message_file, env)
            else:
                mounts += _group_mounts(group, mounts)
                sandbox = await self._sandboxed(
                    resources, spec, image, command, mounts, home, directory, message_file, env
                )
            log = LogFile(home / f"{attempt}.log", self._agent.clock)
            undo.callback(log.close)
            (home / f"{attempt - 2}.log").unlink(missing_ok=True)
            process = await spawn(
                command,
                env,
                directory,
                sandbox=sandbox,
                on_output=log.write,
                on_exit=ended,
                stdin=bool(spec.get("stdin")),
                tty=bool(spec.get("tty")),
                network=resources.namespaces,
                identity=identity,
                cgroups=group.entries if group is not None else (),
            )
            undo.pop_all()
        run = Run(spec, attempt, process, log, env, directory, message_file, resources.namespaces, identity, group)
        run.stop_signal = image.stop_signal
        resources.runs[spec["name"]] = run
        return run

    def _base_environment(self, resources: PodResources, image: Image, spec: Object) -> dict[str, str]:
        env = {
            "PATH": DEFAULT_PATH if image.root else os.environ.get("PATH", DEFAULT_PATH),
            "HOME": self._home(resources, image, spec),
            "HOSTNAME": resources.hostname,
            "POD_IP": resources.facts.ip,
        }
        if spec.get("tty"):
            env["TERM"] = "xterm"
        if image.root is None and "LANG" in os.environ:
            env["LANG"] = os.environ["LANG"]
        return env

    def _identity(self, pod: Object, spec: Object, image: Image) -> Identity:
        root = image.root or Path("/")
        groups = groups_of(root) if image.root is not None else ()
        return identity_of(pod, spec, accounts(root), groups, image.user)

    def _home(self, resources: PodResources, image: Image, spec: Object) -> str:
        """The home directory of a container's user: of the image's /etc/passwd, or private to the container."""
        if image.root is None:
            return "/tmp"  # noqa: S108
        known = accounts(image.root)
        user = self._identity(resources.pod, spec, image)["user"] if os.geteuid() == 0 else 0
        return account_of(user, known).home if user or known else "/root"

    def _without_sandbox(
        self,
        spec: Object,
        image: Image,
        mounts: list[Mount],
        home: Path,
        directory: str,
        message_file: Path,
        env: dict[str, str],
    ) -> str:
        """Lay out the files of a container that sees the machine's own; returns its working directory."""
        if image.root is not None:
            raise LaunchError(
                f"the image's root directory {image.root} needs a sandbox, and neither bubblewrap nor user namespaces "
                "work here: map the image to a command of this machine instead, or install bubblewrap"
            )
        message = Mount(message_file, spec.get("terminationMessagePath") or _TERMINATION_LOG)
        root = lay_out(home / "root", [*mounts, message])
        env["STEERSMAN_ROOT"] = str(root)
        env["HOME"] = env["TMPDIR"] = str(home / "tmp")
        return directory if os.path.isdir(directory) else str(root)

    async def _sandboxed(
        self,
        resources: PodResources,
        spec: Object,
        image: Image,
        command: Sequence[str],
        mounts: list[Mount],
        home: Path,
        directory: str,
        message_file: Path,
        env: dict[str, str],
    ) -> Sandbox | None:
        """The sandbox of a container: a writable layer above its image, or a copy of it where layers do not work."""
        extra = [
            Mount(message_file, spec.get("terminationMessagePath") or _TERMINATION_LOG),
            Mount(resources.hosts_file(), "/etc/hosts"),
        ]
        if self.network is not None:
            extra.append(Mount(resources.resolv_conf(), "/etc/resolv.conf"))
        read_only = bool(dig(spec, "securityContext", "readOnlyRootFilesystem"))
        root, layer = image.root, None
        if root is None:
            extra += [Mount(Path(path), path, read_only=True) for path in (*node_paths(), *named_paths(image))]
            if image.working_dir:
                extra.append(Mount(Path(image.working_dir), image.working_dir))
        elif not read_only and await self._has_overlays():
            layer = Layer.make(root, home / "layer")
        elif not read_only:
            root = await copy_root(root, home / "rootfs")
            make_directory(root, directory)
        if layer is not None and not (layer.lower / real(layer.lower, directory).lstrip("/")).is_dir():
            extra.append(Mount(layer.new_directory(), directory))
        targets = {m.target for m in mounts}
        ops = plan(root, [*mounts, *(m for m in extra if m.target not in targets)], home, read_only=read_only)
        check_command(resources.visible(ops), command, env, directory)
        place = home / "root"
        place.mkdir(exist_ok=True)
        sysctls = resources.sysctls(network=self.network is not None)
        if layer is None:
            return sandbox_of(self.mode, ops, resources.hostname, place, sysctls=sysctls)
        return sandbox_of(self.mode, layer.above(ops), resources.hostname, place, layer.directories, sysctls)

    async def _has_overlays(self) -> bool:
        if self._overlays is None:
            self._overlays = await asyncio.to_thread(overlays_work, self.mode, self._data)
        return self._overlays

    def _agent_exited(self, node_pod: NodePod, resources: PodResources, run: Run) -> None:
        pod_state = node_pod.pod_state.container(run.container["name"])
        if (
            pod_state is not None
            and pod_state.attempt == run.attempt
            and not pod_state.started_at
            and pod_state.stage.value == "starting"
        ):
            return  # the start is not over yet; it will see that the process has ended
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

        self._task(resources.tasks, tell(), f"end of {name}")

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
        run.stopping = self._task(
            resources.tasks, self._stopping(node_pod, resources, run, grace, again=again), f"stop {name}"
        )

    async def _stopping(
        self, node_pod: NodePod, resources: PodResources, run: Run, grace: float, *, again: bool
    ) -> None:
        time = asyncio.get_running_loop().time
        deadline = time() + grace
        hook = dig(run.container, "lifecycle", "preStop")
        if hook is not None and not again and grace > 0:
            passed, _ = await act(hook, run.container, resources.facts.ip, self.executor(run), grace, self.network)
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

    # Commands beside a container.

    async def open(
        self, run: Run, command: Sequence[str], on_output: Callable[[int, bytes], None], *, stdin: bool, tty: bool
    ) -> Process:
        """Start a command in a running container; raises `LaunchError` where it has just ended."""
        env = {**run.env, "TERM": "xterm"} if tty else run.env
        _check_values(command, env, run.directory)
        enter = None if self.mode == "plain" else await self._inside(run)
        process = await spawn(
            command,
            env,
            run.directory,
            enter=enter,
            on_output=on_output,
            on_exit=_nothing,
            stdin=stdin,
            tty=tty,
            network=run.namespaces,
            identity=run.identity,
            cgroups=run.group.entries if run.group is not None else (),
        )
        self._beside = [*(one for one in self._beside if not one.ended), process]
        return process

    async def _inside(self, run: Run) -> int:
        """The container's own process, once the sandbox stands: in milliseconds, on a busy machine in seconds."""
        for _ in range(_SANDBOX_CHECKS):
            for init in children_of(run.process.pid):
                for app in children_of(init):
                    return app
            if run.process.ended:
                break
            await asyncio.sleep(0.01)
        raise LaunchError(f'container not found ("{run.container["name"]}")')

    def executor(self, run: Run) -> Callable[[Sequence[str]], Coroutine[Any, Any, tuple[int, str]]]:
        """Runs commands in a container to their end: exit code and output."""

        async def execute(command: Sequence[str]) -> tuple[int, str]:
            output = bytearray()

            def hear(_: int, data: bytes) -> None:
                output.extend(data)

            try:
                process = await self.open(run, command, hear, stdin=False, tty=False)
            except LaunchError as problem:
                return 126, str(problem)
            except OSError as problem:
                return 126, problem.strerror or str(problem)
            try:
                code, _ = await process.wait()
            finally:
                process.kill()
            return code, output.decode(errors="replace")

        return execute

    def _task(self, group: set[asyncio.Task[None]], work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        group.add(task)
        task.add_done_callback(group.discard)
        task.add_done_callback(_complain)
        return task


def _group_mounts(group: ContainerGroup | None, mounts: Sequence[Mount]) -> list[Mount]:
    """Return the mounts that show a container its control groups, unless a volume lies in their place."""
    if group is None or any(f"{CGROUP_MOUNT}/".startswith(f"{m.target.rstrip('/')}/") for m in mounts):
        return []
    return [Mount(directory, target, read_only=True) for directory, target in group.mounts]


def _nothing(_: Exit) -> None:
    pass


def _complain(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (problem := task.exception()) is not None:
        _log.error("node_task_failed", task=task.get_name(), problem=repr(problem))


def _check_values(command: Sequence[str], env: Mapping[str, str], directory: str) -> None:
    """Raise `LaunchError` for what no process can be given."""
    if not command:
        raise LaunchError("no command specified: give the container a command, or its image one")
    if any("\0" in word for word in command):
        raise LaunchError("an argument of the command contains a NUL byte")
    if "\0" in directory:
        raise LaunchError("the working directory contains a NUL byte")
    for name, value in env.items():
        if "\0" in value or "\0" in name:
            raise LaunchError(f"environment variable {name} contains a NUL byte")
