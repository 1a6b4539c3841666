"""Finds an example for each public name, in code that the tests run: pages, examples, operators, tests.

python hack/api_examples.py    # the public names without an example
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Example", "examples", "public_names", "statements"]

ROOT: Final = Path(__file__).resolve().parent.parent
MAX_LINES: Final = 10
_PYTHON_BLOCK: Final = re.compile(r"^```python(?! title=\"not run)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_NAME: Final = re.compile(r"^::: (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """A statement that uses a name, and the file that contains it, relative to the repository."""

    file: str
    code: str


def _sources() -> Iterator[tuple[str, Iterable[Path]]]:
    """Yield the kinds of files, best first."""
    yield "pages", sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "reference")
    yield "examples", sorted((ROOT / "examples").rglob("*.py"))
    yield "operators", sorted((ROOT / "operators").rglob("*.py"))
    yield "tests", sorted((ROOT / "tests").rglob("*.py"))


def _code(file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    return "\n".join(_PYTHON_BLOCK.findall(text)) if file.suffix == ".md" else text


def statements(code: str, modules: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield module, name and statement for each use of a name that the code imports from one of the modules."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return
    imported = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in modules
        for alias in node.names
    }
    lines = code.splitlines()
    for statement in ast.walk(tree):
        if isinstance(statement, ast.stmt) and not isinstance(statement, ast.Import | ast.ImportFrom):
            used = {name.id for name in _own_names(statement)} & set(imported)
            if used and (text := _text(statement, lines)):
                for name in used:
                    module, public = imported[name]
                    assert module is not None
                    yield module, public, text


def _own_names(statement: ast.stmt) -> Iterator[ast.Name]:
    """Yield the names of a statement, without those of the statements in it."""
    waiting: list[ast.AST] = [child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            yield node
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


def _text(statement: ast.stmt, lines: Sequence[str]) -> str:
    """Return the source of a statement, of a long one only its first lines, or nothing if it is too long."""
    decorators = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(decorator.lineno for decorator in decorators)]) - 1
    last = statement.end_lineno or statement.lineno
    body: list[ast.stmt] = getattr(statement, "body", [])
    if last - first > MAX_LINES and body and isinstance(body, list):
        last = body[0].lineno - 1
        if last - first > MAX_LINES or last <= first:
            return ""
        return textwrap.dedent("\n".join(lines[first:last])).rstrip() + "\n    ..."
    return textwrap.dedent("\n".join(lines[first:last])).rstrip() if last - first <= MAX_LINES else ""


def public_names() -> dict[str, tuple[str, frozenset[str]]]:
    """Return the name of each entry of the reference of the API, and the modules that export it, by its path."""
    found: dict[str, set[str]] = {}
    module = ""
    for line in (ROOT / "docs/reference/api.md").read_text().splitlines():
        if line.startswith("## `"):
            module = line.strip("# `")
        elif entry := _NAME.match(line):
            found.setdefault(entry[1], set()).add(module)
    return {path: (path.rpartition(".")[2], frozenset(modules)) for path, modules in found.items()}


def examples() -> dict[str, Example]:
    """Return the shortest example of the best kind of file for each entry of the reference that has one."""
    paths = public_names()
    modules = sorted({module for _, exporting in paths.values() for module in exporting})
    found: dict[str, Example] = {}
    for _, files in _sources():
        candidates: dict[tuple[str, str], list[Example]] = {}
        for file in files:
            for module, name, text in statements(_code(file), modules):
                candidates.setdefault((module, name), []).append(Example(str(file.relative_to(ROOT)), text))
        for path, (name, exporting) in paths.items():
            usable = [one for module in exporting for one in candidates.get((module, name), [])]
            if usable and path not in found:
                found[path] = min(
                    usable, key=lambda one: (one.code.count("\n"), len(one.code) < 20, one.file, one.code)
                )
    return found


def main() -> None:
    found = examples()
    missing = [path for path in public_names() if path not in found]
    print(*missing, sep="\n")
    print(f"{len(found)} of {len(found) + len(missing)} names have an example", file=sys.stderr)


if __name__ == "__main__":
    main()
