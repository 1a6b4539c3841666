"""buildah with a storage of its own, and the archives of images; both have a bounded size."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.node.commands import CACHE, run

STORAGE_MAX_BYTES = 6 * 10**9
"""Twice the layers of all current images."""
ARCHIVES_MAX_BYTES = 8 * 10**9
"""Twice the archives of all current images."""
_PART_PREFIX = ".building-"


@dataclass(frozen=True)
class Buildah:
    """buildah with a storage below a directory, so that the storage of the host stays as it is."""

    home: Path
    env: Mapping[str, str]

    def __call__(self, *words: str | Path) -> str:
        """Run buildah and return its output; a failure shows its messages."""
        return run("buildah", *words, env=self.env, isolated=True)

    def has(self, name: str) -> bool:
        """Return whether the storage has an image."""
        return bool(self("images", "--quiet", "--filter", f"reference={name}").strip())

    def remove_other_tags(self, name: str) -> None:
        """Take the other names of its repository from the images that have them."""
        repository, _, tag = name.rpartition(":")
        for other in self("images", "--format", "{{.Tag}}", "--filter", f"reference={repository}").split():
            if other != tag:
                self("rmi", f"{repository}:{other}")

    def prune(self, max_bytes: int = STORAGE_MAX_BYTES) -> None:
        """Delete the containers of former builds, and the images that have neither a name nor a descendant.

        Args:
            max_bytes: If the layers of the other images are larger, these are deleted, too.
        """
        self("rm", "--all")
        self("rmi", "--prune", "--force")
        if self._layer_bytes() > max_bytes:
            self("rmi", "--all", "--force")

    def _layer_bytes(self) -> int:
        layers = self.home / "graph/overlay-layers/layers.json"
        return sum(layer.get("diff-size", 0) for layer in json.loads(layers.read_bytes())) if layers.exists() else 0


def buildah(home: Path = CACHE / "containers") -> Buildah:
    """Return buildah, configured; its storage is below `home`."""
    assert shutil.which("buildah"), "apt-get install --no-install-recommends buildah"
    home.mkdir(parents=True, exist_ok=True)
    configuration = home / "storage.conf"
    configuration.write_text(
        f'[storage]\ndriver = "overlay"\nrunroot = "{home / "run"}"\ngraphroot = "{home / "graph"}"\n'
    )
    names = {"BUILDAH_ISOLATION": "chroot", "CONTAINERS_STORAGE_CONF": str(configuration)}
    return Buildah(home, {**os.environ, **names})


@contextmanager
def exclusive() -> Iterator[None]:
    """Prevent other test runs of this user from building at the same time; delete what a killed run has left."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for part in CACHE.glob(f"{_PART_PREFIX}*"):
            shutil.rmtree(part)
        delete_unused_archives(CACHE)
        yield


@contextmanager
def complete(target: Path) -> Iterator[Path]:
    """Yield a path beside `target`, which replaces it when the block has succeeded."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=_PART_PREFIX) as directory:
        part = Path(directory) / target.name
        yield part
        part.rename(target)


def is_cached(archive: Path) -> bool:
    """Return whether an archive exists; if so, record that it is used now."""
    if not archive.exists():
        return False
    os.utime(archive)
    return True


def save_image(tool: Buildah, name: str, archive: Path) -> None:
    """Write the archive of an image, and delete the former archives with the same name up to the hash."""
    with complete(archive) as part:
        tool("push", "--quiet", name, f"docker-archive:{part}:{name}")
    for old in CACHE.glob(f"{archive.stem.rpartition('-')[0]}-*.tar"):
        if old != archive:
            old.unlink()


def delete_unused_archives(directory: Path, max_bytes: int = ARCHIVES_MAX_BYTES) -> None:
    """Delete the archives that were not used for the longest time, so that the others have at most `max_bytes`."""
    total = 0
    for archive in sorted(directory.glob("*.tar"), key=lambda one: one.stat().st_mtime, reverse=True):
        total += archive.stat().st_size
        if total > max_bytes:
            archive.unlink()
