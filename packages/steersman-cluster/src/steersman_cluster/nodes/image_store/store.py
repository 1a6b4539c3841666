"""A directory of imported images, shared by all clusters of a user.

`images.json` maps names to images; `roots/ID` has an image's configuration and root directory. Each change is one
rename under a lock. A node holds a shared lock on the images that it runs, so that they cannot be removed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from steersman_cluster.nodes.image_store.archive import Contents, ImageContents, contents_of, opened, unpacked_layer
from steersman_cluster.nodes.image_store.errors import ImageArchiveError, Limits
from steersman_cluster.nodes.image_store.layers import RootDirectory
from steersman_cluster.nodes.image_store.reference import Reference

__all__ = ["ImageStore", "StoredImage"]

_INDEX: Final = "images.json"
_STALE_SECONDS: Final = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image of the store."""

    name: str
    id: str
    """The digest of its configuration."""
    digest: str
    """The digest of its manifest; empty if the archive had none."""
    imported_at: float
    """Seconds since the epoch."""
    root: Path
    size_bytes: int = 0
    """The size of its unpacked layers."""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict[str, str])
    user: str = ""
    working_dir: str = ""
    stop_signal: str = ""


@dataclass(frozen=True, slots=True)
class _Entry:
    id: str
    digest: str
    imported_at: float


