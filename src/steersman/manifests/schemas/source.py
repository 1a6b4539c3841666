"""Reads the docstrings of attributes and the lines of declarations, which Python does not keep.

The source of a class is parsed, never executed. A class without source, such as one created at run time, has no
descriptions and no lines.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from dataclasses import dataclass, field
from functools import lru_cache

__all__ = ["ClassSource", "FieldSource", "source_of"]


@dataclass(frozen=True, slots=True)
class FieldSource:
    """The line and docstring of a field."""

    line: int
    doc: str = ""


@dataclass(frozen=True, slots=True)
class ClassSource:
    """The place of a class, and the attributes that its own body declares, without those of bases."""

    file: str = ""
    line: int = 0
    fields: dict[str, FieldSource] = field(default_factory=dict[str, FieldSource])


@lru_cache(maxsize=2048)
def source_of(cls: type) -> ClassSource:
    """Return the source of a class, or an empty one if it has none."""
    try:
        file = inspect.getsourcefile(cls) or ""
        linecache.checkcache(file)
        text = "".join(linecache.getlines(file, getattr(sys.modules.get(cls.__module__), "__dict__", None)))
    except (OSError, TypeError):
        return ClassSource()
    found = _classes_in(file, text).get(cls.__qualname__)
    return ClassSource() if found is None else found


@lru_cache(maxsize=64)
def _classes_in(file: str, text: str) -> dict[str, ClassSource]:
    """Return all classes of a file by qualified name; the file is parsed once for all its classes."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    found: dict[str, ClassSource] = {}
    _collect(tree.body, file, "", found)
    return found


def _collect(body: list[ast.stmt], file: str, prefix: str, found: dict[str, ClassSource]) -> None:
    for statement in body:
        match statement:
            case ast.ClassDef(name=name):
                found.setdefault(f"{prefix}{name}", _class(statement, file))
                _collect(statement.body, file, f"{prefix}{name}.", found)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                _collect(statement.body, file, f"{prefix}{name}.<locals>.", found)
            case _:
                for part in ("body", "orelse", "finalbody"):
                    _collect(getattr(statement, part, []), file, prefix, found)
                for inner in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                    _collect(inner.body, file, prefix, found)


def _class(node: ast.ClassDef, file: str) -> ClassSource:
    fields: dict[str, FieldSource] = {}
    for position, statement in enumerate(node.body):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            following = node.body[position + 1] if position + 1 < len(node.body) else None
            fields[statement.target.id] = FieldSource(statement.lineno, _doc(following))
    return ClassSource(file, min([node.lineno, *(each.lineno for each in node.decorator_list)]), fields)


def _doc(statement: ast.stmt | None) -> str:
    match statement:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return inspect.cleandoc(text)
        case _:
            return ""
