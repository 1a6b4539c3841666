"""Renders the files of a `Project` from the templates; equal inputs give equal files.

Copier renders each template set into a temporary directory, whose files are read. Ruff then formats the Python files of
all sets, so that a new project passes its own linter. No other files are written.
"""

from __future__ import annotations

import builtins
import json
import keyword
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from steersman.extras import require
from steersman.manifests.sample_files import sample_file
from steersman.models.resource_info import guess_plural
from steersman.scaffold.errors import ScaffoldError
from steersman.scaffold.operations import controller_module, declared
from steersman.scaffold.project import Project, Resource, dump
from steersman.version import __version__

__all__ = ["TEMPLATES", "files_between", "read_tree", "render"]

TEMPLATES: Final = Path(__file__).parent / "templates"


def render(project: Project, templates: Path = TEMPLATES) -> dict[str, str]:
    """Render all files of a project, `PROJECT` included, sorted by path.

    Raises:
        ScaffoldError: A template is invalid.
        MissingExtraError: copier or ruff is not installed.
    """
    require("scaffolding", "dev", "copier", "ruff")
    files: dict[str, str] = {}
    for kind, answers in _sets(project):
        files.update(_render(templates, kind, json.dumps(answers, sort_keys=True)))
    files = _formatted(files, project.package)
    files["PROJECT"] = dump(project)
    return dict(sorted(files.items()))


def files_between(without: Project, project: Project) -> frozenset[str]:
    """Return the paths of files that are generated for `project` but not for `without`."""
    return frozenset(render(project).keys() - render(without).keys())


def _sets(project: Project) -> Iterator[tuple[str, dict[str, Any]]]:
    facts = _facts(project)
    yield "project", facts
    for package in _packages(project):
        yield "package", {**facts, **package}
    for resource in project.resources:
        answers = {**facts, **_resource(resource)}
        if resource.api:
            yield "api", answers
        for name in resource.controllers:
            yield "controller", {**answers, **_controller(resource, name)}
        if resource.webhooks.defaulting:
            yield "defaulting", answers
        if resource.webhooks.validation:
            yield "validation", answers
        for version in resource.webhooks.spoke:
            if spoke := project.find(resource.qualified_group, version, resource.kind):
                yield "conversion", {**answers, **_conversion(resource, spoke)}


def _facts(project: Project) -> dict[str, Any]:
    """Return the values for all templates."""
    own = [r for r in project.resources if r.api]
    return {
        "project_name": project.name,
        "package": project.package,
        "domain": project.domain,
        "steersman": __version__,
        "namespaced_operator": project.namespaced,
        "description": project.description or f"The operator {project.name}.",
        "license": project.license,
        "owner": project.owner,
        "controllers": sorted(controller_module(r, c) for r in project.resources for c in r.controllers),
        "webhooks": sorted(module for r in project.resources for module in _webhook_modules(r)),
        "kinds": [{"kind": r.kind, "group": r.qualified_group, "version": r.version, "plural": r.plural} for r in own],
        "manifest_options": ["--watch-namespace", f"{project.name}-system"] if project.namespaced else [],
        "python": "3.11",
    }


def _packages(project: Project) -> list[dict[str, Any]]:
    """Return the packages below `api` with their exports."""
    found: dict[str, tuple[set[str], dict[str, str]]] = {"api": (set(), {})}
    for r in project.resources:
        if r.api:
            words = r.path.split(".")[1:]
            for depth in range(1, len(words) - 1):
                found.setdefault(".".join(words[:depth]), (set(), {}))[0].add(words[depth])
            found.setdefault(".".join(words[:-1]), (set(), {}))[1][r.kind] = r.path
    return [
        {
            "package_name": name,
            "package_path": name.replace(".", "/"),
            "packages": sorted(packages),
            "exported": [{"kind": kind, "module": module} for kind, module in sorted(kinds.items())],
            "names": sorted([*packages, *kinds]),
        }
        for name, (packages, kinds) in sorted(found.items())
    ]


