"""Regular expressions of schemas, CEL and models, matched by RE2: the syntax and the linear time of Go's own engine.

Python's engine backtracks: a pattern and a value of fifty characters can hold the event loop for hours. RE2 refuses at
declaration the syntax that no engine matches in linear time (back-references, look-around), as Go does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, Protocol

import re2 as _re2  # pyright: ignore[reportMissingTypeStubs]

__all__ = ["Match", "Regex", "compile_matcher", "compile_pattern"]

re2: Any = _re2
"""The library comes without types; `Regex` and `Match` declare the parts that this module uses."""

_REMEMBERED_TEXTS: Final = 256
_REMEMBERED_CHARACTERS: Final = 256
"""The size of a matcher's cache: the number of results, and the length of texts in characters."""

_GO_TEXTS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
    "pattern too large - compile failed": "expression too large",
}


class Match(Protocol):
    """One match in a text."""

    def group(self, group: int = 0, /) -> str:
        """Return the text of a group."""
        ...


class Regex(Protocol):
    """A compiled expression."""

    def search(self, text: str, /) -> Match | None:
        """Return the first match in a text, or None."""
        ...

    def finditer(self, text: str, /) -> Iterator[Match]:
        """Yield the matches in a text."""
        ...


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Regex:
    """Return a compiled expression to `search` with. Raises `ValueError`, in Go's words, for one that Go refuses."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        text = error.args[0]
        raise ValueError(_go_text(text.decode() if isinstance(text, bytes) else str(text))) from None
    except UnicodeEncodeError:
        raise ValueError(f"invalid UTF-8: {pattern!r}") from None


@lru_cache(maxsize=1024)
def compile_matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that says whether a text matches an expression somewhere.

    Objects are read over and over with the same short texts, so the function remembers results. A text with half a
    surrogate pair is no Unicode and matches nothing. Raises `ValueError` as `compile_pattern` does.
    """
    compile_pattern(pattern)
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    search = re2.compile(pattern.encode(), options).search

    def matches(text: str) -> bool:
        try:
            return search(text.encode()) is not None
        except UnicodeEncodeError:
            return False

    remembered = lru_cache(_REMEMBERED_TEXTS)(matches)
    return lambda text: remembered(text) if len(text) <= _REMEMBERED_CHARACTERS else matches(text)


def _go_text(text: str) -> str:
    """Return an error of RE2 as Go writes it: ``missing closing ): `(a` ``."""
    problem, colon, where = text.partition(": ")
    problem = _GO_TEXTS.get(problem, problem)
    return f"{problem}: `{where}`" if colon else problem
