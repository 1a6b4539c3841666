"""The mapping of images to local commands: a YAML file, or images that were imported into a store.

    images:
      nginx:                                  # any tag; "nginx:1.29" matches only that tag
        command: [python3, -m, http.server]   # the image's entry point
        args: ["8080"]                        # its default arguments
        workingDir: ./site                    # relative to this file
        env: {MODE: development}
      ghcr.io/acme/*: {root: ./rootfs}        # patterns; `root` is a directory that becomes the container's /

The `command` and `args` of a container replace those of the image, as in Kubernetes. The image `steersman.dev/host` is
always available: it is the machine itself, without a command. The file is read again when it has changed. The stores
are searched for images that the file does not map.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, cast

import yaml

from steersman import documents
from steersman_cluster.nodes.image_store import ImageArchiveError, ImageStore, StoredImage

__all__ = ["HOST_IMAGE", "Image", "ImageError", "Images", "names_of"]

HOST_IMAGE: Final = "steersman.dev/host"
_KEYS: Final = {"command", "args", "workingDir", "env", "root"}


class ImageError(Exception):
    """The image is not mapped, or the file cannot be read; the message names the solution."""


@dataclass(frozen=True, slots=True)
class Image:
    """The command, environment and root directory of an image on this machine."""

    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    root: Path | None = None
    """The root directory of the container; `None` for that of the machine."""
    env: dict[str, str] = field(default_factory=dict[str, str])
    user: str = ""
    """User and group, as numbers or names of the image; empty for root."""
    stop_signal: int = signal.SIGTERM


def names_of(image: str) -> list[str]:
    """Return the names that can map an image, the most specific first."""
    bare = image.split("@", 1)[0]
    untagged = re.sub(r":[^:/]+$", "", bare)
    names = [image, bare, untagged]
    for name in (bare, untagged):
        names += [name.removeprefix(p) for p in ("docker.io/library/", "docker.io/") if name.startswith(p)]
    return list(dict.fromkeys(names))


class Images:
    """The mapping of the file, the images of the stores, and `steersman.dev/host`."""

    def __init__(self, path: Path | None, stores: Sequence[ImageStore] = ()) -> None:
        self._path = path
        self._stores = tuple(stores)
        self._read_at: float | None = None
        self._images: dict[str, Image] = {}

    def find(self, image: str) -> Image:
        """Return the image of that name; raises `ImageError`."""
        self._refresh()
        names = names_of(image)
        for name in names:
            if name in self._images:
                return self._images[name]
        for pattern, found in self._images.items():
            if any(c in pattern for c in "*?[") and any(fnmatchcase(name, pattern) for name in names):
                return found
        if HOST_IMAGE in names:
            return Image()
        if (stored := self._stored(image)) is not None:
            return stored
        where = f"{self._path}" if self._path is not None else "the file given as images="
        raise ImageError(
            f"image {image!r} is not mapped to anything on this machine: import it with "
            f"`steersman cluster image import`, or add it under images: in {where}, with a command "
            f"or a root directory (or use {HOST_IMAGE})"
        )

    def close(self) -> None:
        """Release the stored images that containers have used."""
        for store in self._stores:
            store.release()

    def _stored(self, image: str) -> Image | None:
        try:
            for store in self._stores:
                if (found := store.find(image)) is not None:
                    store.hold(found)
                    return _of_store(found)
        except ImageArchiveError as problem:
            raise ImageError(str(problem)) from None
        return None

    def _refresh(self) -> None:
        if self._path is None:
            return
        try:
            changed = self._path.stat().st_mtime
            if changed == self._read_at:
                return
            content: Any = documents.load(self._path.read_text("utf-8"))
        except FileNotFoundError:
            self._images = {}
            return
        except (OSError, yaml.YAMLError) as problem:
            raise ImageError(f"{self._path} cannot be read: {problem}") from None
        self._images = _parse(content, self._path)
        self._read_at = changed


def _of_store(image: StoredImage) -> Image:
    name = image.stop_signal.upper()
    known = {**signal.Signals.__members__, **{str(one.value): one for one in signal.Signals}}
    stop_signal = known.get(name) or known.get(f"SIG{name}") or signal.SIGTERM
    return Image(
        image.entrypoint, image.command, image.working_dir, image.root, dict(image.env), image.user, stop_signal
    )


def _parse(content: Any, path: Path) -> dict[str, Image]:
    entries = cast(Any, content or {}).get("images") if isinstance(content or {}, dict) else None
    if not isinstance(entries, dict):
        raise ImageError(f"{path}: it has to be a map with images: at the top")
    found: dict[str, Image] = {}
    for name, entry in cast(dict[str, Any], entries).items():
        if not isinstance(entry, dict | list):
            raise ImageError(f"{path}: images.{name} has to be a map or a command (a list)")
        fields = cast(dict[str, Any], {"command": entry} if isinstance(entry, list) else entry)
        if unknown := sorted(fields.keys() - _KEYS):
            raise ImageError(f"{path}: images.{name} has unknown fields {', '.join(unknown)}")
        root = (path.parent / str(fields["root"])).resolve() if fields.get("root") else None
        if root is not None and not root.is_dir():
            raise ImageError(f"{path}: images.{name}.root: {root} is no directory")
        directory = str(fields.get("workingDir") or "")
        if directory and root is None:
            directory = str((path.parent / directory).resolve())
        found[str(name)] = Image(
            _words(fields.get("command"), f"{path}: images.{name}.command"),
            _words(fields.get("args"), f"{path}: images.{name}.args"),
            directory,
            root,
            {str(k): str(v) for k, v in cast(dict[str, Any], fields.get("env") or {}).items()},
        )
    return found


def _words(value: Any, where: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ImageError(f"{where} has to be a list of strings")
    return tuple(str(word) for word in cast(list[Any], value))