def _resource(resource: Resource) -> dict[str, Any]:
    """Return the values for the templates of one resource."""
    kind = resource.kind
    types_parent, _, types_name = resource.path.rpartition(".")
    return {
        "kind": kind,
        "article_lower": "an" if kind[0] in "AEIO" else "a",
        "article": "An" if kind[0] in "AEIO" else "A",
        "variable": kind.lower(),
        "variable_safe": _variable(kind),
        "group": resource.qualified_group,
        "version": resource.version,
        "api_version": "/".join(part for part in (resource.qualified_group, resource.version) if part),
        "plural": resource.plural,
        "odd_plural": resource.plural != guess_plural(kind),
        "namespaced": resource.namespaced,
        "own": resource.api,
        "storage": resource.storage,
        "module": resource.path,
        "types_parent": types_parent,
        "types_name": types_name,
        "types_dir": types_parent.replace(".", "/"),
        "stem": resource.stem,
        "sample": sample_file(resource.qualified_group, resource.version, kind).removesuffix(".yaml"),
        "sample_name": f"{kind.lower()}-sample",
        "defaulting_module": f"{resource.stem}_{resource.version}_defaulting",
        "validation_module": f"{resource.stem}_{resource.version}_validation",
    }


def _controller(resource: Resource, name: str) -> dict[str, Any]:
    """Return the values for the templates of one controller."""
    return {
        "declared": declared(resource, name),
        "name_argument": name,
        # Only one controller of a kind writes the status: two would remove each other's fields.
        "reports": resource.api and name == resource.controllers[0],
        "controller_module": controller_module(resource, name),
    }


def _variable(kind: str) -> str:
    """Return the name of a variable for an object of the kind."""
    word = kind.lower()
    taken = {"ctx", "old", "operator", "problems", "default", "validate", "reconcile", "ready_when"}
    return f"{word}_" if keyword.iskeyword(word) or word in taken or hasattr(builtins, word) else word


def _conversion(hub: Resource, spoke: Resource) -> dict[str, Any]:
    """Return the values for the templates of a conversion between a hub and one spoke."""
    parent, _, name = spoke.path.rpartition(".")
    return {
        "spoke": spoke.version,
        "spoke_parent": parent,
        "spoke_name": name,
        "spoke_sample": sample_file(spoke.qualified_group, spoke.version, spoke.kind).removesuffix(".yaml"),
        "conversion_module": _conversion_module(hub, spoke.version),
    }


def _conversion_module(hub: Resource, spoke: str) -> str:
    return f"{hub.stem}_{spoke}_conversion"


def _webhook_modules(resource: Resource) -> Iterator[str]:
    if resource.webhooks.defaulting:
        yield f"{resource.stem}_{resource.version}_defaulting"
    if resource.webhooks.validation:
        yield f"{resource.stem}_{resource.version}_validation"
    for spoke in resource.webhooks.spoke:
        yield _conversion_module(resource, spoke)


@lru_cache(maxsize=512)
def _render(templates: Path, kind: str, answers: str) -> Mapping[str, str]:
    from copier import run_copy

    with tempfile.TemporaryDirectory(prefix="steersman-scaffold-") as directory:
        run_copy(str(templates / kind), directory, data=json.loads(answers), defaults=True, quiet=True, overwrite=True)
        return read_tree(Path(directory))


def read_tree(directory: Path) -> dict[str, str]:
    """Return the text of every file below a directory."""
    return {
        path.relative_to(directory).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def _formatted(files: dict[str, str], package: str) -> dict[str, str]:
    """Format the Python files with ruff; results are cached."""
    python = tuple(sorted((path, text) for path, text in files.items() if path.endswith(".py")))
    return {**files, **_ruff_formatted(python, files["pyproject.toml"], package)}


@lru_cache(maxsize=64)
def _ruff_formatted(python: tuple[tuple[str, str], ...], pyproject: str, package: str) -> Mapping[str, str]:
    from ruff import find_ruff_bin  # pyright: ignore[reportMissingTypeStubs]

    try:
        ruff = find_ruff_bin()
    except FileNotFoundError:
        raise ScaffoldError("the executable of ruff is missing: pip install --force-reinstall ruff", 1) from None
    with tempfile.TemporaryDirectory(prefix="steersman-scaffold-") as directory:
        root = Path(directory)
        (root / "pyproject.toml").write_text(pyproject, encoding="utf-8")
        for path, text in python:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        for words in (["check", "--select", "I", "--fix"], ["format"]):
            done = subprocess.run(  # noqa: S603 - our own arguments, no shell
                [ruff, *words, "--no-cache", "--quiet", "."],
                cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                print(done.stdout, done.stderr, file=sys.stderr)  # noqa: T201 - the template has an error: show the place
                raise ScaffoldError("the templates of this version generate invalid Python", 1)
        return {path: (root / path).read_text(encoding="utf-8") for path, _ in python}
