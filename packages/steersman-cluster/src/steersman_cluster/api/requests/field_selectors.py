"""Field selectors: `spec.nodeName=a,status.phase!=Running`; apimachinery's `pkg/fields` is followed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from steersman_cluster.errors import bad_request

__all__ = ["FieldSelector", "parse_fields"]


class _Term(NamedTuple):
    field: str
    equals: bool
    value: str


class FieldSelector(NamedTuple):
    """All terms must hold."""

    terms: tuple[_Term, ...]

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Return whether these fields are selected."""
        return all((fields.get(term.field, "") == term.value) is term.equals for term in self.terms)

    @property
    def names(self) -> frozenset[str]:
        """The fields of the requirements, for the check that the kind supports them."""
        return frozenset(term.field for term in self.terms)

    def exact(self, field: str) -> str | None:
        """The value that a field must have, where there is just one."""
        for term in self.terms:
            if term.field == field and term.equals:
                return term.value
        return None


MAX_TERMS: Final = 1000


def parse_fields(text: str) -> FieldSelector:
    """Parse a selector. Raises `APIError` (400) for an invalid one."""
    terms: list[_Term] = []
    for part in _split(text):
        if not part:
            continue
        term = _term(part)
        if term is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        terms.append(term)
        if len(terms) > MAX_TERMS:
            raise bad_request(f"a field selector may have {MAX_TERMS} terms, and this one has more")
    return FieldSelector(tuple(terms))


def _split(text: str) -> list[str]:
    parts, held, at = list[str](), "", 0
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text):
            held += text[at : at + 2]
            at += 2
            continue
        if text[at] == ",":
            parts.append(held)
            held = ""
        else:
            held += text[at]
        at += 1
    return [*parts, held]


def _term(part: str) -> _Term | None:
    for at in range(len(part)):
        for sign, equals in (("!=", False), ("==", True), ("=", True)):
            if part.startswith(sign, at):
                return _Term(part[:at], equals, _unescape(part[at + len(sign) :]))
    return None


def _unescape(value: str) -> str:
    out, at = "", 0
    while at < len(value):
        if value[at] == "\\":
            if at + 1 >= len(value) or value[at + 1] not in "\\,=":
                raise bad_request(f"invalid field selector: invalid escape sequence: {value[at : at + 2]}")
            at += 1
        elif value[at] in ",=":
            raise bad_request(f"invalid field selector: unescaped character in value: {ord(value[at])}")
        out += value[at]
        at += 1
    return out
