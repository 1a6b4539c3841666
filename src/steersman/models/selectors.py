"""Label and field selectors: parsing, evaluation and formatting.

The grammar, the meaning of absent labels and the limits are those of `apimachinery/pkg/labels` and `pkg/fields`.
Selectors are hashable values, and selectors with the same requirements are equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from steersman.models.fields import FieldSelector, FieldTerm, SelectorError, parse_fields
from steersman.models.labels import check_label_key, check_label_value
from steersman.models.meta import LabelSelector

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "FieldSelector",
    "FieldTerm",
    "Operator",
    "Requirement",
    "Selector",
    "SelectorError",
    "from_label_selector",
    "from_labels",
    "from_requirements",
    "parse_fields",
    "parse_labels",
    "requirement",
]


class Operator(StrEnum):
    """The operators of requirements, with the API's names. `Gt` and `Lt` compare integers."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)


def _int64(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text) if len(text) < 40 else 1 << 64
    return number if -(1 << 63) <= number < 1 << 63 else None


class Requirement(NamedTuple):
    """One requirement on one label; `values` is sorted. `requirement(…)` creates it with checks."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels satisfy the requirement; an absent label satisfies only `NotIn` and `DoesNotExist`."""
        value = labels.get(self.key)
        operator = self.operator
        if operator is Operator.IN:
            return value is not None and value in self.values
        if operator is Operator.NOT_IN:
            return value is None or value not in self.values
        if operator is Operator.EXISTS:
            return value is not None
        if operator is Operator.DOES_NOT_EXIST:
            return value is None
        have, limit = _int64(value) if value is not None else None, _int64(self.values[0])
        if have is None or limit is None:
            return False
        return have > limit if operator is Operator.GT else have < limit

    def __str__(self) -> str:
        key, values = self.key, self.values
        match self.operator:
            case Operator.EXISTS:
                return key
            case Operator.DOES_NOT_EXIST:
                return f"!{key}"
            case Operator.GT:
                return f"{key}>{values[0]}"
            case Operator.LT:
                return f"{key}<{values[0]}"
            case Operator.IN:
                return f"{key}={values[0]}" if len(values) == 1 else f"{key} in ({','.join(values)})"
            case Operator.NOT_IN:
                return f"{key}!={values[0]}" if len(values) == 1 else f"{key} notin ({','.join(values)})"


def requirement(key: str, operator: str, values: Iterable[str] = ()) -> Requirement:
    """Return a valid requirement. Raises `SelectorError` with the key."""
    try:
        what = Operator(operator)
    except ValueError:
        raise SelectorError(f"{key}: unknown operator {operator!r}; there are {', '.join(Operator)}") from None
    distinct = tuple(sorted(set(values)))
    try:
        check_label_key(key)
        for value in distinct:
            check_label_value(value, key)
    except ValueError as problem:
        raise SelectorError(str(problem)) from None
    if what in (Operator.IN, Operator.NOT_IN) and not distinct:
        raise SelectorError(f"{key}: operator {what} needs at least one value")
    if what in (Operator.EXISTS, Operator.DOES_NOT_EXIST) and distinct:
        raise SelectorError(f"{key}: operator {what} takes no values")
    if what in (Operator.GT, Operator.LT) and (len(distinct) != 1 or _int64(distinct[0]) is None):
        raise SelectorError(f"{key}: operator {what} needs exactly one integer")
    return Requirement(key, what, distinct)


