"""Problems in declarations, with their place in the user's code.

Problems are collected, so that one run reports all of them. A place is the class and field with file and line; without
source (a notebook, a zip) it is the class and field only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["ManifestError", "Origin", "Problems"]


@dataclass(frozen=True, slots=True)
class Origin:
    """The class and field that a part of a manifest is generated from."""

    owner: str = ""
    field: str = ""
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        what = f"{self.owner}.{self.field}" if self.field else self.owner
        return f"{self.file}:{self.line}: {what}" if self.file else what


class ManifestError(TypeError):
    """Declarations are invalid; the message has one line per problem."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class Problems:
    """Collects problems; `check()` raises `ManifestError` if there are any."""

    def __init__(self) -> None:
        self._found: dict[str, None] = {}

    def add(self, origin: Origin, text: str) -> None:
        """Add a problem at a place."""
        self._found[f"{origin}: {text}" if str(origin) else text] = None

    def __len__(self) -> int:
        return len(self._found)

    def check(self) -> None:
        """Raise `ManifestError` if there are problems."""
        if self._found:
            raise ManifestError(self._found)
