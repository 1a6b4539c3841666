"""Reads what Python does not keep: the docstrings of attributes, and the lines they stand on.

The source of a class is parsed, never run. A class without source, such as one made at run time, has no
descriptions and no lines, which is no error.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass, field
from functools import lru_cache

__all__ = ["ClassSource", "FieldSource", "source_of"]


@dataclass(frozen=True, slots=True)
class FieldSource:
    line: int
    doc: str = ""


@dataclass(frozen=True, slots=True)
class ClassSource:
    """Where a class stands, and the attributes that its own body (no base's) declares."""

    file: str = ""
    line: int = 0
    fields: dict[str, FieldSource] = field(default_factory=dict[str, FieldSource])


@lru_cache(maxsize=2048)
def source_of(cls: type) -> ClassSource:
    """The source of a class, or an empty answer where there is none."""
    try:
        file = inspect.getsourcefile(cls) or ""
        lines, start = inspect.getsourcelines(cls)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return ClassSource()
    body = tree.body[0] if tree.body else None
    if not isinstance(body, ast.ClassDef) or body.name != cls.__name__:
        return ClassSource()
    found: dict[str, FieldSource] = {}
    for position, statement in enumerate(body.body):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            following = body.body[position + 1] if position + 1 < len(body.body) else None
            found[statement.target.id] = FieldSource(start + statement.lineno - 1, _doc(following))
    return ClassSource(file, start, found)


def _doc(statement: ast.stmt | None) -> str:
    match statement:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return inspect.cleandoc(text)
        case _:
            return ""
