"""The three-way merge of the files generated before, the user's files, and the files generated now.

All commands use it, so no change of the user is lost without consent. A file that only one side has changed needs no
merge; for other files `git merge-file` is used, with the usual conflict markers.
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

__all__ = ["SAMPLES", "USER_OWNED", "Plan", "merge_text", "plan"]

USER_OWNED: Final = frozenset({"requirements.lock"})
"""Files that are generated once and then belong to the user."""
SAMPLES: Final = "config/samples/"
"""Files that `steersman manifests` generates and that older templates had: edited ones stay."""


@dataclass(slots=True)
class Plan:
    """The files to write and remove, and the conflicts; paths are relative to the project."""

    write: dict[str, str]
    remove: list[str]
    merged: list[str]
    """The files of `write` with changes of both sides."""
    conflicts: dict[str, str]
    """The reason why a file cannot be written or removed, by path."""
    kept: list[str]
    """Generated files that the user has deleted: they are not created again."""


def plan(
    base: Mapping[str, str],
    new: Mapping[str, str],
    read: Callable[[str], str | None],
    *,
    force: bool = False,
    markers: bool = False,
    rewrite: frozenset[str] = frozenset(),
) -> Plan:
    """Return the changes from the files that `read` finds to `new`, with `base` as their common ancestor.

    Args:
        base: The files that were generated before.
        new: The files that are generated now.
        read: Returns the user's text of a path, or None.
        force: Resolve conflicts in favour of the generated files.
        markers: Write conflict markers, like git.
        rewrite: Files that are written anew in any case.
    """
    made = Plan({}, [], [], {}, [])
    for path in sorted({*base, *new}):
        before, now, mine = base.get(path), new.get(path), read(path)
        if now == mine or (path in USER_OWNED and before is not None and mine is not None):
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
                made.conflicts[path] = "exists already, and was not generated"
        elif before != now:
            _merge(made, path, (before, mine, now), force=force, markers=markers)
    return made


def _remove(made: Plan, path: str, *, edited: bool, force: bool) -> None:
    if not edited or (force and not path.startswith(SAMPLES)):
        made.remove.append(path)
    elif not path.startswith(SAMPLES):
        made.conflicts[path] = "was changed after it was generated, but would be deleted"


def _merge(made: Plan, path: str, sides: tuple[str, str, str], *, force: bool, markers: bool) -> None:
    text, clean = merge_text(*sides)
    if clean or markers:
        made.write[path] = text
        made.merged.append(path)
    elif force:
        made.write[path] = sides[2]
    if not clean and (markers or not force):
        made.conflicts[path] = "was changed by both sides in the same place"


def merge_text(base: str, mine: str, new: str) -> tuple[str, bool]:
    """Merge both sides' changes of `base`; False if they conflict and the text has markers. Raises `ScaffoldError`."""
    if mine in (base, new):
        return new, True
    if new == base:
        return mine, True
    git = shutil.which("git")
    if git is None:
        raise ScaffoldError("files were changed by both sides: install git, which merges them", 1)
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
