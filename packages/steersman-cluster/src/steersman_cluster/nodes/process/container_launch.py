"""The start of a container: its environment, its files, its control groups, and its process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from steersman_cluster.nodes.agent import Agent
from steersman_cluster.nodes.network.cluster_network import ClusterNetwork
from steersman_cluster.nodes.node_pod import NodePod
from steersman_cluster.nodes.process import cleanup
from steersman_cluster.nodes.process.api_reader import ApiReader
from steersman_cluster.nodes.process.cgroups import CGROUP_MOUNT, ContainerGroup, NodeGroups, limits_of
from steersman_cluster.nodes.process.command import DEFAULT_PATH, Identity, Sandbox
from steersman_cluster.nodes.process.container_run import Run
from steersman_cluster.nodes.process.environment import (
    command_of,
    environment_of,
    references_of,
    service_variables,
)
from steersman_cluster.nodes.process.identity import account_of, accounts, groups_of, identity_of
from steersman_cluster.nodes.process.images import Image, Images
from steersman_cluster.nodes.process.logfile import LogFile
from steersman_cluster.nodes.process.path_lookup import LaunchError, check_command
from steersman_cluster.nodes.process.pod_resources import PodResources
from steersman_cluster.nodes.process.processes import Exit, spawn
from steersman_cluster.nodes.process.roots import (
    Layer,
    copy_root,
    lay_out,
    make_directory,
    named_paths,
    node_paths,
)
from steersman_cluster.nodes.process.sandbox import Mode, Mount, overlays_work, plan, real, sandbox_of
from steersman_cluster.objects import Object, dig

__all__ = ["ContainerLauncher", "check_values"]

_TERMINATION_LOG: Final = "/dev/termination-log"


class ContainerLauncher:
    """Starts the containers of a node."""

    def __init__(
        self,
        agent: Agent,
        images: Images,
        data: Path,
        mode: Mode,
        mark: str,
        reader: ApiReader,
        server: tuple[str, int],
        network: ClusterNetwork | None,
    ) -> None:
        """Prepare to start containers.

        Args:
            agent: Has the clock.
            images: The known images.
            data: The directory of the node.
            mode: How containers are separated.
            mark: The value of the environment variable that marks the processes of the node.
            reader: Reads the objects that a container refers to.
            server: The address and port of the API server for the containers.
            network: The network of the Pods; `None` if they share the network of the machine.
        """
        self.groups: NodeGroups | None = None
        """The control groups of the node, if it can create them."""
        self._agent = agent
        self._images = images
        self._data = data
        self._mode: Mode = mode
        self._mark = mark
        self._reader = reader
        self._server = server
        self._network = network
        self._overlays: bool | None = None
        """Whether writable layers above images work on this machine; `None` before the first test."""

    async def launch(
        self,
        node_pod: NodePod,
        resources: PodResources,
        spec: Object,
        attempt: int,
        on_exit: Callable[[Run], None],
    ) -> Run:
        """Start a container.

        Args:
            node_pod: The Pod.
            resources: The resources of the Pod; the run is added to them.
            spec: The spec of the container.
            attempt: The number of the run.
            on_exit: Called when the process has ended, unless another run has replaced this one.

        Raises:
            ImageError: The image is not known.
            ConfigError: A reference does not exist, or a value of the spec is invalid.
            LaunchError: The container does not have its command.
            OSError: The process cannot be started.
            ClientError: The API server did not respond.
        """
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
        env = {**base, **environment_of(spec, resources.facts, references, services, image), cleanup.MARK: self._mark}
        command = command_of(spec, image, env)
        directory = spec.get("workingDir") or image.working_dir or "/"
        check_values(command, env, directory)
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
                on_exit(run)

        with ExitStack() as undo:
            if self.groups is not None:
                group = self.groups.add(f"{node_pod.uid}-{spec['name']}-{attempt}", limits_of(spec))
                undo.callback(group.remove)
            if self._mode == "plain":
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
        """Return the home directory of a container's user: that of the image's /etc/passwd, or a private directory."""
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
        """Create the files of a container without a root directory of its own; returns its working directory."""
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
        """Return the sandbox of a container: a writable layer above its image, or else a copy of the image."""
        extra = [
            Mount(message_file, spec.get("terminationMessagePath") or _TERMINATION_LOG),
            Mount(resources.hosts_file(), "/etc/hosts"),
        ]
        if self._network is not None:
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
        sysctls = resources.sysctls(network=self._network is not None)
        if layer is None:
            return sandbox_of(self._mode, ops, resources.hostname, place, sysctls=sysctls)
        return sandbox_of(self._mode, layer.above(ops), resources.hostname, place, layer.directories, sysctls)

    async def _has_overlays(self) -> bool:
        if self._overlays is None:
            self._overlays = await asyncio.to_thread(overlays_work, self._mode, self._data)
        return self._overlays


def _group_mounts(group: ContainerGroup | None, mounts: Sequence[Mount]) -> list[Mount]:
    """Return the mounts of a container's control groups, except at mount points of volumes."""
    if group is None or any(f"{CGROUP_MOUNT}/".startswith(f"{m.target.rstrip('/')}/") for m in mounts):
        return []
    return [Mount(directory, target, read_only=True) for directory, target in group.mounts]


def check_values(command: Sequence[str], env: Mapping[str, str], directory: str) -> None:
    """Raise `LaunchError` for arguments, variables or a directory that the kernel does not accept."""
    if not command:
        raise LaunchError("no command specified: give the container a command, or its image one")
    if any("\0" in word for word in command):
        raise LaunchError("an argument of the command contains a NUL byte")
    if "\0" in directory:
        raise LaunchError("the working directory contains a NUL byte")
    for name, value in env.items():
        if "\0" in value or "\0" in name:
            raise LaunchError(f"environment variable {name} contains a NUL byte")
