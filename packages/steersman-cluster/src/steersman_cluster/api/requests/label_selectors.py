"""Label selectors of requests, with the refusals of apimachinery's `labels.Parse`.

`steersman.models.selectors` defines their meaning. This module is a parser with the texts of the API server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from steersman.models.selectors import Operator, Requirement, Selector
from steersman_cluster.errors import bad_request
from steersman_cluster.kinds import formats

__all__ = ["parse_selector"]

_TOKEN: Final = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+)")
_SYMBOLS: Final = frozenset(("==", "!=", "=", "!", "(", ")", ",", "<", ">", ""))
_OPERATORS: Final = {
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    "=": Operator.IN,
    "==": Operator.IN,
    "!=": Operator.NOT_IN,
    ">": Operator.GT,
    "<": Operator.LT,
}
_EXPECTED: Final = "in, notin, =, ==, !=, gt, lt"
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)


class _RefusedError(Exception):
    pass


class _Rule(NamedTuple):
    key: str
    operator: Operator
    values: tuple[str, ...] = ()


MAX_REQUIREMENTS: Final = 1000
"""Requirements of one label selector. The real server has no limit; clients of ours write a few."""


def parse_selector(text: str) -> Selector:
    """Parse a selector. Raises `APIError` (400) for an invalid one."""
    try:
        rules = _Parser(text).parse()
    except _RefusedError as refused:
        raise bad_request(str(refused)) from None
    return Selector(Requirement(rule.key, rule.operator, tuple(sorted(set(rule.values)))) for rule in rules)


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[str] = _TOKEN.findall(text)
        self.at = 0

    def peek(self) -> str:
        """The token at hand, `""` at the end."""
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        found = self.peek()
        self.at += 1
        return found

    def parse(self) -> list[_Rule]:
        rules: list[_Rule] = []
        while found := self.peek():
            if found in _SYMBOLS and found != "!":
                raise _RefusedError(f"found '{found}', expected: !, identifier, or 'end of string'")
            if len(rules) == MAX_REQUIREMENTS:
                raise _RefusedError(f"a selector may have {MAX_REQUIREMENTS} requirements, and this one has more")
            try:
                rules.append(self.rule())
            except _RefusedError as refused:
                raise _RefusedError(f"unable to parse requirement: {refused}") from None
            following = self.take()
            if not following:
                break
            if following != ",":
                raise _RefusedError(f"found '{following}', expected: ',' or 'end of string'")
            after = self.peek()
            if after in _SYMBOLS and after != "!":
                raise _RefusedError(f"found '{after}', expected: identifier after ','")
        return rules

    def rule(self) -> _Rule:
        key, absent = self.take(), False
        if key == "!":
            key, absent = self.take(), True
        if key in _SYMBOLS:
            raise _RefusedError(f"found '{key}', expected: identifier")
        if problems := formats.label_key(key):
            raise _RefusedError(f"<nil>: Invalid value: {json.dumps(key, ensure_ascii=False)}: {'; '.join(problems)}")
        if absent or self.peek() in ("", ","):
            return _Rule(key, Operator.DOES_NOT_EXIST if absent else Operator.EXISTS)
        sign = self.take()
        operator = _OPERATORS.get(sign)
        if operator is None:
            raise _RefusedError(f"found '{sign}', expected: {_EXPECTED}")
        values = self.several() if sign in ("in", "notin") else self.one()
        _check_values(key, operator, values)
        return _Rule(key, operator, tuple(values))

    def one(self) -> list[str]:
        if self.peek() in ("", ","):
            return [""]
        found = self.take()
        if found in _SYMBOLS:
            raise _RefusedError(f"found '{found}', expected: identifier")
        return [found]

    def several(self) -> list[str]:
        opening = self.take()
        if opening != "(":
            raise _RefusedError(f"found '{opening}' expected: '('")
        first = self.peek()
        if first == ")":
            self.take()
            return [""]
        if first in _SYMBOLS and first != ",":
            raise _RefusedError(f"found '{first}', expected: ',', ')' or identifier")
        values = self.identifiers()
        self.take()
        return values

    def identifiers(self) -> list[str]:
        values: list[str] = []
        while True:
            found = self.take()
            following = self.peek()
            if found == ",":
                if not values:
                    values.append("")
                if following == ")":
                    return [*values, ""]
                if following == ",":
                    self.take()
                    values.append("")
            elif found in _SYMBOLS:
                raise _RefusedError(f"found '{found}', expected: ',', or identifier")
            else:
                values.append(found)
                if following == ")":
                    return values
                if following != ",":
                    raise _RefusedError(f"found '{following}', expected: ',' or ')'")


def _is_integer(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None and len(text) <= 20 and -(2**63) <= int(text) < 2**63


def _check_values(key: str, operator: Operator, values: Iterable[str]) -> None:
    found: list[str] = []
    for index, value in enumerate(sorted(set(values))):
        shown = json.dumps(value, ensure_ascii=False)
        if operator in (Operator.GT, Operator.LT) and not _is_integer(value):
            text = "for 'Gt', 'Lt' operators, the value must be an integer"
            found.append(f"values[{index}]: Invalid value: {shown}: {text}")
        if problems := formats.label_value(value):
            found.append(f"values[{index}][{key}]: Invalid value: {shown}: {'; '.join(problems)}")
    if found:
        raise _RefusedError(found[0] if len(found) == 1 else f"[{', '.join(found)}]")
