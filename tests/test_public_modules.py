"""Operators, examples and scaffolds use what every user may use: the public modules, and the names they export."""

import ast
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "src" / "steersman" / "scaffold" / "templates"
PUBLIC = {
    "steersman",
    "steersman.cache",
    "steersman.client",
    "steersman.client.config",
    "steersman.controller",
    "steersman.k8s",
    "steersman.logs",
    "steersman.manifest_files",
    "steersman.manifests",
    "steersman.metrics",
    "steersman.models",
    "steersman.models.markers",
    "steersman.models.selectors",
    "steersman.operator",
    "steersman.predicates",
    "steersman.testing",
    "steersman.testing.explore",
    "steersman.testing.faults",
    "steersman.testing.node_faults",
    "steersman.webhook",
}
"""The modules of VERSIONING.md; those of `steersman.k8s` are public, too."""

PROJECTS = sorted(p for folder in ("operators", "examples") for p in (ROOT / folder).iterdir() if p.is_dir())


def is_public(module: str) -> bool:
    return module in PUBLIC or module.startswith("steersman.k8s.")


def imports_of(source: str) -> list[tuple[int, str, tuple[str, ...]]]:
    """Line, module and names of each import of Steersman's distributions."""
    found: list[tuple[int, str, tuple[str, ...]]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.append((node.lineno, node.module, tuple(alias.name for alias in node.names)))
        elif isinstance(node, ast.Import):
            found += [(node.lineno, alias.name, ()) for alias in node.names]
    return [one for one in found if one[1].split(".")[0] in ("steersman", "steersman_cluster")]


def exported_by(module: str) -> set[str]:
    """The names that a module exports; generated modules of `steersman.k8s` have no `__all__`."""
    loaded = importlib.import_module(module)
    return set(getattr(loaded, "__all__", None) or dir(loaded))


def problems_of(source: str) -> list[str]:
    problems: list[str] = []
    for line, module, names in imports_of(source):
        if not is_public(module):
            problems.append(f"{line}: {module} is not public")
            continue
        exported = exported_by(module)
        problems += [
            f"{line}: {module} does not export {name}"
            for name in names
            if name not in exported and not is_public(f"{module}.{name}")
        ]
    return problems


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_a_project_imports_only_public_names(project):
    files = [path for path in project.rglob("*.py") if ".venv" not in path.parts]
    assert files
    problems = [f"{path.relative_to(ROOT)}:{p}" for path in files for p in problems_of(path.read_text())]
    assert not problems, "\n".join(problems)


def test_scaffolds_import_only_public_modules():
    files = list(TEMPLATES.rglob("*.py.jinja"))
    assert files
    modules = {
        (path.name, module)
        for path in files
        for module in re.findall(r"^\s*(?:from|import) (steersman[\w.]*)", path.read_text(), re.MULTILINE)
    }
    assert modules
    assert not [found for found in modules if not is_public(found[1])]


def test_internal_modules_and_names_are_found():
    source = (
        "from steersman.testing.embedded import EmbeddedCluster\n"
        "import steersman_cluster.kinds\n"
        "from steersman import Operator, Opperator\n"
        "from steersman.testing import faults\n"
    )
    assert problems_of(source) == [
        "1: steersman.testing.embedded is not public",
        "2: steersman_cluster.kinds is not public",
        "3: steersman does not export Opperator",
    ]


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_a_public_module_exports_what_it_says(module):
    loaded = importlib.import_module(module)
    missing = [name for name in exported_by(module) if not hasattr(loaded, name)]
    assert not missing


def test_the_versioning_page_lists_the_public_modules():
    page = (ROOT / "VERSIONING.md").read_text()
    for module in PUBLIC - {"steersman"}:
        short = module.removeprefix("steersman.")
        assert f"`{short}`" in page or f"`{module}`" in page, module


def callables_of(module: str) -> Iterator[tuple[str, Callable[..., object]]]:
    """The exported functions, and the public methods and constructors of exported classes."""
    loaded = importlib.import_module(module)
    for name in exported_by(module):
        value = getattr(loaded, name)
        if inspect.isclass(value):
            members = inspect.getmembers(value, inspect.isfunction)
            yield from ((f"{module}.{name}.{method}", call) for method, call in members if not method.startswith("_"))
        elif inspect.isfunction(value):
            yield f"{module}.{name}", value


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_an_optional_namespace_is_a_keyword(module):
    wrong = [
        name
        for name, call in callables_of(module)
        for parameter in inspect.signature(call).parameters.values()
        if parameter.name in ("namespace", "namespaces")
        and parameter.default is not parameter.empty
        and parameter.kind is not parameter.KEYWORD_ONLY
    ]
    assert not wrong
