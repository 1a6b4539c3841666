"""Unpacks the layers of an image into a root directory: whiteouts, links, modes and owners; nothing outside of it.

Source: the layer format of the OCI image specification.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, cast

from steersman_cluster.nodes.image_store.archive import BoundedReader
from steersman_cluster.nodes.image_store.errors import ImageArchiveError, Limits

__all__ = ["RootDirectory"]

_CHUNK_BYTES: Final = 1 << 18
_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_XATTR: Final = "SCHILY.xattr."
_MAX_LINKS: Final = 40
_MAX_ID: Final = (1 << 32) - 2


@dataclass(frozen=True, slots=True)
class _Attributes:
    """Mode and time of a directory, which are set when all layers are unpacked."""

    mode: int
    modified: float


class RootDirectory:
    """A root directory that is unpacked from layers. Only as root, files have the owners that the layers name."""

    def __init__(self, root: Path, limits: Limits) -> None:
        self._root = root.resolve()
        self._limits = limits
        self._as_root = os.geteuid() == 0
        self._entries = 0
        self._bytes = 0
        self._directories: dict[Path, _Attributes] = {}

    def add(self, layer: IO[bytes], name: str) -> None:
        """Unpack a layer, an uncompressed tar file, above those before. Raises `ImageArchiveError`."""
        made: set[Path] = set()
        try:
            reader: Any = BoundedReader(layer, self._limits.header_bytes)
            with tarfile.open(fileobj=reader, mode="r:") as tar:
                while (member := tar.next()) is not None:
                    cast(Any, tar).members.clear()  # tarfile would keep all entries in memory.
                    self._entries += 1
                    if self._entries > self._limits.entries:
                        raise ImageArchiveError(f"the image has more than {self._limits.entries} files")
                    self._add(tar, member, made)
        except tarfile.ReadError as problem:
            if self._entries or "empty" not in str(problem):
                raise ImageArchiveError(f"the layer {name} is damaged: {problem}") from None
        except (tarfile.TarError, ValueError) as problem:
            raise ImageArchiveError(f"the layer {name} is damaged: {problem}") from None
        except OSError as problem:
            raise ImageArchiveError(f"the layer {name} cannot be unpacked: {problem}") from None

    def finish(self) -> None:
        """Set the modes of directories, the deepest first; until then all of them can be written to."""
        for path, attributes in sorted(self._directories.items(), key=lambda item: -len(item[0].parts)):
            # A later layer can have replaced it, or a directory above it, by a link to another place.
            if os.path.realpath(path) != str(path) or not path.is_dir():
                continue
            path.chmod(attributes.mode if self._as_root else attributes.mode | stat.S_IRWXU)
            os.utime(path, (attributes.modified, attributes.modified))

    def _add(self, tar: tarfile.TarFile, member: tarfile.TarInfo, made: set[Path]) -> None:
        parts = _parts(member.name)
        if not parts:
            if member.isdir():
                self._directories[self._root] = _attributes(member)
            return
        path = self._parent(parts) / parts[-1]
        if path.name.startswith(_WHITEOUT):
            self._white_out(path, made)
            return
        if member.isdir():
            self._make_directory(path, member)
        elif member.isreg() or member.issym() or member.islnk() or member.isfifo():
            self._replace(tar, member, path)
        else:
            return  # A device: each container has a private /dev.
        made.add(path)
        made.update(parent for parent in path.parents if parent != self._root and parent.is_relative_to(self._root))

    def _white_out(self, path: Path, made: set[Path]) -> None:
        if path.name == _OPAQUE:
            for entry in path.parent.iterdir():
                self._remove_below(entry, made)
            return
        name = path.name.removeprefix(_WHITEOUT)
        if name.startswith(_WHITEOUT):
            return  # Metadata of the storage driver that wrote the layer.
        if name in ("", ".", ".."):
            raise ImageArchiveError(f"{path.name!r} is not a valid whiteout: the image cannot be imported")
        self._remove_below(path.parent / name, made)

    def _remove_below(self, path: Path, made: set[Path]) -> None:
        """Delete the files of lower layers at a path; files of this layer stay."""
        if path not in made:
            _remove(path)
        elif path.is_dir() and not path.is_symlink():
            for entry in path.iterdir():
                self._remove_below(entry, made)

    def _make_directory(self, path: Path, member: tarfile.TarInfo) -> None:
        if not stat.S_ISDIR(_mode(path)):
            _remove(path)
            path.mkdir(mode=0o700)
        self._own(path, member)
        self._directories[path] = _attributes(member)

    def _replace(self, tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
        if member.islnk():
            parts = _parts(member.linkname)
            source = self._parent(parts) / parts[-1] if parts else self._root
            if source == path:
                return
            if stat.S_ISDIR(_mode(source)) or not _mode(source):
                raise ImageArchiveError(f"{member.name} is a hard link to {member.linkname}, which is not a file")
            _remove(path)
            os.link(source, path, follow_symlinks=False)
            return
        _remove(path)
        if member.issym():
            os.symlink(member.linkname, path)
            self._own(path, member)
            return
        if member.isfifo():
            os.mkfifo(path, 0o600)
        else:
            self._write(tar, member, path)
        self._own(path, member)
        mode = stat.S_IMODE(member.mode)
        path.chmod(mode if self._as_root else mode | stat.S_IRUSR)
        self._set_attributes(path, member)
        os.utime(path, (_time(member), _time(member)))

    def _write(self, tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
        self._bytes += member.size
        if member.size < 0 or self._bytes > self._limits.unpacked_bytes:
            raise ImageArchiveError(f"the image's files have more than {self._limits.unpacked_bytes} bytes")
        source = tar.extractfile(member)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as target:
            while source is not None and (data := source.read(_CHUNK_BYTES)):
                target.write(data)

    def _own(self, path: Path, member: tarfile.TarInfo) -> None:
        if not self._as_root:
            return
        if not (0 <= member.uid <= _MAX_ID and 0 <= member.gid <= _MAX_ID):
            raise ImageArchiveError(f"{member.name} has an owner that does not exist: {member.uid}:{member.gid}")
        os.lchown(path, member.uid, member.gid)

    def _set_attributes(self, path: Path, member: tarfile.TarInfo) -> None:
        capability = member.pax_headers.get(f"{_XATTR}security.capability")
        if capability is not None and self._as_root:
            with suppress(OSError):  # The file system does not support them.
                os.setxattr(path, "security.capability", capability.encode("utf-8", "surrogateescape"))

    def _parent(self, parts: list[str]) -> Path:
        """Return the directory of an entry; links above it are resolved within the root directory."""
        here: list[str] = []
        waiting, links = parts[:-1], 0
        while waiting:
            part = waiting.pop(0)
            if part == "..":
                here = here[:-1]
                continue
            path = self._root.joinpath(*here, part)
            mode = _mode(path)
            if stat.S_ISLNK(mode):
                links += 1
                target = os.readlink(path)
                here = [] if target.startswith("/") else here
                waiting = [*(one for one in target.split("/") if one not in ("", ".")), *waiting]
            elif mode and not stat.S_ISDIR(mode):
                raise ImageArchiveError(f"{'/'.join(parts)} lies below {part}, which is not a directory")
            else:
                if not mode:
                    path.mkdir(mode=0o700)
                    self._directories[path] = _Attributes(0o755, 0.0)
                here.append(part)
            if links > _MAX_LINKS or len(here) + len(waiting) > self._limits.depth:
                raise ImageArchiveError(f"{'/'.join(parts)[:200]} has too many links or directories above it")
        return self._root.joinpath(*here)


def _parts(name: str) -> list[str]:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ImageArchiveError(f"{name!r} leads out of the image: the image cannot be imported")
    return parts


def _mode(path: Path) -> int:
    """Return the type and mode of a file, links not followed; 0 where there is none."""
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return 0


def _remove(path: Path) -> None:
    mode = _mode(path)
    if stat.S_ISDIR(mode):
        shutil.rmtree(path)
    elif mode:
        path.unlink()


def _attributes(member: tarfile.TarInfo) -> _Attributes:
    return _Attributes(stat.S_IMODE(member.mode), _time(member))


def _time(member: tarfile.TarInfo) -> float:
    return min(max(float(member.mtime), 0.0), float(1 << 33))