class ImageStore:
    """The images in a directory, which the first import creates."""

    def __init__(self, directory: Path, *, limits: Limits | None = None, now: Callable[[], float] = time.time) -> None:
        self.directory = directory
        self._limits = limits or Limits()
        self._now = now
        self._held: dict[str, int] = {}
        """Descriptors of the root directories in use, by image."""

    def add(self, path: Path, tag: str = "") -> list[StoredImage]:
        """Import the images of an archive or of an OCI layout directory; they replace images with the same names.

        Args:
            path: A file of `docker save` or `buildah push docker-archive:` or `oci-archive:`, or a directory of `oci:`.
            tag: The name of the image; it replaces the names in the archive.

        Raises:
            ImageArchiveError: The archive is damaged, beyond the limits, of another platform, or names no image.
        """
        if not path.exists():
            raise ImageArchiveError(f"{path} does not exist")
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            (self.directory / "roots").mkdir(exist_ok=True, mode=0o700)
            work = Path(tempfile.mkdtemp(prefix=".import-", dir=self.directory))
        except OSError as problem:
            raise ImageArchiveError(f"{self.directory} cannot be written: {problem.strerror}") from None
        try:
            with opened(path, work, self._limits) as contents:
                found = contents_of(contents, str(path), self._limits)
                if tag and len(found) > 1:
                    raise ImageArchiveError(f"{path} has {len(found)} images: one tag cannot name them all")
                added: dict[str, _Entry] = {}
                for image, config in found:
                    names = _names((tag,) if tag else image.names, path)
                    entry = _Entry(self._unpack(contents, image, config, work), image.digest, self._now())
                    added.update(dict.fromkeys(names, entry))
        finally:
            shutil.rmtree(work, ignore_errors=True)
        with self._locked():
            self._write({**self._read(), **added})
            self._collect()
        return [self._stored(name, entry) for name, entry in added.items()]

    def list(self) -> list[StoredImage]:
        """Return all images by name."""
        return [self._stored(name, entry) for name, entry in sorted(self._read().items())]

    def find(self, image: str) -> StoredImage | None:
        """Return the image that a container's `image` names; `None` if it is not in the store."""
        try:
            reference = Reference.parse(image)
        except ValueError:
            return None
        entries = self._read()
        for name in reference.candidates():
            if reference.digest:
                repository = name.rpartition(":")[0]
                for other, entry in entries.items():
                    if other.rpartition(":")[0] == repository and reference.digest in (entry.digest, entry.id):
                        return self._stored(other, entry)
            elif (entry := entries.get(name)) is not None:
                return self._stored(name, entry)
        return None

    def hold(self, image: StoredImage) -> None:
        """Keep the files of an image until `release`. Raises `ImageArchiveError` if they do not exist any more."""
        if image.id in self._held:
            return
        try:
            descriptor = os.open(image.root.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as problem:
            raise ImageArchiveError(f"the files of {image.name} cannot be read: {problem}; import it again") from None
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        self._held[image.id] = descriptor

    def release(self) -> None:
        """End all holds."""
        while self._held:
            os.close(self._held.popitem()[1])

    def remove(self, image: str) -> str:
        """Remove a name, and the image when it has no other; return the name.

        Raises:
            ImageArchiveError: There is no such image, or a running cluster uses it.
        """
        found = self.find(image)
        if found is None:
            raise ImageArchiveError(f"there is no image {image}: `image list` shows all")
        with self._locked():
            entries = self._read()
            entries.pop(found.name, None)
            if not any(entry.id == found.id for entry in entries.values()) and not self._delete(found.root.parent):
                raise ImageArchiveError(f"a running cluster uses {found.name}: stop the cluster first")
            self._write(entries)
        return found.name

    def _unpack(self, contents: Contents, image: ImageContents, config: dict[str, Any], work: Path) -> str:
        """Create the root directory of an image unless it exists; return the digest of its configuration."""
        with contents.open(image.config.path) as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        place = self.directory / "roots" / digest
        if (place / "config.json").is_file():
            os.utime(place)
            return f"sha256:{digest}"
        made = work / digest
        root = made / "rootfs"
        root.mkdir(parents=True, mode=0o755)
        unpacking, left = RootDirectory(root, self._limits), self._limits.unpacked_bytes
        for blob, diff_id in zip(image.layers, config["rootfs"]["diff_ids"], strict=True):
            layer = work / "layer.tar"
            left -= unpacked_layer(contents, blob, str(diff_id), layer, left)
            with layer.open("rb") as file:
                unpacking.add(file, blob.path)
            layer.unlink()
        unpacking.finish()
        settings = {**_settings(config), "size_bytes": self._limits.unpacked_bytes - left}
        (made / "config.json").write_text(json.dumps(settings), "utf-8")
        with suppress(OSError):  # Another import has created it.
            made.rename(place)
        return f"sha256:{digest}"

    def _stored(self, name: str, entry: _Entry) -> StoredImage:
        place = self.directory / "roots" / entry.id.removeprefix("sha256:")
        try:
            settings = json.loads((place / "config.json").read_bytes())
        except (OSError, ValueError):
            raise ImageArchiveError(f"the files of {name} are gone from {place}: import the image again") from None
        settings["entrypoint"], settings["command"] = tuple(settings["entrypoint"]), tuple(settings["command"])
        return StoredImage(name, entry.id, entry.digest, entry.imported_at, place / "rootfs", **settings)

    def _read(self) -> dict[str, _Entry]:
        try:
            text = (self.directory / _INDEX).read_bytes()
            return {name: _Entry(**entry) for name, entry in json.loads(text).items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError) as problem:
            raise ImageArchiveError(
                f"{self.directory / _INDEX} cannot be read: {problem}; delete {self.directory} and import again"
            ) from None

    def _write(self, entries: dict[str, _Entry]) -> None:
        fresh = self.directory / f".{_INDEX}"
        fresh.write_text(json.dumps({name: asdict(entry) for name, entry in entries.items()}), "utf-8")
        fresh.replace(self.directory / _INDEX)

    @contextmanager
    def _locked(self) -> Generator[None]:
        descriptor = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _collect(self) -> None:
        """Delete the images without a name that no cluster uses, and the files of interrupted imports."""
        used = {entry.id.removeprefix("sha256:") for entry in self._read().values()}
        old = self._now() - _STALE_SECONDS
        for place in (self.directory / "roots").iterdir():
            if place.name not in used and place.stat().st_mtime < old:
                self._delete(place)
        for place in self.directory.glob(".import-*"):
            with suppress(FileNotFoundError):
                if place.stat().st_mtime < old:
                    shutil.rmtree(place, ignore_errors=True)

    def _delete(self, place: Path) -> bool:
        """Delete an image's files; false while a cluster uses them."""
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (place / "config.json").unlink(missing_ok=True)
            shutil.rmtree(place, ignore_errors=True)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        return True


def _names(given: tuple[str, ...], path: Path) -> list[str]:
    if not given:
        raise ImageArchiveError(
            f"{path} gives its image no name: name it with --tag, such as --tag example.com/app:1.0"
        )
    try:
        return [Reference.parse(name).name for name in given]
    except ValueError as problem:
        raise ImageArchiveError(f"{path}: {problem}") from None


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of an image's configuration for containers. Raises `ImageArchiveError`."""
    given: Any = config.get("config") or {}
    own: dict[str, Any] = cast(dict[str, Any], given) if isinstance(given, dict) else {}

    def words(name: str) -> list[str]:
        value: Any = own.get(name) or []
        if not isinstance(value, list) or not all(isinstance(word, str) for word in cast(list[Any], value)):
            raise ImageArchiveError(f"config.{name} of the image's configuration is not a list of strings")
        return cast(list[str], value)

    variables = [variable.partition("=") for variable in words("Env")]
    return {
        "entrypoint": words("Entrypoint"),
        "command": words("Cmd"),
        "env": {name: value for name, _, value in variables},
        "user": str(own.get("User") or ""),
        "working_dir": str(own.get("WorkingDir") or ""),
        "stop_signal": str(own.get("StopSignal") or ""),
    }
