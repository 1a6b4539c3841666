"""Reads image archives of `docker save` and `buildah push`: tar files and OCI layout directories.

Source: OCI image layout and image manifest specifications; the `manifest.json` of Docker's image archives.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import platform
import re
import stat
import tarfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Protocol, cast

import zstandard

from steersman_cluster.nodes.image_store.errors import ImageArchiveError, Limits

__all__ = ["Blob", "BoundedReader", "Contents", "ImageContents", "contents_of", "opened", "unpacked_layer"]

_CHUNK_BYTES: Final = 1 << 20
_DIGEST: Final = re.compile(r"(sha256):([0-9a-f]{64})|(sha512):([0-9a-f]{128})")
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
_MAX_INDEXES: Final = 4
_MAX_LINKS: Final = 8
_READ_ERRORS: Final = (tarfile.TarError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError, EOFError, ValueError)


@dataclass(frozen=True, slots=True)
class Blob:
    """A file of the archive, and its expected digest; empty if the archive does not have one."""

    path: str
    digest: str = ""


@dataclass(frozen=True, slots=True)
class ImageContents:
    """One image of an archive."""

    names: tuple[str, ...]
    config: Blob
    layers: tuple[Blob, ...]
    digest: str = ""
    """The digest of the manifest, if there is one."""


class Contents(Protocol):
    """The files of an archive."""

    def has(self, path: str) -> bool:
        """Return whether there is such a file."""
        ...

    def open(self, path: str) -> IO[bytes]:
        """Open a file. Raises `ImageArchiveError`."""
        ...


class BoundedReader:
    """The file that tarfile reads: single reads are bounded, because tarfile reads extended headers in one piece."""

    def __init__(self, file: IO[bytes], max_read_bytes: int) -> None:
        self._file = file
        self._max_read_bytes = max_read_bytes

    def read(self, size: int = -1, /) -> bytes:
        """Read some bytes. Raises `ImageArchiveError` for a size beyond the bound."""
        if size < 0 or size > self._max_read_bytes:
            raise ImageArchiveError("a header of the archive is too large")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Change the position."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def seekable(self) -> bool:
        """Return whether the position can be changed."""
        return self._file.seekable()


class _Directory:
    """An OCI layout directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def has(self, path: str) -> bool:
        return (self._root / path).is_file()

    def open(self, path: str) -> IO[bytes]:
        if path.startswith("/") or ".." in path.split("/"):
            raise ImageArchiveError(f"{path!r} leads out of {self._root}")
        try:
            descriptor = os.open(self._root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as problem:
            raise ImageArchiveError(f"{self._root / path} cannot be read: {problem.strerror}") from None
        file = os.fdopen(descriptor, "rb")
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            file.close()
            raise ImageArchiveError(f"{self._root / path} is not a regular file")
        return file


class _Tar:
    """A tar file, held open."""

    def __init__(self, file: IO[bytes], name: str, limits: Limits) -> None:
        self._name = name
        self._tar = tarfile.open(  # noqa: SIM115 - it is closed with its file
            fileobj=cast(Any, BoundedReader(file, max(limits.document_bytes + 1, _CHUNK_BYTES))), mode="r:"
        )
        self._members: dict[str, tarfile.TarInfo] = {}
        while (member := self._tar.next()) is not None:
            self._members[os.path.normpath(member.name)] = member
            if len(self._members) > limits.members:
                raise ImageArchiveError(f"{name} has more than {limits.members} files: it is not an image archive")

    def _find(self, path: str) -> tarfile.TarInfo | None:
        for _ in range(_MAX_LINKS):
            member = self._members.get(os.path.normpath(path))
            if member is None or member.isreg():
                return member
            if not member.issym() and not member.islnk():
                return None
            within = os.path.dirname(member.name) if member.issym() else ""
            path = os.path.join(within, member.linkname)
        return None

    def has(self, path: str) -> bool:
        return self._find(path) is not None

    def open(self, path: str) -> IO[bytes]:
        member = self._find(path)
        file = self._tar.extractfile(member) if member is not None else None
        if file is None:
            raise ImageArchiveError(f"{self._name} has no file {path}: the archive is incomplete")
        return file


@contextmanager
def opened(path: Path, work: Path, limits: Limits) -> Generator[Contents]:
    """Open an archive or an OCI layout directory; a compressed one is unpacked into `work` first.

    Raises:
        ImageArchiveError: It cannot be read, or is not an image archive.
    """
    if path.is_dir():
        yield _Directory(path)
        return
    try:
        with contextlib.ExitStack() as stack:
            file: IO[bytes] = stack.enter_context(path.open("rb"))
            if _compression(file) != "none":
                _copy(file, work / "archive", limits.unpacked_bytes, str(path))
                file = stack.enter_context((work / "archive").open("rb"))
            yield _Tar(file, str(path), limits)
    except OSError as problem:
        raise ImageArchiveError(f"{problem.filename or path}: {problem.strerror or problem}") from None
    except _READ_ERRORS as problem:
        raise ImageArchiveError(f"{path} is not an image archive, or is damaged: {problem}") from None


def contents_of(contents: Contents, name: str, limits: Limits) -> list[tuple[ImageContents, dict[str, Any]]]:
    """Return the images of an archive with their configurations. Raises `ImageArchiveError`."""
    if contents.has("manifest.json"):
        found = _of_docker(contents, name, limits)
    elif contents.has("index.json"):
        found = list(_of_index(contents, _document(contents, Blob("index.json"), limits), (), limits, 0))
    else:
        raise ImageArchiveError(f"{name} is not an image archive: it has neither manifest.json nor index.json")
    if not found:
        machine = _architecture()
        raise ImageArchiveError(f"{name} has no image for linux/{machine}: export one with --platform linux/{machine}")
    return [(one, _checked_config(_document(contents, one.config, limits), one, name, limits)) for one in found]


def _of_docker(contents: Contents, name: str, limits: Limits) -> list[ImageContents]:
    found: list[ImageContents] = []
    for entry in _list(_json(contents, Blob("manifest.json"), limits)):
        config, layers = entry.get("Config"), entry.get("Layers")
        if not isinstance(config, str) or not isinstance(layers, list):
            raise ImageArchiveError(f"{name}: manifest.json has an entry without Config or Layers")
        blobs = tuple(Blob(str(layer)) for layer in cast(list[Any], layers))
        names = tuple(str(tag) for tag in cast(list[Any], entry.get("RepoTags") or []))
        found.append(ImageContents(names, Blob(config), blobs))
    return found


def _of_index(
    contents: Contents, index: dict[str, Any], names: tuple[str, ...], limits: Limits, depth: int
) -> Generator[ImageContents]:
    if depth > _MAX_INDEXES:
        raise ImageArchiveError("the indexes of the archive are nested too deeply")
    for entry in _list(index.get("manifests")):
        platform_: dict[str, Any] = entry.get("platform") or {}
        if platform_.get("architecture", _architecture()) != _architecture() or platform_.get("os", "linux") != "linux":
            continue
        blob = _blob(entry)
        document = _document(contents, blob, limits)
        own = names or _names(entry.get("annotations") or {})
        if "manifests" in document:
            yield from _of_index(contents, document, own, limits, depth + 1)
        elif "config" in document:
            layers = tuple(_blob(layer) for layer in _list(document.get("layers")))
            yield ImageContents(own, _blob(document["config"]), layers, blob.digest)


def _names(annotations: dict[str, Any]) -> tuple[str, ...]:
    name = annotations.get("io.containerd.image.name") or annotations.get("org.opencontainers.image.ref.name") or ""
    # A name without a repository is the tag of an image without a name.
    return (str(name),) if "/" in str(name) or ":" in str(name) else ()


def _checked_config(config: dict[str, Any], image: ImageContents, name: str, limits: Limits) -> dict[str, Any]:
    architecture, system = config.get("architecture") or _architecture(), config.get("os") or "linux"
    if (architecture, system) != (_architecture(), "linux"):
        raise ImageArchiveError(
            f"{name} is an image for {system}/{architecture}, and this machine runs linux/{_architecture()}"
        )
    rootfs = config.get("rootfs")
    layers: Any = cast(dict[str, Any], rootfs).get("diff_ids") if isinstance(rootfs, dict) else None
    if not isinstance(layers, list) or len(cast(list[Any], layers)) != len(image.layers):
        raise ImageArchiveError(f"{name}: rootfs.diff_ids of the image's configuration do not match its layers")
    if len(image.layers) > limits.layers:
        raise ImageArchiveError(f"{name}: the image has more than {limits.layers} layers")
    return config


def _architecture() -> str:
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def _blob(descriptor: Any) -> Blob:
    digest = str(descriptor.get("digest")) if isinstance(descriptor, dict) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    if _DIGEST.fullmatch(digest) is None:
        raise ImageArchiveError(f"a descriptor of the archive has no valid digest: {digest[:100]!r}")
    return Blob(f"blobs/{digest.replace(':', '/')}", digest)


def _list(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in cast(list[Any], value)):
        raise ImageArchiveError("a list of images or layers of the archive is damaged")
    return cast(list[dict[str, Any]], value)


def _document(contents: Contents, blob: Blob, limits: Limits) -> dict[str, Any]:
    found = _json(contents, blob, limits)
    if not isinstance(found, dict):
        raise ImageArchiveError(f"{blob.path} of the archive is not a JSON object")
    return cast(dict[str, Any], found)


def _json(contents: Contents, blob: Blob, limits: Limits) -> Any:
    with contents.open(blob.path) as file:
        data = file.read(limits.document_bytes + 1)
    if len(data) > limits.document_bytes:
        raise ImageArchiveError(f"{blob.path} of the archive is larger than {limits.document_bytes} bytes")
    _check(blob, hashlib.new(blob.digest.partition(":")[0], data).hexdigest() if blob.digest else "")
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise ImageArchiveError(f"{blob.path} of the archive is not valid JSON") from None


def _check(blob: Blob, found: str) -> None:
    if blob.digest and blob.digest.partition(":")[2] != found:
        raise ImageArchiveError(f"{blob.path} of the archive is damaged: its digest differs from its name")


def unpacked_layer(contents: Contents, blob: Blob, diff_id: str, target: Path, max_bytes: int) -> int:
    """Write a layer as an uncompressed tar file; return its size in bytes.

    Raises:
        ImageArchiveError: It is damaged, differs from its digests, or is larger than `max_bytes`.
    """
    with contents.open(blob.path) as file:
        try:
            digests, size = _copy(file, target, max_bytes, blob.path, blob.digest.partition(":")[0] or "sha256")
        except _READ_ERRORS as problem:
            raise ImageArchiveError(f"the layer {blob.path} is damaged: {problem}") from None
    _check(blob, digests[0])
    if f"sha256:{digests[1]}" != diff_id:
        raise ImageArchiveError(
            f"the layer {blob.path} is damaged: its contents differ from the configuration's digest"
        )
    return size


class _Hashed(io.RawIOBase):
    """A file with the digest of all bytes that have been read."""

    def __init__(self, file: IO[bytes], algorithm: str) -> None:
        super().__init__()
        self._file = file
        self.hash = hashlib.new(algorithm)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        data = self._file.read(len(buffer))
        self.hash.update(data)
        buffer[: len(data)] = data
        return len(data)


def _compression(file: IO[bytes]) -> str:
    first = file.read(4)
    file.seek(0)
    if first.startswith(b"\x1f\x8b"):
        return "gzip"
    return "zstd" if first == b"\x28\xb5\x2f\xfd" else "none"


def _copy(
    file: IO[bytes], target: Path, max_bytes: int, name: str, algorithm: str = "sha256"
) -> tuple[tuple[str, str], int]:
    """Write a file uncompressed; return the digests of it as it is and uncompressed, and the size."""
    compression = _compression(file)
    hashed = _Hashed(file, algorithm)
    source: Any = io.BufferedReader(hashed, _CHUNK_BYTES)
    if compression == "gzip":
        plain: Any = gzip.GzipFile(fileobj=source)
    elif compression == "zstd":
        plain = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(source, read_across_frames=True)
    else:
        plain = source
    size, content = 0, hashlib.sha256()
    with target.open("wb") as out:
        while data := plain.read(_CHUNK_BYTES):
            size += len(data)
            if size > max_bytes:
                raise ImageArchiveError(f"{name} is larger than the limit of {max_bytes} bytes when it is unpacked")
            content.update(data)
            out.write(data)
    while source.read(_CHUNK_BYTES):
        pass
    return (hashed.hash.hexdigest(), content.hexdigest()), size
