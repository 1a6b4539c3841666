"""Finds imports of a project that its image would lack: modules of distributions outside its dependencies.

The development environment contains more than the image, so such an import fails only in the cluster. Imports for type
checkers and imports in `try: … except ImportError` are ignored. Reads files and metadata of installed distributions.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import Any, Final, cast

__all__ = ["Problem", "find_problems"]

LOCK: Final = "requirements.lock"
_NAME: Final = re.compile(r"\s*([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)\s*(?:\[([^\]]*)\])?")
_EXTRA: Final = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")
_MAX_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Problem:
    """A module that the image would lack, or a dependency that the lock file lacks."""

    place: str
    """A file with its line, or the lock file."""
    text: str
    hint: str
    certain: bool = True
    """False if no installed distribution contains the module, so that its origin is unknown."""

    def __str__(self) -> str:
        return f"{self.place}: {self.text}; {self.hint}"


def find_problems(root: Path) -> list[Problem]:
    """The problems of the project in a directory; none without a `pyproject.toml` that has a project.

    Raises:
        ValueError: `pyproject.toml` is not TOML.
        OSError: A file cannot be read.
    """
    file = root / "pyproject.toml"
    if not file.is_file():
        return []
    facts: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    project: dict[str, Any] | None = facts.get("project")
    if project is None or "dependencies" in (project.get("dynamic") or ()):
        return []
    declared = [str(one) for one in project.get("dependencies") or ()]
    found = list(_undeclared(root, _packages(root, facts), _closure(declared), declared))
    return [*found, *_unlocked(root, declared)]


def _packages(root: Path, facts: Mapping[str, Any]) -> list[Path]:
    """Return the packages of the wheel: those in hatchling's configuration, else all but tests."""
    tool: Any = facts.get("tool") or {}
    for key in ("hatch", "build", "targets", "wheel", "packages"):
        tool = cast("dict[str, Any]", tool).get(key) or {} if isinstance(tool, dict) else {}
    if isinstance(tool, list):
        return [root / str(name) for name in cast("list[Any]", tool)]
    return [path.parent for path in sorted(root.glob("*/__init__.py")) if path.parent.name not in ("tests", "test")]


def _undeclared(root: Path, packages: list[Path], brought: set[str], declared: list[str]) -> Iterator[Problem]:
    owners = packages_distributions()
    own = {path.name.removesuffix(".py") for path in packages}
    seen: set[str] = set()
    for file in sorted(file for package in packages for file in package.rglob("*.py")):
        for module, line in _imports(file):
            if module in seen or module in own or module in sys.stdlib_module_names:
                continue
            seen.add(module)
            distributions = sorted({_normal(name) for name in owners.get(module, ())})
            if brought & {*distributions, _normal(module)}:
                continue
            place = f"{file.relative_to(root).as_posix()}:{line}"
            if distributions:
                which = " or ".join(distributions)
                hint = f"add {which} to `dependencies` in pyproject.toml, then run `make lock`"
                yield Problem(
                    place, f"the module {module} belongs to {which}, which is not a dependency of the project", hint
                )
            else:
                hint = "add the distribution that provides it to `dependencies` in pyproject.toml, then run `make lock`"
                yield Problem(place, f"the module {module} belongs to no installed distribution", hint, certain=False)


def _imports(file: Path) -> Iterator[tuple[str, int]]:
    """Return the top-level names of the modules that a file imports at run time, with their lines."""
    with file.open("rb") as stream:
        text = stream.read(_MAX_BYTES)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # The import of the operator reports the syntax error.
    yield from _imports_of(tree.body)


def _imports_of(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    waiting = list(nodes)[::-1]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Import():
                yield from ((alias.name.partition(".")[0], node.lineno) for alias in node.names)
            case ast.ImportFrom(level=0, module=str(module)):
                yield module.partition(".")[0], node.lineno
            case ast.If() if _is_type_checking(node.test):
                waiting += reversed(node.orelse)
            case ast.Try() if any(_catches_import_errors(handler) for handler in node.handlers):
                waiting += reversed(node.finalbody)
            case _:
                waiting += reversed(list(ast.iter_child_nodes(node)))


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _catches_import_errors(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {one.id for one in caught if isinstance(one, ast.Name)}
    return bool(names & {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


def _closure(declared: Iterable[str]) -> set[str]:
    """Return all distributions that the declared ones require, as far as they are installed."""
    found: dict[str, set[str]] = {}
    waiting = list(declared)
    while waiting:
        matched = _NAME.match(waiting.pop())
        if matched is None:
            continue
        name, extras = _normal(matched[1]), {_normal(one) for one in (matched[2] or "").split(",") if one.strip()}
        if name in found and extras <= found[name]:
            continue
        found[name] = found.get(name, set[str]()) | extras
        try:
            needed = requires(name) or ()
        except PackageNotFoundError:
            continue
        for text in needed:
            wanted = {_normal(extra) for extra in _EXTRA.findall(text.partition(";")[2])}
            if not wanted or wanted & found[name]:
                waiting.append(text)
    return set(found)


def _unlocked(root: Path, declared: Iterable[str]) -> Iterator[Problem]:
    file = root / LOCK
    if not file.is_file():
        return
    locked = {
        _normal(matched[1])
        for line in file.read_text(encoding="utf-8").splitlines()
        if (matched := _NAME.match(line)) is not None and not line.startswith((" ", "\t"))
    }
    for text in declared:
        matched = _NAME.match(text)
        if matched is not None and _normal(matched[1]) not in locked:
            yield Problem(LOCK, f"{matched[1]} is missing, which pyproject.toml declares", "run `make lock`")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.strip()).lower()
