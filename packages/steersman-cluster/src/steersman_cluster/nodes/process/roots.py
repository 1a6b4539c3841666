"""The files of a container's root directory: those of its image, or those of the machine."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from steersman_cluster.nodes.process.images import Image
from steersman_cluster.nodes.process.path_lookup import LaunchError
from steersman_cluster.nodes.process.processes import spawn
from steersman_cluster.nodes.process.sandbox import PRIVATE_PATHS, Mount, Op, real

__all__ = ["Layer", "copy_root", "lay_out", "make_directory", "named_paths", "node_paths"]

_MADE_IN_THE_SANDBOX: Final = {"proc", "dev", "tmp"}


def node_paths() -> list[str]:
    """Return the directories of this Python and of `PATH` that are below the temporary directory."""
    programs = os.environ.get("PATH", "").split(os.pathsep)
    return _outermost(sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path, os.getcwd(), *programs)


def named_paths(image: Image) -> list[str]:
    """Return the files of an image's command that are below the temporary directory, and their directories."""
    words = [word for word in (*image.command, *image.args) if word.startswith("/")]
    return _outermost(*(os.path.dirname(word) if os.path.isfile(word) else word for word in words))


def _outermost(*paths: str) -> list[str]:
    """Return the paths below the private directories of containers, without paths within another of them."""
    found = {path for path in map(os.path.abspath, filter(None, paths)) if path.startswith(PRIVATE_PATHS)}
    there = {path for path in found if os.path.isdir(path) and path.rstrip("/") not in ("/dev/shm", "/dev/pts")}  # noqa: S108
    return sorted(path for path in there if not any(path.startswith(f"{other}/") for other in there))


@dataclass(frozen=True, slots=True)
class Layer:
    """The writable layer of one run of a container above its image's root directory (overlayfs)."""

    lower: Path
    directory: Path

    @classmethod
    def make(cls, lower: Path, directory: Path) -> Layer:
        """Create an empty layer and delete the files of an earlier run."""
        shutil.rmtree(directory, ignore_errors=True)
        for name in ("upper", "work", "merged"):
            (directory / name).mkdir(parents=True)
        return cls(lower, directory)

    @property
    def directories(self) -> list[str]:
        """The lower, upper, work and merged directories."""
        return [str(self.lower), *(str(self.directory / name) for name in ("upper", "work", "merged"))]

    def above(self, ops: Sequence[Op]) -> list[Op]:
        """Return the steps of a plan for the image with the merged directory in the image's place."""
        merged = self.directory / "merged"

        def moved(source: str) -> str:
            path = Path(source)
            return str(merged / path.relative_to(self.lower)) if path.is_relative_to(self.lower) else source

        return [replace(op, source=moved(op.source)) if op.what in ("bind", "ro-bind") else op for op in ops]

    def new_directory(self) -> Path:
        """Create a directory that the image does not contain, such as the working directory."""
        path = self.directory / "made"
        path.mkdir(exist_ok=True)
        return path


async def copy_root(source: Path, target: Path) -> Path:
    """Copy an image's root directory for one run of a container; raises `LaunchError`."""
    entries = _begin(source, target)
    if not entries:
        return target
    said = bytearray()
    # Keeps modes, owners, links and sparse files, and shares blocks if the file system can.
    command = ["cp", "-a", "--", *entries, str(target)]
    copying = await spawn(
        command, dict(os.environ), "/", on_output=lambda _, data: said.extend(data), on_exit=lambda _: None
    )
    try:
        code, _ = await copying.wait()
    finally:
        copying.kill()
    if code:
        raise LaunchError(f"the image's root directory {source} cannot be copied: {said.decode(errors='replace')}")
    return target


def _begin(source: Path, target: Path) -> list[str]:
    """Create an empty target; return the paths to copy into it."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in _MADE_IN_THE_SANDBOX:
        if (source / name).is_dir():
            (target / name).mkdir()
    return [str(entry) for entry in sorted(source.iterdir()) if entry.name not in _MADE_IN_THE_SANDBOX]


def make_directory(root: Path, directory: str) -> None:
    """Create a container's working directory in its copy of the image, as container runtimes do."""
    (root / real(root, directory).lstrip("/")).mkdir(parents=True, exist_ok=True)


def lay_out(root: Path, mounts: Sequence[Mount]) -> Path:
    """Create a private tree of links in place of mounts, and return its root."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    for mount in sorted(mounts, key=lambda m: m.target.count("/")):
        target = root / mount.target.lstrip("/")
        if not target.parent.exists():
            target.parent.mkdir(parents=True)
        if not target.exists():
            target.symlink_to(mount.source)
    return root
