"""The file system of a container: a plan of mounts, performed by bubblewrap or with mount namespaces.

The root is the machine's directories, read-only, or a copy of the image's root directory, with volumes at their paths.
If a mount point does not exist, a private directory with links replaces its parent, so that nothing is created on the
machine. Each container has its own PID namespace: the kernel kills all its processes when its first process or the node
ends. Without namespaces, a container has a private directory instead (`plain`).
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from steersman_cluster.nodes.process.command import DEFAULT_PATH, Sandbox, launch

__all__ = ["PRIVATE_PATHS", "Mode", "Mount", "Op", "detect", "overlays_work", "plan", "real", "sandbox_of", "works"]

Mode = Literal["bubblewrap", "namespaces", "plain"]
PRIVATE_PATHS: Final = ("/tmp/", "/dev/")  # noqa: S108
"""Prefixes of the paths at which a container has private directories instead of those of its root."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or directory of the machine, mounted at `target` in a container."""

    source: Path
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Op:
    """One step of building a root: `bind`, `ro-bind`, `tmpfs`, `symlink`, `proc`, `dev`, `remount-ro`."""

    what: str
    source: str
    target: str


def detect() -> Mode:
    """Return the best mode that works on this machine, determined by a test."""
    # Only root can set users and capabilities, and only the launcher's own sandbox applies them.
    every: tuple[Mode, ...] = ("bubblewrap", "namespaces") if os.geteuid() else ("namespaces", "bubblewrap")
    for mode in every:
        if works(mode):
            return mode
    return "plain"


def overlays_work(mode: Mode, directory: Path) -> bool:
    """Return whether containers can have writable layers in a directory, determined by a test."""
    return mode == "namespaces" and works(mode, str(directory))


def works(mode: Mode, overlays: str = "") -> bool:
    """Return whether `true` runs in a sandbox of this mode; `overlays` is a directory for a writable layer."""
    with tempfile.TemporaryDirectory(prefix="steersman-sandbox-", dir=overlays or None) as directory:
        private = Path(directory)
        (private / "tmp").mkdir()
        layers = [str(private / name) for name in ("lower", "upper", "work", "merged")] if overlays else []
        for layer in layers:
            os.mkdir(layer)
        try:
            sandbox = sandbox_of(mode, plan(None, (), private), "probe", private, layers)
            program = shutil.which("true", path=DEFAULT_PATH) or "true"
            with launch([program], {}, "/", sandbox=sandbox) as start:
                done = subprocess.run(  # noqa: S603
                    start.argv, pass_fds=start.files, env={}, capture_output=True, timeout=10, check=False
                )
            os.close(start.report)
        except (OSError, subprocess.SubprocessError):
            return False
    return done.returncode == 0


def plan(root: Path | None, mounts: Sequence[Mount], private: Path, *, read_only: bool = False) -> list[Op]:
    """Return the plan of a container's root. `private` is a directory of the Pod; its `tmp` becomes /tmp.

    `root` is the container's /; `None` for the machine's root directory, read-only. With `read_only`
    (`readOnlyRootFilesystem`) the container can write only to its volumes.
    """
    base = root or Path("/")
    bind = "ro-bind" if root is None or read_only else "bind"
    ops: list[Op] = []
    for entry in sorted(base.iterdir()):
        top = f"/{entry.name}"
        if top in ("/proc", "/dev", "/tmp"):  # noqa: S108
            continue
        if entry.is_symlink():
            ops.append(Op("symlink", os.readlink(entry), top))
        else:
            ops.append(Op(bind, str(entry), top))
    temporary = Op("ro-bind" if read_only else "bind", str(private / "tmp"), "/tmp")  # noqa: S108
    ops += [Op("proc", "", "/proc"), Op("dev", "", "/dev"), temporary]
    placed = sorted(((real(base, m.target), m) for m in mounts), key=lambda pair: pair[0].count("/"))
    shadowed: list[str] = []
    # All shadows come before the mounts, because a shadow would hide mounts below it.
    for target, _ in placed:
        parent = _parent_to_shadow(base, target)
        if parent and parent not in shadowed:
            shadowed.append(parent)
    for number, parent in enumerate(sorted(shadowed, key=lambda path: path.count("/"))):
        ops += _shadow(base, parent, f"/.steersman/{number}", bind, [target for target, _ in placed])
    ops += [Op("ro-bind" if m.read_only else "bind", str(m.source), target) for target, m in placed]
    return [*ops, Op("remount-ro", "", "/")] if read_only else ops


def sandbox_of(
    mode: Mode,
    ops: Iterable[Op],
    hostname: str,
    place: Path,
    overlay: Sequence[str] = (),
    sysctls: Mapping[str, str] | None = None,
) -> Sandbox | None:
    """Return the sandbox for the launcher; `None` for the mode without sandboxes. Raises `FileNotFoundError`."""
    if mode == "plain":
        return None
    program = ""
    if mode == "bubblewrap":
        program = shutil.which("bwrap") or ""
        if not program:
            raise FileNotFoundError(errno.ENOENT, "bubblewrap (bwrap) is not installed")
    steps = [(op.what, op.source, op.target) for op in ops]
    return {
        "kind": mode,
        "ops": steps,
        "hostname": hostname,
        "place": str(place),
        "program": program,
        "overlay": list(overlay),
        "sysctls": dict(sysctls or {}),
    }


def real(base: Path, target: str) -> str:
    """Return a mount point with the links of the container's root resolved, so that /var/run is /run."""
    path = "/"
    for part in Path(os.path.normpath(target)).parts[1:]:
        step = os.path.join(path, part)
        for _ in range(8):
            here = base / step.lstrip("/")
            if step.startswith(PRIVATE_PATHS) or not here.is_symlink():
                break
            link = os.readlink(here)
            step = os.path.normpath(link if link.startswith("/") else os.path.join(os.path.dirname(step), link))
        path = step
    return path


def _parent_to_shadow(base: Path, target: str) -> str:
    """Return the deepest existing directory above a missing mount point; none if the mount point may be created."""
    if (base / target.lstrip("/")).exists() or target.startswith(PRIVATE_PATHS):
        return ""
    parent = os.path.dirname(target)
    while not (base / parent.lstrip("/")).is_dir():
        parent = os.path.dirname(parent)
    return parent if parent != "/" else ""


def _shadow(base: Path, directory: str, hidden: str, bind: str, targets: Sequence[str]) -> list[Op]:
    """Replace a directory by a private one with links to its entries, except for mount points."""
    source = base / directory.lstrip("/")
    ops = [Op(bind, str(source), hidden), Op("tmpfs", "", directory)]
    for entry in sorted(source.iterdir()):
        place = f"{directory}/{entry.name}"
        if place in targets:
            continue
        if any(target.startswith(f"{place}/") for target in targets):
            ops.append(Op(bind, str(entry), place))
        else:
            ops.append(Op("symlink", f"{hidden}/{entry.name}", place))
    return ops
