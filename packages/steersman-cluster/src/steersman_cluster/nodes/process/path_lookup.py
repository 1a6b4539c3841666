"""Resolves paths of a container from the plan of its mounts, before the mounts exist.

Bubblewrap reports a missing program and a failing program in the same way, so the node looks up the command first.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping, Sequence

from steersman_cluster.nodes.process.command import DEFAULT_PATH
from steersman_cluster.nodes.process.sandbox import Op

__all__ = ["LaunchError", "check_command", "located"]

_MAX_LINKS = 40
_MAX_SHEBANG_BYTES = 256


class LaunchError(Exception):
    """The command cannot be run: RunContainerError."""


def located(ops: Sequence[Op], path: str) -> str | None:
    """Return the path on the machine of a container's path, with links resolved; `None` if it does not exist."""
    parts = _parts(path)
    here, found, links = "/", "/", 0
    while parts:
        part = parts.pop(0)
        if part == "..":
            here = posixpath.dirname(here)
            found = _source(ops, here) or "/"
            continue
        step = posixpath.join(here, part)
        source = _source(ops, step)
        if source is None:
            return None
        link = _link(ops, step, source)
        if link is None:
            here, found = step, source
            continue
        links += 1
        if links > _MAX_LINKS:
            return None
        here = "/" if link.startswith("/") else here
        parts = [*_parts(link), *parts]
    return found


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _source(ops: Sequence[Op], path: str) -> str | None:
    """Return the path on the machine of a path without links, from the last mount on it or above it."""
    for op in reversed(ops):
        if op.what != "remount-ro" and (path == op.target or path.startswith(f"{op.target.rstrip('/')}/")):
            if op.what in ("proc", "dev"):
                return path
            if op.what not in ("bind", "ro-bind"):
                return _above(ops, path) if path != op.target else path
            source = op.source.rstrip("/") + path[len(op.target.rstrip("/")) :] or "/"
            return source if os.path.lexists(source) else _above(ops, path)
    return _above(ops, path)


def _above(ops: Sequence[Op], path: str) -> str | None:
    """Return the path itself if it is a directory that was created for a mount point below it."""
    return path if path == "/" or any(op.target.startswith(f"{path}/") for op in ops) else None


def _link(ops: Sequence[Op], path: str, source: str) -> str | None:
    """Return the target of a symbolic link; `None` for any other file."""
    for op in reversed(ops):
        if op.target == path:
            return op.source if op.what == "symlink" else None  # A mount resolves the links of its source.
    try:
        return os.readlink(source)
    except OSError:
        return None


def check_command(ops: Sequence[Op], command: Sequence[str], env: Mapping[str, str], directory: str) -> None:
    """Raise `LaunchError` with the message of a container runtime if a container cannot run a command."""
    if located(ops, directory) is None:
        raise LaunchError(f'chdir to cwd ("{directory}") failed: no such file or directory')
    word = command[0]
    found = _program(ops, word, env.get("PATH", DEFAULT_PATH), directory)
    if not os.path.isfile(found) or not os.access(found, os.X_OK):
        raise LaunchError(f'exec: "{word}": permission denied')
    interpreter = _interpreter(found)
    if interpreter and located(ops, interpreter) is None:
        said = f"no such file or directory: its interpreter {interpreter} is not in the container"
        raise LaunchError(f'exec: "{word}": {said}')


def _program(ops: Sequence[Op], word: str, path: str, directory: str) -> str:
    if "/" in word:
        found = located(ops, posixpath.join(directory, word))
        if found is None:
            raise LaunchError(f'exec: "{word}": no such file or directory')
        return found
    every = [located(ops, posixpath.join(directory, place, word)) for place in path.split(":")]
    there = [found for found in every if found is not None]
    if not there:
        raise LaunchError(f'exec: "{word}": executable file not found in $PATH')
    return next((found for found in there if os.access(found, os.X_OK) and os.path.isfile(found)), there[0])


def _interpreter(program: str) -> str:
    """Return the absolute path of the interpreter in the first line of a script."""
    try:
        with open(program, "rb") as file:
            first = file.read(_MAX_SHEBANG_BYTES)
    except OSError:
        return ""
    if not first.startswith(b"#!"):
        return ""
    words = os.fsdecode(first[2:].split(b"\n", 1)[0]).split()
    return words[0] if words and words[0].startswith("/") else ""
