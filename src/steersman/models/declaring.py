"""Errors of invalid declarations of classes and markers, with the user's file and line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

__all__ = ["ModelDeclarationError", "checked_marker"]

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE: Final = str(Path(__file__).resolve().parent.parent)
_SIGNATURE: Final = re.compile(r"^(?:\w+\.)?\w+\(\) ")
"""The start of Python's message about missing or unexpected arguments: `CEL.__init__() missing …`."""


class ModelDeclarationError(TypeError):
    """A class or marker is declared incorrectly; the message starts with the user's file and line.

    The place is missing if the source is unknown, as for annotations that are evaluated later.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(f"{_place()}{problem}")


def _place() -> str:
    """Return `FILE:LINE: ` of the innermost frame outside of this package, or "" if that is generated code."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    if frame is None or frame.f_code.co_filename.startswith("<"):
        return ""
    return f"{frame.f_code.co_filename}:{frame.f_lineno}: "


def checked_marker(make: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function or `__init__` that makes a marker: wrong arguments raise `ModelDeclarationError`."""

    @wraps(make)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return make(*args, **kwargs)
        except ModelDeclarationError:
            raise
        except (TypeError, ValueError, re.error) as wrong:
            name = type(args[0]).__name__ if make.__name__ == "__init__" else make.__name__
            raise ModelDeclarationError(f"{name}: {_SIGNATURE.sub('', str(wrong))}") from None

    return checked
