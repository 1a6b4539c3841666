"""Reads configuration files as Java's `Properties.load` does, for lines of `KEY=VALUE`."""

from __future__ import annotations

import re

__all__ = ["load_properties"]

_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_CONTROL = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}
_SIGN = re.compile(r"(?<!\\)((?:\\\\)*)=")
"""The first `=` that is not escaped."""


def load_properties(text: str) -> dict[str, str]:
    """Return the properties of a file."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        sign = _SIGN.search(line)
        if sign is not None:
            found[_unescaped(line[: sign.end() - 1])] = _unescaped(line[sign.end() :])
    return found


def _unescaped(text: str) -> str:
    units = _ESCAPED.sub(_character, text)
    # Characters outside of the basic plane are two escapes, as in UTF-16.
    return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def _character(escape: re.Match[str]) -> str:
    unit, character = escape.groups()
    return chr(int(unit, 16)) if unit else _CONTROL.get(character, character)
