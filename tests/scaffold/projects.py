"""Projects for tests: in-process, without `steersman manifests` unless a test enables it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from ruff import find_ruff_bin

from steersman.scaffold import ApiOptions, Project, WebhookOptions, create_api, create_webhook, initialise, update_files
from steersman.scaffold.render import TEMPLATES
from steersman.scaffold.transaction import PRIVATE
from steersman.version import __version__

EMPTY = Project(name="demo", package="demo_operator", domain="example.com", version=__version__)


def api(project: Project, kind="Example", version="v1", group="apps", **more) -> Project:
    return create_api(project, ApiOptions(group, version, kind, **more))


def webhook(project: Project, kind="Example", version="v1", group="apps", **more) -> Project:
    return create_webhook(project, WebhookOptions(group, version, kind, **more))


def made(root: Path, project: Project = EMPTY, **options) -> Path:
    """A project in a directory."""
    options.setdefault("manifests", False)
    initialise(root, EMPTY, **options)
    if project != EMPTY:
        update_files(root, project, **options)
    return root


def tree(root: Path) -> dict[str, bytes]:
    """Everything that is there."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".git/" not in path.as_posix()
    }


def lint(root: Path) -> str:
    """Return the output of ruff; empty without findings."""
    said = ""
    for words in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [find_ruff_bin(), *words, "--quiet", "--no-cache", "."], cwd=root, capture_output=True, text=True
        )
        said += done.stdout + done.stderr if done.returncode else ""
    return said


def broken(root: Path, package: str = EMPTY.package) -> str:
    """Return the error of the import of the operator or of its manifests; empty without one."""
    code = f"from steersman.manifests import config_files; from {package} import operator; config_files(operator)"
    done = subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", code], cwd=root, capture_output=True, text=True, timeout=60
    )
    return done.stderr


def newer_templates(directory: Path, *changes: tuple[str, str, str]) -> Path:
    """A copy of the templates with texts replaced: file name, old, new."""
    copy = directory / "templates"
    shutil.copytree(TEMPLATES, copy)
    for name, old, new in changes:
        (path,) = copy.rglob(name)
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
    return copy


def git(root: Path, *words: str) -> str:
    identity = ["-c", "user.name=tester", "-c", "user.email=tester@example.com", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *identity, *words], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout


def committed(root: Path) -> Path:
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "as generated")
    return root


__all__ = [
    "EMPTY", "PRIVATE", "api", "broken", "committed", "git", "lint", "made", "newer_templates", "tree", "webhook",
]  # fmt: skip
