"""The scaffolding commands on a directory: read the project, change it, and update its files, all or none.

Every command has the same three steps, so that each knows the files of the others: a pure function from `Project` to
`Project`, the templates' files of the result, and a three-way merge with the existing files. The output of
`steersman manifests` is part of the same transaction.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from steersman.scaffold.errors import ScaffoldError
from steersman.scaffold.generated_record import RECORD, dump_record, read_record
from steersman.scaffold.lock_file import lock_text
from steersman.scaffold.merge import Plan, plan
from steersman.scaffold.project import Project, parse
from steersman.scaffold.render import TEMPLATES, read_tree, render
from steersman.scaffold.transaction import recover, write_transaction
from steersman.version import __version__

__all__ = ["Outcome", "initialise", "open_project", "update", "update_files", "update_obstacle"]

_MANIFESTS_TIMEOUT_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The changes of a command, for users; paths are relative to the project."""

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    """The files of `changed` that also have changes of the user."""
    conflicts: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """Files that the user has deleted, and that were not created again."""
    notes: tuple[str, ...] = ()


def open_project(root: Path) -> Project:
    """Return the project of a directory; rolls back an interrupted command first. Raises `ScaffoldError`."""
    recover(root)
    text = _read(root, "PROJECT")
    if text is None:
        raise ScaffoldError(f"{root} has no PROJECT file: create a project with `steersman init`", 1)
    return parse(text)


def initialise(
    root: Path, project: Project, *, force: bool = False, templates: Path = TEMPLATES, manifests: bool = True
) -> Outcome:
    """Create a project in a directory that is empty, or that has no files of the same names."""
    if root.exists():
        if not root.is_dir():
            raise ScaffoldError(f"{root} is not a directory")
        recover(root)
        if (root / "PROJECT").exists():
            raise ScaffoldError(f"{root} has a project already: change it with `steersman edit` and `steersman create`")
    new = render(project, templates)
    done = plan({}, {**new, "requirements.lock": lock_text()}, lambda path: _read(root, path), force=force)
    if done.conflicts:
        raise ScaffoldError(
            f"{root} is not empty, and these files would be overwritten: {', '.join(sorted(done.conflicts))};"
            " --force overwrites them"
        )
    return _apply(root, project, done, new, manifests=manifests)


def update_files(
    root: Path,
    project: Project,
    *,
    force: bool = False,
    markers: bool = False,
    rewrite: frozenset[str] = frozenset(),
    templates: Path = TEMPLATES,
    manifests: bool = True,
) -> Outcome:
    """Update the files of a directory to those of `project`; changes of the user stay.

    If both sides have changed the same lines, nothing is written, unless `force` (the generated text wins) or `markers`
    (both stay, with conflict markers) is set. Files of `rewrite` are written again in any case. Raises `ScaffoldError`;
    then the directory is unchanged.
    """
    before = open_project(root)
    new = render(project, templates)
    base = read_record(root)
    if base is None:
        base = {path: text for path, text in render(before, templates).items() if path != "PROJECT"}
    done = plan(base, new, lambda path: _read(root, path), force=force, markers=markers, rewrite=rewrite)
    if done.conflicts and not markers:
        told = "".join(f"\n  {path} {why}" for path, why in sorted(done.conflicts.items()))
        raise ScaffoldError(f"nothing was changed, because{told}\n--force overwrites them with the generated files", 1)
    return _apply(root, project, done, new, manifests=manifests)


def update(
    root: Path, *, force: bool = False, markers: bool = False, templates: Path = TEMPLATES, manifests: bool = True
) -> Outcome:
    """Merge the templates of this Steersman into a project of an older version. Raises `ScaffoldError`."""
    project = open_project(root)
    if _numbers(project.version) > _numbers(__version__):
        raise ScaffoldError(
            f"this project was created with Steersman {project.version}, but {__version__} is installed: install"
            f" {project.version} or newer", 1,
        )  # fmt: skip
    if not force and (problem := update_obstacle(root)):
        raise ScaffoldError(problem, 1)
    return update_files(
        root, replace(project, version=__version__), markers=markers, templates=templates, manifests=manifests
    )


