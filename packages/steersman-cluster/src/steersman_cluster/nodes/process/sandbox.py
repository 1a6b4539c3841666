"""What a container sees of the file system: a plan of mounts, carried out by bubblewrap or by mount namespaces.

The machine's directories are shown read-only (or a copy of the image's root directory), with volumes at their paths.
Where a mount point does not exist, its parent is replaced by a private directory of links to what was there, so
nothing is ever created on the machine itself. Every container has its own PID namespace: when its first process goes,
or the node, the kernel kills the rest. Without namespaces there is a private directory instead (`plain`).
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
"""Prefixes of the paths at which a container has directories of its own instead of its root's."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or directory of the machine that a container sees at `target`."""

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
    """The best mode that works here, found out by trying."""
    # Only root chooses users and capabilities, and only the launcher's own sandbox applies them.
    every: tuple[Mode, ...] = ("bubblewrap", "namespaces") if os.geteuid() else ("namespaces", "bubblewrap")
    for mode in every:
        if works(mode):
            return mode
    return "plain"


def overlays_work(mode: Mode, directory: Path) -> bool:
    """Return whether containers can have writable layers in a directory; found out by trying."""
    return mode == "namespaces" and works(mode, str(directory))


def works(mode: Mode, overlays: str = "") -> bool:
    """Whether `true` runs in a sandbox of this mode; with `overlays`, with a writable layer in that directory."""
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
    """How to build a container's root. `private` is a directory of the Pod's own; its `tmp` becomes /tmp.

    With `root` that directory is the container's /; without, the machine's own, read-only. With `read_only`
    (`readOnlyRootFilesystem`) the container writes to its volumes only.
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
    # All shadows before any mount: a shadow would hide what is mounted below it.
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
    """What the launcher has to know of a sandbox; `None` for the mode without one. Raises `FileNotFoundError`."""
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
    """The mount point with the links of the container's root followed, so that /var/run is /run."""
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
    """The deepest directory on the way to a mount point that does not exist; none where making it does no harm."""
    if (base / target.lstrip("/")).exists() or target.startswith(PRIVATE_PATHS):
        return ""
    parent = os.path.dirname(target)
    while not (base / parent.lstrip("/")).is_dir():
        parent = os.path.dirname(parent)
    return parent if parent != "/" else ""


def _shadow(base: Path, directory: str, hidden: str, bind: str, targets: Sequence[str]) -> list[Op]:
    """Replace a directory by a private one of links to what it holds; what is mounted upon stays no link."""
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
