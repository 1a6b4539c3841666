"""What a container sees of the file system: a plan of mounts, carried out by bubblewrap or by mount namespaces.

The machine's directories are shown read-only (or the image's root directory, writable), with volumes at their paths.
Where a mount point does not exist, its parent is replaced by a private directory of links to what was there, so
nothing is ever created on the machine itself. Every container has its own PID namespace: when its first process goes,
or the node, the kernel kills the rest. Without namespaces there is a private directory instead (`plain`).
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["Mode", "Mount", "Op", "detect", "plan", "wrap"]

Mode = Literal["bubblewrap", "namespaces", "plain"]


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or directory of the machine that a container sees at `target`."""

    source: Path
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Op:
    """One step of building a root: `bind`, `ro-bind`, `tmpfs`, `symlink`, `proc`, `dev`."""

    what: str
    source: str
    target: str


def detect() -> Mode:
    """The best mode that works here, found out by trying."""
    if shutil.which("bwrap") and _works(
        [
            "bwrap",
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--proc",
            "/proc",
            "--unshare-pid",
            "--die-with-parent",
            "true",
        ]
    ):
        return "bubblewrap"
    if shutil.which("unshare") and shutil.which("setpriv") and _works([*_unshare(), "true"]):
        return "namespaces"
    return "plain"


def _works(command: list[str]) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, timeout=10, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def _unshare() -> list[str]:
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return [
        *("setpriv", "--pdeathsig", "KILL", "unshare", *user),
        *("--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child"),
    ]


def plan(root: Path | None, mounts: Sequence[Mount], private: Path) -> list[Op]:
    """How to build a container's root. `private` is a directory of the Pod's own; its `tmp` becomes /tmp.

    With `root` that directory is the container's /, writable; without, the machine's own, read-only.
    """
    base = root or Path("/")
    bind = "ro-bind" if root is None else "bind"
    ops: list[Op] = []
    for entry in sorted(base.iterdir()):
        top = f"/{entry.name}"
        if top in ("/proc", "/dev", "/tmp"):  # noqa: S108
            continue
        if entry.is_symlink():
            ops.append(Op("symlink", os.readlink(entry), top))
        else:
            ops.append(Op(bind, str(entry), top))
    ops += [Op("proc", "", "/proc"), Op("dev", "", "/dev"), Op("bind", str(private / "tmp"), "/tmp")]  # noqa: S108
    placed = sorted(((_real(base, m.target), m) for m in mounts), key=lambda pair: pair[0].count("/"))
    shadowed: list[str] = []
    # All shadows before any mount: a shadow would hide what is mounted below it.
    for target, _ in placed:
        parent = _parent_to_shadow(base, target)
        if parent and parent not in shadowed:
            shadowed.append(parent)
    for number, parent in enumerate(sorted(shadowed, key=lambda path: path.count("/"))):
        ops += _shadow(base, parent, f"/.steersman/{number}", bind, [target for target, _ in placed])
    ops += [Op("ro-bind" if m.read_only else "bind", str(m.source), target) for target, m in placed]
    return ops


def _real(base: Path, target: str) -> str:
    """The mount point with the links of the container's root followed, so that /var/run is /run."""
    path = "/"
    for part in Path(os.path.normpath(target)).parts[1:]:
        step = os.path.join(path, part)
        for _ in range(8):
            here = base / step.lstrip("/")
            if not here.is_symlink():
                break
            link = os.readlink(here)
            step = os.path.normpath(link if link.startswith("/") else os.path.join(os.path.dirname(step), link))
        path = step
    return path


def _parent_to_shadow(base: Path, target: str) -> str:
    """The deepest directory on the way to a mount point that does not exist; none where making it does no harm."""
    if (base / target.lstrip("/")).exists() or target.startswith(("/tmp/", "/dev/")):  # noqa: S108
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


def wrap(
    mode: Mode, ops: Iterable[Op], command: Sequence[str], *, directory: str, hostname: str, place: Path
) -> list[str]:
    """The command that runs `command` inside the plan, dying with its parent; a root may be put together at `place`."""
    if mode == "bubblewrap":
        args = ["bwrap", "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", hostname]
        for op in ops:
            args += [f"--{op.what}", *([op.source] if op.source else []), op.target]
        return [*args, "--chdir", directory, "--", *command]
    if mode == "namespaces":
        return [*_unshare(), "sh", "-c", _script(ops, directory, hostname, place), "sh", *command]
    died = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
    return [*died, *command]


def _devices(target: str) -> list[str]:
    """A /dev of its own with the devices that every container has; the machine's would be written to."""
    return [
        f"mkdir -p {target}; mount -t tmpfs -o mode=0755 tmpfs {target}; mkdir {target}/pts {target}/shm",
        f"for d in null zero full random urandom tty; do : > {target}/$d; mount --bind /dev/$d {target}/$d; done",
        f"mount -t devpts -o newinstance,ptmxmode=0666 devpts {target}/pts 2>/dev/null || true",
        f"ln -s pts/ptmx {target}/ptmx; ln -s /proc/self/fd {target}/fd",
        *(f"ln -s /proc/self/fd/{number} {target}/{name}" for number, name in enumerate(("stdin", "stdout", "stderr"))),
    ]


def _script(ops: Iterable[Op], directory: str, hostname: str, place: Path) -> str:
    """The same plan as shell commands; the shell stays as the first process of the namespace and reaps."""
    lines = [
        "set -e",
        "mount --make-rprivate /",
        f"hostname {shlex.quote(hostname)} || true",
        f"n={shlex.quote(str(place))}",
        'mount -t tmpfs -o mode=0755 tmpfs "$n"',
    ]
    links: dict[str, list[str]] = {}
    for op in ops:
        directory_of, name = os.path.split(op.target)
        if op.what == "symlink" and os.path.basename(op.source) == name and op.source.startswith("/.steersman/"):
            links.setdefault(directory_of, []).append(shlex.quote(op.source))
            continue
        source, target = shlex.quote(op.source), f'"$n"{shlex.quote(op.target)}'
        match op.what:
            case "symlink":
                lines.append(f"ln -s {source} {target}")
            case "tmpfs":
                lines.append(f"mount -t tmpfs -o mode=0755 tmpfs {target}")
            case "proc":
                lines.append(f"mkdir -p {target}; mount -t proc proc {target}")
            case "dev":
                lines += _devices(target)
            case _:
                made = f"mkdir -p {target}"
                if not os.path.isdir(op.source):
                    made = f'mkdir -p "$(dirname {target})"; [ -e {target} ] || : > {target}'
                lines.append(f"{made}; mount --rbind {source} {target}")
                if op.what == "ro-bind":
                    # Under a user namespace what is locked cannot be remounted; it is read-only or not ours then.
                    lines.append(f"mount -o remount,bind,ro {target} 2>/dev/null || true")
    lines += [f'ln -s {" ".join(sources)} "$n"{shlex.quote(at)}/' for at, sources in links.items()]
    lines += [
        "set +e",
        "exec 3<&0",
        f'chroot "$n" sh -c \'cd "$0" && exec "$@"\' {shlex.quote(directory)} "$@" <&3 3<&- &',
        "exec 3<&- </dev/null",
        "wait $!",
        "exit $?",
    ]
    return "\n".join(lines)