def update_obstacle(root: Path) -> str:
    """Return the reason why git could not revert an update, or an empty string."""
    git = shutil.which("git")
    if git is None:
        return "git is not installed, so an update could not be reverted; --force updates anyway"
    done = subprocess.run(  # noqa: S603 - our own arguments, no shell
        [git, "status", "--porcelain", "--untracked-files=normal", "--", "."],
        cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        return f"{root} is not in a git repository, so an update could not be reverted; --force updates anyway"
    if changed := done.stdout.splitlines():
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        return (
            f"there are uncommitted changes ({', '.join(line[3:] for line in changed[:3])}{more}): commit or stash them"
            " first, so that you can review and revert the update"
        )
    return ""


def _apply(root: Path, project: Project, done: Plan, new: dict[str, str], *, manifests: bool) -> Outcome:
    write, remove, notes = dict(done.write), list(done.remove), list[str]()
    if manifests and not done.conflicts:
        made, gone, note = _manifests(root, project, write, remove)
        write.update(made)
        remove = [path for path in (*remove, *gone) if path not in write]
        notes += [note] if note else []
    record = dump_record(new)
    if _read(root, RECORD) != record:
        write[RECORD] = record
    existed = {path for path in write if (root / path).exists()}
    if write or remove:
        write_transaction(root, write, remove)
    shown = sorted(path for path in write if path != RECORD)
    return Outcome(
        created=tuple(path for path in shown if path not in existed),
        changed=tuple(path for path in shown if path in existed),
        removed=tuple(sorted(remove)),
        merged=tuple(done.merged),
        conflicts=tuple(sorted(done.conflicts)),
        kept=tuple(done.kept),
        notes=tuple(notes),
    )


def _manifests(
    root: Path, project: Project, write: dict[str, str], remove: list[str]
) -> tuple[dict[str, str], list[str], str]:
    """Return the files that `steersman manifests` writes and removes below `config/`, or why it failed."""
    with tempfile.TemporaryDirectory(prefix="steersman-manifests-") as directory:
        stage = Path(directory)
        for name in (project.package, "config"):
            if (root / name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(root / name, stage / name, ignore=ignored, symlinks=True)
        if (root / "pyproject.toml").is_file():
            shutil.copy2(root / "pyproject.toml", stage)  # has the version and the description for the manifests
        for path in remove:
            (stage / path).unlink(missing_ok=True)
        for path, text in write.items():
            (stage / path).parent.mkdir(parents=True, exist_ok=True)
            (stage / path).write_text(text, encoding="utf-8")
        before = _config(stage)
        words = [sys.executable, "-P", "-m", "steersman", "manifests", f"{project.package}:operator"]
        if project.namespaced:
            words += ["--watch-namespace", f"{project.name}-system"]
        try:
            ran = subprocess.run(  # noqa: S603 - our own arguments, no shell
                words, cwd=stage, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                timeout=_MANIFESTS_TIMEOUT_SECONDS, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {}, [], f"config/ was not changed: the import of {project.package} takes too long"
        if ran.returncode:
            why = ran.stderr.strip().replace(str(stage), str(root))
            return {}, [], f"config/ was not changed: run `make manifests` after correcting this error:\n{why}"
        after = _config(stage)
    made = {path: text for path, text in after.items() if before.get(path) != text}
    return made, sorted(before.keys() - after.keys()), ""


def _config(stage: Path) -> dict[str, str]:
    folder = stage / "config"
    return {f"config/{path}": text for path, text in read_tree(folder).items()} if folder.is_dir() else {}


def _read(root: Path, path: str) -> str | None:
    """Return the text of a file of the project, or `None`. Raises `ScaffoldError` if it cannot be read."""
    try:
        with (root / path).open(encoding="utf-8", newline="") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        raise ScaffoldError(f"{path} is not UTF-8 text", 1) from None
    except OSError as problem:
        raise ScaffoldError(f"{path}: {problem.strerror}", 1) from None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(word) for word in version.split(".")[:3] if word.isdigit())
