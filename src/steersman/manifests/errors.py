"""What is wrong with a declaration, and where in the user's code it stands.

Problems are collected, so that one run shows all of them. A place is the class and field with file and line; source
that cannot be had (a notebook, a zip) only makes the place shorter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["ManifestError", "Origin", "Problems"]


@dataclass(frozen=True, slots=True)
class Origin:
    """The class, and the field of it, that a part of a manifest comes from."""

    owner: str = ""
    field: str = ""
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        what = f"{self.owner}.{self.field}" if self.field else self.owner
        return f"{self.file}:{self.line}: {what}" if self.file else what


class ManifestError(TypeError):
    """Declarations from which no manifest can be made; one line of the message per problem."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class Problems:
    """Collects problems; `check()` raises `ManifestError` when there are any."""

    def __init__(self) -> None:
        self._found: dict[str, None] = {}

    def add(self, origin: Origin, text: str) -> None:
        self._found[f"{origin}: {text}" if str(origin) else text] = None

    def __len__(self) -> int:
        return len(self._found)

    def check(self) -> None:
        if self._found:
            raise ManifestError(self._found)
