"""The commands on a directory: read its project, let a wish change it, and bring the files in line, all or none.

Every command is the same three steps, so that none of them can leave files behind that another does not know:
a pure function from `Project` to `Project`, the templates' files of the result, and a three-way merge of them with
what is there. What `steersman manifests` makes of the result goes into the same change.
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

from steersman.scaffold.base import BASE, dump_base, read_base
from steersman.scaffold.change import change, recover
from steersman.scaffold.errors import ScaffoldError
from steersman.scaffold.lock import lock
from steersman.scaffold.merge import Plan, plan
from steersman.scaffold.project import Project, parse
from steersman.scaffold.render import TEMPLATES, read_tree, render
from steersman.version import __version__

__all__ = ["Outcome", "bring_in_line", "initialise", "is_clean", "open_project", "update"]

_MANIFESTS_WITHIN: Final = 120.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done, for people; paths are relative to the project."""

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    """Those of `changed` that hold changes of their owner, too."""
    conflicts: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """Files that their owner has deleted, and that were not made again."""
    notes: tuple[str, ...] = ()


def open_project(root: Path) -> Project:
    """The project in a directory; undoes what a command that was cut off has left there. Raises `ScaffoldError`."""
    recover(root)
    text = _read(root, "PROJECT")
    if text is None:
        raise ScaffoldError(f"there is no project in {root}: no PROJECT file. `steersman init` makes one", 1)
    return parse(text)


def initialise(
    root: Path, project: Project, *, force: bool = False, templates: Path = TEMPLATES, manifests: bool = True
) -> Outcome:
    """Make a project in a directory that is empty, or that holds nothing that would be overwritten."""
    if root.exists():
        if not root.is_dir():
            raise ScaffoldError(f"{root} is not a directory")
        recover(root)
        if (root / "PROJECT").exists():
            raise ScaffoldError(f"{root} holds a project already; `steersman edit` and `steersman create` change it")
    new = render(project, templates)
    done = plan({}, {**new, "requirements.lock": lock()}, lambda path: _read(root, path), force=force)
    if done.conflicts:
        raise ScaffoldError(
            f"{root} is not empty, and these would be overwritten (--force does): {', '.join(sorted(done.conflicts))}"
        )
    return _carry_out(root, project, done, new, manifests=manifests)


def bring_in_line(
    root: Path,
    project: Project,
    *,
    force: bool = False,
    markers: bool = False,
    rewrite: frozenset[str] = frozenset(),
    templates: Path = TEMPLATES,
    manifests: bool = True,
) -> Outcome:
    """Make the files of a directory those of `project`; what their owner has changed stays changed.

    Where both have changed the same lines nothing is written, unless `force` (what is generated wins) or `markers`
    (both stay, for the owner to decide). Files of `rewrite` are made anew whatever stands in them. Raises
    `ScaffoldError`; the directory is as it was then.
    """
    before = open_project(root)
    new = render(project, templates)
    base = read_base(root)
    if base is None:
        base = {path: text for path, text in render(before, templates).items() if path != "PROJECT"}
    done = plan(base, new, lambda path: _read(root, path), force=force, markers=markers, rewrite=rewrite)
    if done.conflicts and not markers:
        told = "".join(f"\n  {path} {why}" for path, why in sorted(done.conflicts.items()))
        raise ScaffoldError(f"nothing was changed, because{told}\n--force does it all the same", 1)
    return _carry_out(root, project, done, new, manifests=manifests)


def update(
    root: Path, *, force: bool = False, markers: bool = False, templates: Path = TEMPLATES, manifests: bool = True
) -> Outcome:
    """Merge the templates of this Steersman into a project that was made with another's. Raises `ScaffoldError`."""
    project = open_project(root)
    if _numbers(project.version) > _numbers(__version__):
        raise ScaffoldError(
            f"this project was made with Steersman {project.version}, and {__version__} is installed: install that or"
            " a newer one", 1,
        )  # fmt: skip
    if not force and (problem := is_clean(root)):
        raise ScaffoldError(problem, 1)
    return bring_in_line(
        root, replace(project, version=__version__), markers=markers, templates=templates, manifests=manifests
    )


def is_clean(root: Path) -> str:
    """Why an update could not be taken back with git, or nothing."""
    git = shutil.which("git")
    if git is None:
        return "git is not installed, so an update could not be taken back; --force updates all the same"
    done = subprocess.run(  # noqa: S603 - our own arguments, no shell
        [git, "status", "--porcelain", "--untracked-files=normal", "--", "."],
        cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        return f"{root} is in no git repository, so an update could not be taken back; --force updates all the same"
    if changed := done.stdout.splitlines():
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        return (
            f"there are changes that are not committed ({', '.join(line[3:] for line in changed[:3])}{more}): commit"
            " or stash them first, so that the update can be looked at, and taken back"
        )
    return ""


def _carry_out(root: Path, project: Project, done: Plan, new: dict[str, str], *, manifests: bool) -> Outcome:
    write, remove, notes = dict(done.write), list(done.remove), list[str]()
    if manifests and not done.conflicts:
        made, gone, note = _manifests(root, project, write, remove)
        write.update(made)
        remove = [path for path in (*remove, *gone) if path not in write]
        notes += [note] if note else []
    record = dump_base(new)
    if _read(root, BASE) != record:
        write[BASE] = record
    existed = {path for path in write if (root / path).exists()}
    if write or remove:
        change(root, write, remove)
    shown = sorted(path for path in write if path != BASE)
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
    """What `steersman manifests` writes and removes below `config/` once the change is made; or why it could not."""
    with tempfile.TemporaryDirectory(prefix="steersman-manifests-") as directory:
        stage = Path(directory)
        for name in (project.package, "config"):
            if (root / name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(root / name, stage / name, ignore=ignored, symlinks=True)
        if (root / "pyproject.toml").is_file():
            shutil.copy2(root / "pyproject.toml", stage)  # the version and the description of what is shipped
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
                timeout=_MANIFESTS_WITHIN, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {}, [], f"config/ was left as it is: importing {project.package} takes too long"
        if ran.returncode:
            why = ran.stderr.strip().replace(str(stage), str(root))
            return {}, [], f"config/ was left as it is, until `make manifests` can be run:\n{why}"
        after = _config(stage)
    made = {path: text for path, text in after.items() if before.get(path) != text}
    return made, sorted(before.keys() - after.keys()), ""


def _config(stage: Path) -> dict[str, str]:
    folder = stage / "config"
    return {f"config/{path}": text for path, text in read_tree(folder).items()} if folder.is_dir() else {}


def _read(root: Path, path: str) -> str | None:
    """The text of a file of the project; `None` when there is none. Raises `ScaffoldError` when it cannot be read."""
    try:
        with (root / path).open(encoding="utf-8", newline="") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        raise ScaffoldError(f"{path} is not text in UTF-8", 1) from None
    except OSError as problem:
        raise ScaffoldError(f"{path}: {problem.strerror}", 1) from None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(word) for word in version.split(".")[:3] if word.isdigit())
