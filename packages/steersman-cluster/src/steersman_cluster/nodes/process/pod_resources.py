"""The address, directory and volumes of a Pod, which exist before its containers and until they have ended."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from steersman_cluster.nodes.network.cluster_network import Attachment
from steersman_cluster.nodes.network.resolver import full_name, hosts_file, resolv_conf
from steersman_cluster.nodes.process.api_reader import ApiReader
from steersman_cluster.nodes.process.container_run import Run
from steersman_cluster.nodes.process.environment import ConfigError, Facts, expand
from steersman_cluster.nodes.process.images import ImageError, Images
from steersman_cluster.nodes.process.memory_volumes import MemoryVolumes, is_memory, size_of
from steersman_cluster.nodes.process.payload import TokenRequest, files_of, references_of_volume, tokens_of, write
from steersman_cluster.nodes.process.sandbox import Mount, Op
from steersman_cluster.objects import Object, dig, name_of, namespace_of, uid_of

__all__ = ["MountError", "PodResources"]

_OWNED = ("emptyDir", "persistentVolumeClaim", "ephemeral")
_PAYLOADS = ("configMap", "secret", "downwardAPI", "projected")


class MountError(Exception):
    """The volume cannot be mounted now: FailedMount."""


class PodResources:
    """The resources of one Pod. `directory` is deleted with the Pod; `shared` has the volumes of claims, which stay.

    Without `memory` the volumes of medium Memory are on the disk.
    """

    def __init__(
        self,
        facts: Facts,
        directory: Path,
        shared: Path,
        clock: Callable[[], float],
        images: Images,
        memory: MemoryVolumes | None = None,
    ) -> None:
        self.facts = facts
        self.directory = directory
        self.references: set[tuple[str, str]] = set()
        self.volumes: dict[str, Path] = {}
        self.runs: dict[str, Run] = {}
        self.starts: dict[str, asyncio.Task[None]] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.refreshing: asyncio.Task[None] | None = None
        self.attachment: Attachment | None = None
        """The network namespace of the Pod, or that of its node for a Pod on the host network."""
        self._shared = shared
        self._clock = clock
        self._images = images
        self._memory = memory
        self._in_memory: list[Path] = []
        """The mount points of tmpfs file systems."""
        self._tokens: dict[TokenRequest, tuple[str, float]] = {}

    @property
    def pod(self) -> Object:
        """The Pod."""
        return self.facts.pod

    async def make(self, reader: ApiReader) -> None:
        """Create all volumes; raises `MountError` with the kubelet's message."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for volume in dig(self.pod, "spec", "volumes", default=[]):
            name: str = volume["name"]
            try:
                self.volumes[name] = await self._volume(volume, reader)
                await asyncio.to_thread(self._own, volume)
            except (ConfigError, ValueError, OSError) as problem:
                raise MountError(f'MountVolume.SetUp failed for volume "{name}" : {problem}') from None

    @property
    def _fs_group(self) -> int | None:
        """Return the group of the Pod's volumes, if this node can set it."""
        return dig(self.pod, "spec", "securityContext", "fsGroup") if os.geteuid() == 0 else None

    def _own(self, volume: Object) -> None:
        """Set the group of a writable volume to the Pod's `fsGroup`, for the same types of volumes as the kubelet."""
        group = self._fs_group
        top = self.volumes[volume["name"]]
        if group is None or top in self._in_memory or not any(kind in volume for kind in _OWNED):
            return
        policy = dig(self.pod, "spec", "securityContext", "fsGroupChangePolicy")
        if policy == "OnRootMismatch" and top.stat().st_gid == group:
            return
        for directory, _, files in os.walk(top):
            os.chown(directory, -1, group)
            os.chmod(directory, os.stat(directory).st_mode & 0o7777 | 0o2770)  # noqa: S103 - as the kubelet does
            for path in (os.path.join(directory, name) for name in files):
                os.chown(path, -1, group, follow_symlinks=False)
                if not os.path.islink(path):
                    os.chmod(path, os.stat(path).st_mode & 0o7777 | 0o660)

    async def refresh(self, reader: ApiReader) -> None:
        """Update the files of volumes; a volume with a missing object keeps its files."""
        for volume in dig(self.pod, "spec", "volumes", default=[]):
            if any(kind in volume for kind in _PAYLOADS):
                try:
                    await self._payload(volume, reader)
                except ConfigError:
                    continue

    @property
    def renew_at(self) -> float | None:
        """Return the time at which the first token must be renewed; `None` without tokens."""
        return min((at for _, at in self._tokens.values()), default=None)

    async def _volume(self, volume: Object, reader: ApiReader) -> Path:
        if any(kind in volume for kind in _PAYLOADS):
            return await self._payload(volume, reader)
        if is_memory(volume) and self._memory is not None:
            return await self._in_tmpfs(volume, self._memory)
        if "emptyDir" in volume:
            return _open_directory(self.directory / "volumes" / volume["name"])
        if "hostPath" in volume:
            return _host_path(volume["hostPath"])
        if "image" in volume:
            return self._image(volume["image"].get("reference") or "")
        if "persistentVolumeClaim" in volume:
            return await self._claim(volume["persistentVolumeClaim"].get("claimName") or "", reader)
        if "ephemeral" in volume:
            return await self._claim(f"{name_of(self.pod)}-{volume['name']}", reader)
        kind = next((key for key in volume if key != "name"), "empty")
        raise ConfigError(f"volumes of kind {kind} are not known to nodes of kind process")

    async def _in_tmpfs(self, volume: Object, memory: MemoryVolumes) -> Path:
        directory = _open_directory(self.directory / "volumes" / volume["name"])
        if directory not in self._in_memory:
            group = self._fs_group
            size = size_of(volume, self.pod.get("spec") or {}, self.facts.allocatable)
            mode = 0o777 if group is None else 0o2777
            await memory.mount(directory, size=size, mode=mode, group=group)
            self._in_memory.append(directory)
        return directory

    def _visible(self, path: Path) -> Path:
        """Return the path under which this process sees a path of the Pod's volumes."""
        if self._memory is not None and any(path.is_relative_to(directory) for directory in self._in_memory):
            return self._memory.visible(path)
        return path

    def visible(self, ops: Sequence[Op]) -> list[Op]:
        """Return the steps of a plan with the sources under which this process sees them."""
        if not self._in_memory:
            return list(ops)
        binds = ("bind", "ro-bind")
        return [replace(op, source=str(self._visible(Path(op.source)))) if op.what in binds else op for op in ops]

    def _image(self, reference: str) -> Path:
        try:
            root = self._images.find(reference).root
        except ImageError as problem:
            raise ConfigError(str(problem)) from None
        if root is None:
            raise ConfigError(f"image {reference!r} has no root directory on this machine: map it to one with root:")
        return root

    async def _payload(self, volume: Object, reader: ApiReader) -> Path:
        wanted = references_of_volume(volume)
        self.references |= wanted
        found = await reader.objects(namespace_of(self.pod), wanted)
        tokens = {request: await self._token(request, reader) for request in tokens_of(volume)}
        directory = self.directory / "volumes" / volume["name"]
        write(directory, files_of(volume, self.facts, found, tokens), group=self._fs_group)
        return directory

    async def _token(self, request: TokenRequest, reader: ApiReader) -> str:
        known = self._tokens.get(request)
        now = self._clock()
        if known is not None and now < known[1]:
            return known[0]
        token = await reader.token(self.pod, request)
        self._tokens[request] = (token, now + 0.8 * request.seconds)
        return token

    async def _claim(self, name: str, reader: ApiReader) -> Path:
        claim = await reader.get(f"/api/v1/namespaces/{namespace_of(self.pod)}/persistentvolumeclaims/{name}")
        if claim is None:
            raise ConfigError(f'persistentvolumeclaim "{name}" not found')
        volume_name = dig(claim, "spec", "volumeName", default="")
        if not volume_name:
            raise ConfigError(f'persistentvolumeclaim "{name}" is not bound')
        volume = await reader.get(f"/api/v1/persistentvolumes/{volume_name}") or {}
        path = dig(volume, "spec", "hostPath", "path") or dig(volume, "spec", "local", "path")
        if path:
            return _open_directory(Path(path))
        return _open_directory(self._shared / f"{volume_name}-{uid_of(claim)[:8]}")

    def mounts(self, container: Object, env: dict[str, str]) -> list[Mount]:
        """Return the mounts of a container; raises `ConfigError` for a `subPath` outside its volume."""
        kinds = {v["name"]: v for v in dig(self.pod, "spec", "volumes", default=[])}
        found: list[Mount] = []
        for mount in container.get("volumeMounts") or ():
            name: str = mount["name"]
            source = self.volumes[name]
            payload = any(kind in kinds.get(name, {}) for kind in _PAYLOADS)
            image = "image" in kinds.get(name, {})
            sub: str = mount.get("subPath") or expand(mount.get("subPathExpr") or "", env)
            if sub:
                if ".." in sub.split("/") or sub.startswith("/"):
                    raise ConfigError(f'invalid subPath "{sub}" of volume "{name}"')
                source = source / sub
                if payload:
                    source = source.resolve()
                elif image and (source.is_symlink() or not source.is_dir()):
                    raise ConfigError(f'subPath "{sub}" is not a directory of the image volume "{name}"')
                elif not (seen := self._visible(source)).exists():
                    _open_directory(seen)
            claim: Object = kinds.get(name, {}).get("persistentVolumeClaim") or {}
            read_only = payload or image or bool(mount.get("readOnly")) or bool(claim.get("readOnly"))
            found.append(Mount(source, mount["mountPath"], read_only))
        return found

    def hosts_file(self) -> Path:
        """Write the Pod's /etc/hosts, with its name and its aliases, and return the path."""
        path = self.directory / "hosts"
        path.write_text(hosts_file(self.pod, self.facts.ip, self.hostname, _text_of(Path("/etc/hosts"))))
        return path

    def resolv_conf(self) -> Path:
        """Write the Pod's /etc/resolv.conf and return the path."""
        path = self.directory / "resolv.conf"
        path.write_text(resolv_conf(self.pod, _text_of(Path("/etc/resolv.conf"))))
        return path

    @property
    def namespaces(self) -> list[int]:
        """The descriptors of the namespaces that the Pod's processes enter first: of its network and its volumes."""
        found: list[int] = []
        if self.attachment is not None:
            user = self.attachment.user
            found += [*([user] if user is not None else []), self.attachment.namespace]
        if self._memory is not None and self._in_memory:
            found += self._memory.namespaces
        return found

    def sysctls(self, *, network: bool) -> dict[str, str]:
        """Return the Pod's kernel parameters by their paths below /proc/sys.

        Args:
            network: Whether the Pod has a network namespace: without one, parameters of the network are the machine's.
        """
        values = {
            str(one["name"]).replace(".", "/"): str(one["value"])
            for one in dig(self.pod, "spec", "securityContext", "sysctls", default=[])
        }
        return {path: value for path, value in values.items() if network or not path.startswith("net/")}

    @property
    def hostname(self) -> str:
        """Return the host name of the Pod."""
        name = (dig(self.pod, "spec", "hostname") or name_of(self.pod))[:63]
        return (dig(self.pod, "spec", "setHostnameAsFQDN") and full_name(self.pod)) or name

    async def remove(self) -> None:
        """Delete the directory of the Pod; volumes of claims stay."""
        while self._memory is not None and self._in_memory:
            await self._memory.unmount(self._in_memory.pop())
        await asyncio.to_thread(shutil.rmtree, self.directory, ignore_errors=True)


def _open_directory(path: Path) -> Path:
    if not path.exists():
        path.mkdir(parents=True)
        path.chmod(0o777)
    return path


def _text_of(path: Path) -> str:
    """Return the text of a file of the machine; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _host_path(source: Object) -> Path:
    path, kind = Path(source["path"]), source.get("type") or ""
    if kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    elif kind == "FileOrCreate" and not path.exists():
        path.touch()
    if not os.path.exists(path):
        raise ConfigError(f"hostPath type check failed: {path} does not exist")
    if (kind == "Directory" and not path.is_dir()) or (kind == "File" and not path.is_file()):
        raise ConfigError(f"hostPath type check failed: {path} is not a {kind.lower()}")
    return path
