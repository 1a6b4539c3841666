r"""Field selectors: `metadata.name=web,status.phase!=Failed`.

Values are any text, unlike label values, with `\` before commas, equals signs and backslashes; the grammar is that of
`apimachinery/pkg/fields`. The module does not know the fields of kinds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

__all__ = ["FieldSelector", "FieldTerm", "SelectorError", "parse_fields"]


class SelectorError(ValueError):
    """A selector is invalid; the message names the place."""


class FieldTerm(NamedTuple):
    """A field that must, or must not, have a value."""

    field: str
    equal: bool
    value: str

    def __str__(self) -> str:
        return f"{self.field}{'=' if self.equal else '!='}{_escape(self.value)}"


class FieldSelector:
    """Terms on fields (`metadata.name=web,status.phase!=Failed`) that must all hold; absent fields count as `""`."""

    __slots__ = ("terms",)

    terms: tuple[FieldTerm, ...]

    def __init__(self, terms: Iterable[FieldTerm] = ()) -> None:
        self.terms = tuple(sorted(set(terms)))

    def matches(self, fields: Mapping[str, str] | Callable[[str], str | None]) -> bool:
        """Return whether an object is selected, by a mapping of its fields or a function that returns a field."""
        look = fields if callable(fields) else fields.get
        return all(((look(t.field) or "") == t.value) is t.equal for t in self.terms)

    def exact(self, field: str) -> str | None:
        """Return the value that the selector requires for `field`, or None."""
        return next((t.value for t in self.terms if t.field == field and t.equal), None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldSelector) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))

    def __repr__(self) -> str:
        return f"FieldSelector({str(self)!r})"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


_TERM: Final = re.compile(r"((?:[^\\,]|\\.)*)(,|$)", re.DOTALL)
_FIELD: Final = re.compile(r"(.*?)(!=|==|=)(.*)", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\([\\,=])|([\\,=])")


def parse_fields(text: str) -> FieldSelector:
    r"""Parse `a.b=c,d!=e`, with `\` before commas, equals signs and backslashes in values. Raises `SelectorError`."""

    def unescape(match: re.Match[str]) -> str:
        if match[2]:
            raise SelectorError(f"field selector {text!r}: write '\\{match[2]}' for {match[2]!r} in a value")
        return match[1]

    terms: list[FieldTerm] = []
    position = 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None or (match.end() == position and not match[2]):
            raise SelectorError(f"field selector {text!r}: a lone backslash at the end")
        position = match.end()
        if not match[1]:
            continue
        parts = _FIELD.fullmatch(match[1])
        if parts is None:
            raise SelectorError(f"field selector {text!r}: {match[1]!r} has none of =, ==, !=")
        if not (parts[1] or parts[3]):
            continue  # "=" and "!=" alone select everything, as in Go
        terms.append(FieldTerm(parts[1], parts[2] != "!=", _ESCAPED.sub(unescape, parts[3])))
    return FieldSelector(terms)
