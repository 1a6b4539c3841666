"""Finds the binaries of a test control plane.

The search order: `$STEERSMAN_CONTROLPLANE` (a directory), our cache (filled by `hack/controlplane/build.sh` or by
`steersman cluster assets install`), `$KUBEBUILDER_ASSETS` (envtest). Nothing here downloads or builds.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

REQUIRED = ("etcd", "kube-apiserver")
"""The required binaries; the controller manager, scheduler and kubectl are optional."""

INSTALL_HINT = (
    "Build them with `hack/controlplane/build.sh` (needs Go, takes minutes, once), fetch envtest binaries "
    "with `steersman cluster assets install`, or point STEERSMAN_CONTROLPLANE or KUBEBUILDER_ASSETS at a "
    "directory that holds etcd and kube-apiserver."
)


class BinariesNotFoundError(RuntimeError):
    """No usable control plane binaries; the message names every searched place and the solutions."""


@dataclass(frozen=True)
class Binaries:
    """A directory of control plane binaries."""

    directory: Path
    origin: str
    """The origin of the directory, for error messages."""

    def find(self, name: str) -> Path | None:
        """Return the path of a binary, or None if this set lacks it."""
        path = self.directory / name
        return path if os.access(path, os.X_OK) and path.is_file() else None

    def require(self, name: str, why: str) -> Path:
        """Return the path of a binary; raises `BinariesNotFoundError` with `why`, if it is missing."""
        if (path := self.find(name)) is None:
            raise BinariesNotFoundError(
                f"{why} needs {name}, which {self.directory} ({self.origin}) lacks. {INSTALL_HINT}"
            )
        return path

    def kubectl(self) -> Path | None:
        """Return kubectl of this set, else the one on PATH."""
        found = self.find("kubectl") or shutil.which("kubectl")
        return Path(found) if found else None

    def missing(self) -> tuple[str, ...]:
        """Return the missing required binaries."""
        return tuple(name for name in REQUIRED if self.find(name) is None)


def cache_root(env: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of builds and downloaded archives of control planes."""
    base = env.get("XDG_CACHE_HOME") or Path(env.get("HOME") or Path.home()) / ".cache"
    return Path(base) / "steersman" / "controlplane"


def find_binaries(env: Mapping[str, str] = os.environ) -> Binaries:
    """Find the first complete set; raises `BinariesNotFoundError`.

    A directory in an environment variable that lacks a required binary is an error and not skipped, because the user
    set the variable on purpose.
    """
    for binaries in _candidates(env):
        missing = binaries.missing()
        if not missing:
            return binaries
        if binaries.origin.startswith("$"):
            raise BinariesNotFoundError(f"{binaries.origin} is {binaries.directory}, which lacks {', '.join(missing)}.")
    raise BinariesNotFoundError(
        f"There are no control plane binaries: STEERSMAN_CONTROLPLANE and KUBEBUILDER_ASSETS are not set and "
        f"{cache_root(env)} holds none. {INSTALL_HINT}"
    )


def available(*components: str, env: Mapping[str, str] = os.environ) -> str | None:
    """Return None if a control plane with these components can be started here, else the reason and the solutions."""
    try:
        binaries = find_binaries(env)
        for component in components:
            binaries.require(component, "This")
    except BinariesNotFoundError as error:
        return str(error)
    return None


def _candidates(env: Mapping[str, str]) -> Iterator[Binaries]:
    if named := env.get("STEERSMAN_CONTROLPLANE"):
        yield Binaries(Path(named).absolute(), "$STEERSMAN_CONTROLPLANE")
    root = cache_root(env)
    yield Binaries((root / "current" / "bin").resolve(), "built by hack/controlplane/build.sh")
    for directory in sorted(root.glob("*/bin"), key=_version, reverse=True):
        yield Binaries(directory, "from the cache")
    if named := env.get("KUBEBUILDER_ASSETS"):
        yield Binaries(Path(named).absolute(), "$KUBEBUILDER_ASSETS")


def _version(directory: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", directory.parent.name)[:3])
