"""Writes and removes files of a directory in one transaction: all or none.

New texts are first written to a staging directory in the project. Then each file is moved to its place, after the old
file was saved and noted in a journal. An interruption, also by Ctrl-C, is rolled back at once; after a power failure
the next command rolls back.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from steersman.scaffold.errors import ScaffoldError

__all__ = ["PRIVATE", "recover", "write_transaction"]

PRIVATE: Final = ".steersman"
"""The directory of a project for Steersman's own files."""
_STAGE: Final = "stage"
_JOURNAL: Final = "journal.json"


def write_transaction(
    root: Path,
    write: Mapping[str, str],
    remove: Collection[str] = (),
    *,
    executable: Collection[str] = (),
    rename: Callable[[Path, Path], None] = os.replace,
) -> None:
    """Write and remove files below `root`, all or none. Raises `ScaffoldError` if a file cannot be written."""
    for path in (*write, *remove):
        _check_path(root, path)
    made_root = _missing(root)
    stage = root / PRIVATE / _STAGE
    try:
        _prepare(root, stage, write, remove, executable)
        for number, path in enumerate(sorted(write)):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            rename(stage / f"new-{number}", root / path)
        for path in sorted(remove):
            (root / path).unlink(missing_ok=True)
        (root / PRIVATE / _JOURNAL).unlink()  # this commits the transaction
    except BaseException as stopped:
        _undo(root)
        for folder in reversed(made_root):
            _remove_empty(folder / PRIVATE)
            _remove_empty(folder)
        if isinstance(stopped, OSError):
            raise ScaffoldError(
                f"{stopped.filename2 or stopped.filename or root}: {stopped.strerror}; nothing was changed", 1
            ) from None
        raise
    shutil.rmtree(stage, ignore_errors=True)
    for path in remove:
        _remove_empty_parents(root, root / path)
    _remove_empty(root / PRIVATE)


def _prepare(
    root: Path, stage: Path, write: Mapping[str, str], remove: Collection[str], executable: Collection[str]
) -> None:
    """Write the new texts and copies of the old files to `stage`, and then the journal."""
    stage.mkdir(parents=True, exist_ok=True)
    for number, (path, text) in enumerate(sorted(write.items())):
        new, old = stage / f"new-{number}", root / path
        new.write_text(text, encoding="utf-8", newline="")
        if old.exists():
            new.chmod(old.stat().st_mode & 0o777)
        elif path in executable:
            new.chmod(0o755)
    touched = [*sorted(write), *sorted(remove)]
    before = {path: f"old-{number}" for number, path in enumerate(touched) if (root / path).exists()}
    for path, name in before.items():
        shutil.copy2(root / path, stage / name)
    folders = {_relative(root, folder) for path in write for folder in _missing((root / path).parent)}
    noted = {"touched": touched, "before": before, "folders": sorted(folders, key=len)}
    _write_journal(root / PRIVATE / _JOURNAL, noted)


def recover(root: Path) -> bool:
    """Roll back an interrupted transaction; return whether there was one."""
    there = (root / PRIVATE / _JOURNAL).exists()
    if there or (root / PRIVATE / _STAGE).exists():
        _undo(root)
    return there


def _undo(root: Path) -> None:
    journal, stage = root / PRIVATE / _JOURNAL, root / PRIVATE / _STAGE
    if journal.exists():
        noted = json.loads(journal.read_text(encoding="utf-8"))
        for path in noted["touched"]:
            old = noted["before"].get(path)
            if old is None:
                (root / path).unlink(missing_ok=True)
            elif (stage / old).exists():
                shutil.copy2(stage / old, root / path)
        for folder in reversed(noted["folders"]):
            _remove_empty(root / folder)
        journal.unlink()
    shutil.rmtree(stage, ignore_errors=True)
    _remove_empty(root / PRIVATE)


def _write_journal(journal: Path, noted: Mapping[str, object]) -> None:
    """Write the journal atomically: an incomplete journal could not be rolled back."""
    new = journal.with_suffix(".new")
    new.write_text(json.dumps(noted), encoding="utf-8")
    os.replace(new, journal)


def _check_path(root: Path, path: str) -> None:
    """Raise `ScaffoldError` for a path outside the project, also through links."""
    target = root / path
    if ".." in Path(path).parts or Path(path).is_absolute():
        raise ScaffoldError(f"{path}: outside the project", 1)
    real = target.parent.resolve()
    if not real.is_relative_to(root.resolve()):
        raise ScaffoldError(f"{path}: its directory is a link to a place outside the project; nothing was changed", 1)
    if target.is_dir():
        raise ScaffoldError(f"{path} is a directory, but the template has a file there; nothing was changed", 1)
    for parent in target.relative_to(root).parents:
        if (root / parent).is_file():
            raise ScaffoldError(f"{parent.as_posix()} is a file, but must be a directory; nothing was changed", 1)


def _missing(folder: Path) -> list[Path]:
    """Return the directories that must be created, outermost first."""
    found: list[Path] = []
    while not folder.exists():
        found.append(folder)
        folder = folder.parent
    return found[::-1]


def _relative(root: Path, folder: Path) -> str:
    return folder.relative_to(root).as_posix()


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # not empty, or missing
        folder.rmdir()


def _remove_empty_parents(root: Path, path: Path) -> None:
    """Remove directories that are empty now; Python's caches do not count."""
    for folder in path.parents:
        if folder == root or not folder.is_dir():
            break
        if [entry.name for entry in folder.iterdir()] == ["__pycache__"]:
            shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        _remove_empty(folder)
        if folder.exists():
            break