class Selector:
    """Requirements on labels that must all hold; `EVERYTHING` has none, `NOTHING` is never satisfied.

    `str(selector)` is the query parameter `labelSelector`, sorted by key. That of `NOTHING` is a contradiction,
    because an empty one would select everything.
    """

    __slots__ = ("_hash", "requirements")

    requirements: tuple[Requirement, ...]

    def __init__(self, requirements: Iterable[Requirement] = ()) -> None:
        self.requirements = tuple(sorted(set(requirements)))
        self._hash = hash(self.requirements)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels satisfy all requirements."""
        for each in self.requirements:  # noqa: SIM110 - a generator would double the cost of the hot path
            if not each.matches(labels):
                return False
        return True

    @property
    def is_everything(self) -> bool:
        """Whether the selector has no requirements."""
        return not self.requirements

    def exact(self, key: str) -> str | None:
        """Return the value that the selector requires for `key`, for a look-up in an index, or None."""
        for each in self.requirements:
            if each.key == key and each.operator is Operator.IN and len(each.values) == 1:
                return each.values[0]
        return None

    def __and__(self, other: Selector) -> Selector:
        return Selector((*self.requirements, *other.requirements))

    def __iter__(self) -> Iterator[Requirement]:
        return iter(self.requirements)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selector) and self.requirements == other.requirements

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return f"Selector({str(self)!r})"


EVERYTHING: Final = Selector()
"""Matches every object."""
NOTHING: Final = Selector((Requirement("nothing", Operator.EXISTS), Requirement("nothing", Operator.DOES_NOT_EXIST)))
"""Matches no object."""


def from_labels(labels: Mapping[str, str]) -> Selector:
    """Return the selector of objects with all these labels. Raises `SelectorError` for invalid labels."""
    return Selector(requirement(k, Operator.IN, (v,)) for k, v in labels.items())


def from_label_selector(selector: LabelSelector | None) -> Selector:
    """Convert a `LabelSelector`: empty matches everything, `None` nothing. Raises `SelectorError`."""
    if selector is None:
        return NOTHING
    rules = [requirement(k, Operator.IN, (v,)) for k, v in selector.match_labels.items()]
    for each in selector.match_expressions:
        if each.operator in ("Gt", "Lt"):
            raise SelectorError(f"{each.key}: operator {each.operator} is not allowed in a label selector")
        rules.append(requirement(each.key, each.operator, each.values))
    return Selector(rules)


class RequirementLike(Protocol):
    """A requirement of the API: of a `LabelSelector`, or a `NodeSelectorRequirement`."""

    @property
    def key(self) -> str:
        """The key of the label."""
        ...

    @property
    def operator(self) -> str:
        """The operator."""
        ...

    @property
    def values(self) -> tuple[str, ...]:
        """The values; empty for operators without values."""
        ...


def from_requirements(requirements: Iterable[RequirementLike]) -> Selector:
    """Convert the `matchExpressions` of a node selector term; an empty term matches nothing."""
    rules = [requirement(r.key, r.operator, r.values) for r in requirements]
    return Selector(rules) if rules else NOTHING


_TOKEN: Final = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!(),<>])|([^ \t\r\n=!(),<>]+)|$)")
_COMPARISONS: Final[Mapping[str, Operator]] = {
    "=": Operator.IN, "==": Operator.IN, "!=": Operator.NOT_IN, ">": Operator.GT, "<": Operator.LT,
}  # fmt: skip


class _LabelParser:
    """A recursive-descent parser; the words `in` and `notin` are operators only at the position of an operator."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            assert match is not None
            symbol, word = match.groups()
            if symbol or word:
                self.tokens.append(("symbol" if symbol else "word", symbol or word, match.end()))
            position = match.end()
        self.at = 0

    def fail(self, expected: str) -> SelectorError:
        found = repr(self.tokens[self.at][1]) if self.at < len(self.tokens) else "the end"
        return SelectorError(f"label selector {self.text!r}: found {found}, expected {expected}")

    def peek(self) -> str:
        """Return the current symbol, `"word"`, or `""` at the end."""
        if self.at >= len(self.tokens):
            return ""
        kind, text, _ = self.tokens[self.at]
        return text if kind == "symbol" else kind

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1][1]

    def word(self, expected: str) -> str:
        if self.peek() != "word":
            raise self.fail(expected)
        return self.take()

    def parse(self) -> Selector:
        rules: list[Requirement] = []
        while self.peek():
            rules.append(self.rule())
            if not self.peek():
                break
            if self.peek() != ",":
                raise self.fail("',' or the end")
            self.take()
            if self.peek() not in ("word", "!"):
                raise self.fail("a label key after ','")
        return Selector(rules)

    def rule(self) -> Requirement:
        if self.peek() == "!":
            self.take()
            return self.made(self.word("a label key after '!'"), Operator.DOES_NOT_EXIST, ())
        key = self.word("a label key or '!'")
        following = self.peek()
        if following in ("", ","):
            return self.made(key, Operator.EXISTS, ())
        if following in _COMPARISONS:
            operator = _COMPARISONS[self.take()]
            value = "" if self.peek() in ("", ",") else self.word("a value")
            return self.made(key, operator, (value,))
        if following == "word" and self.tokens[self.at][1] in ("in", "notin"):
            operator = Operator.IN if self.take() == "in" else Operator.NOT_IN
            return self.made(key, operator, self.values())
        raise self.fail("one of =, ==, !=, in, notin, >, <")

    def values(self) -> list[str]:
        if self.peek() != "(":
            raise self.fail("'('")
        self.take()
        values = [self.value()]
        while self.peek() == ",":
            self.take()
            values.append(self.value())
        if self.peek() != ")":
            raise self.fail("',' or ')'")
        self.take()
        return values

    def value(self) -> str:
        return self.take() if self.peek() == "word" else ""

    def made(self, key: str, operator: Operator, values: Iterable[str]) -> Requirement:
        try:
            return requirement(key, operator, values)
        except SelectorError as problem:
            raise SelectorError(f"label selector {self.text!r}: {problem}") from None


def parse_labels(text: str) -> Selector:
    """Parse `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`; empty text is `EVERYTHING`. Raises `SelectorError`."""
    return _LabelParser(text).parse()
