"""Three-way: what was generated before, what its owner made of it, what is generated now. Pure, but for one `git` call.

All commands work through here alike, so that nothing that somebody wrote is ever lost without their saying so. A file
that only one side has changed needs no merge; where both have, `git merge-file` does what developers know from git.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steersman.scaffold.errors import ScaffoldError

__all__ = ["OWNED", "SAMPLES", "Plan", "merge_text", "plan"]

OWNED: Final = frozenset({"requirements.lock"})
"""Written when a project is made, and its owner's from then on."""
SAMPLES: Final = "config/samples/"
"""Files that `steersman manifests` makes, and that older templates held: those that were edited stay."""


@dataclass(slots=True)
class Plan:
    """What is to be written and removed, and what stands in the way; paths are relative to the project."""

    write: dict[str, str]
    remove: list[str]
    merged: list[str]
    """Those of `write` that hold changes of both sides."""
    conflicts: dict[str, str]
    """Why a file cannot be done as wished, by path."""
    kept: list[str]
    """Generated files that their owner has deleted: they stay away."""


def plan(
    base: Mapping[str, str],
    new: Mapping[str, str],
    read: Callable[[str], str | None],
    *,
    force: bool = False,
    markers: bool = False,
    rewrite: frozenset[str] = frozenset(),
) -> Plan:
    """What leads from the files that `read` finds to `new`, given that they were once `base`.

    With `force` a conflict is decided for what is generated; with `markers` it is left to the owner, as git does.
    Files of `rewrite` are written anew whatever stands in them.
    """
    made = Plan({}, [], [], {}, [])
    for path in sorted({*base, *new}):
        before, now, mine = base.get(path), new.get(path), read(path)
        if now == mine or (path in OWNED and before is not None and mine is not None):
            continue
        if now is None:
            _remove(made, path, edited=mine != before, force=force)
        elif mine == before or path in rewrite or path == "PROJECT":
            made.write[path] = now
        elif mine is None:
            made.kept.append(path)
        elif before is None:
            if force:
                made.write[path] = now
            else:
                made.conflicts[path] = "is there already, and was not generated"
        elif before != now:
            _merge(made, path, (before, mine, now), force=force, markers=markers)
    return made


def _remove(made: Plan, path: str, *, edited: bool, force: bool) -> None:
    if not edited or (force and not path.startswith(SAMPLES)):
        made.remove.append(path)
    elif not path.startswith(SAMPLES):
        made.conflicts[path] = "was changed since it was generated, and would be deleted"


def _merge(made: Plan, path: str, sides: tuple[str, str, str], *, force: bool, markers: bool) -> None:
    text, clean = merge_text(*sides)
    if clean or markers:
        made.write[path] = text
        made.merged.append(path)
    elif force:
        made.write[path] = sides[2]
    if not clean and (markers or not force):
        made.conflicts[path] = "was changed on both sides in the same place"


def merge_text(base: str, mine: str, new: str) -> tuple[str, bool]:
    """Both sides' changes of `base`; False when they collide, and the text has markers. Raises `ScaffoldError`."""
    if mine in (base, new):
        return new, True
    if new == base:
        return mine, True
    git = shutil.which("git")
    if git is None:
        raise ScaffoldError("files were changed on both sides, and merging them needs git, which is not installed", 1)
    with tempfile.TemporaryDirectory(prefix="steersman-merge-") as directory:
        names = ("yours", "generated before", "generated now")
        paths = [Path(directory, str(number)) for number in range(3)]
        for path, text in zip(paths, (mine, base, new), strict=True):
            path.write_bytes(text.encode())
        labels = [word for name in names for word in ("-L", name)]
        done = subprocess.run(  # noqa: S603 - our own arguments, no shell
            [git, "merge-file", "-p", "--diff3", *labels, *map(str, paths)],
            cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, check=False,
        )  # fmt: skip
    if done.returncode < 0 or done.returncode > 127:
        raise ScaffoldError(f"git merge-file: {done.stderr.decode(errors='replace').strip()}", 1)
    return done.stdout.decode(), done.returncode == 0
