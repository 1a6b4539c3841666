"""The JSONPath of printer columns, scales and selectable fields: Kubernetes' dialect, compiled once.

Fields, indexes, slices, wildcards, recursive descent, unions and simple filters. A missing value yields nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, TypeAlias, cast

from steersman_cluster.objects import from_json

__all__ = ["JSONPathError", "compile_path", "find", "simple_fields"]

Step: TypeAlias = Callable[[Any], Iterator[Any]]

_FIELD = re.compile(r"(?:\\.|[^.\[\]\s{}()\\,@'\"])+")
_FILTER = re.compile(r"\s*@(.*?)\s*(==|!=|<=|>=|<|>)\s*(.+?)\s*$", re.DOTALL)


class JSONPathError(ValueError):
    """The path is none."""


@lru_cache(maxsize=2048)
def compile_path(path: str) -> tuple[Step, ...]:
    """The steps of a path such as `.spec.items[0].name`; raises JSONPathError."""
    steps: list[Step] = []
    text = path.strip()
    text = text.removeprefix("$")
    at = 0
    while at < len(text):
        if text.startswith("..", at):
            at += 2
            steps.append(_descend)
            if text.startswith("[", at):
                continue
            at = _name(text, at, steps)
        elif text[at] == ".":
            at += 1
            if text.startswith("[", at) or at == len(text):
                continue
            at = _name(text, at, steps)
        elif text[at] == "[":
            at = _brackets(text, at, steps)
        elif at == 0:
            at = _name(text, at, steps)
        else:
            raise JSONPathError(f"unrecognized character in action: {text[at]!r}")
    return tuple(steps)


def find(path: str, value: Any) -> list[Any]:
    """All values at the path, in order; none where it leads nowhere."""
    found: list[Any] = [value]
    for step in compile_path(path):
        found = [item for each in found for item in step(each)]
        if not found:
            break
    return found


def simple_fields(path: str) -> list[str]:
    """The names of a path of plain fields, as scales have it: `.spec.replicas`."""
    return path.removeprefix(".").split(".")


def _name(text: str, at: int, steps: list[Step]) -> int:
    if text.startswith("*", at):
        steps.append(_wildcard)
        return at + 1
    found = _FIELD.match(text, at)
    if found is None:
        raise JSONPathError(f"unrecognized character in action: {text[at : at + 1]!r}")
    steps.append(_field(re.sub(r"\\(.)", r"\1", found[0])))
    return found.end()


def _brackets(text: str, at: int, steps: list[Step]) -> int:
    end = _closing(text, at)
    inner = text[at + 1 : end].strip()
    if inner == "*":
        steps.append(_wildcard)
    elif inner.startswith("?("):
        steps.append(_filter(inner[2:].removesuffix(")")))
    elif inner[:1] in ("'", '"'):
        names = [part.strip().strip("'\"") for part in inner.split(",")]
        steps.append(_union([_field(name) for name in names]))
    elif re.fullmatch(r"-?\d+(\s*,\s*-?\d+)*", inner):
        steps.append(_union([_index(int(part)) for part in inner.split(",")]))
    elif re.fullmatch(r"(-?\d*):(-?\d*)(:-?\d*)?", inner):
        parts = [int(part) if part else None for part in inner.split(":")]
        steps.append(_slice(slice(*parts)))
    else:
        raise JSONPathError(f"invalid array index {inner}")
    return end + 1


def _closing(text: str, at: int) -> int:
    quote, depth = "", 0
    for index in range(at, len(text)):
        char = text[index]
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if depth == 0:
                return index
    raise JSONPathError("unterminated array")


def _field(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield cast("dict[str, Any]", value)[name]

    return step


def _index(index: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            values = cast("list[Any]", value)
            if -len(values) <= index < len(values):
                yield values[index]

    return step


def _slice(part: slice) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from cast("list[Any]", value)[part]

    return step


def _union(steps: list[Step]) -> Step:
    def step(value: Any) -> Iterator[Any]:
        for each in steps:
            yield from each(value)

    return steps[0] if len(steps) == 1 else step


def _wildcard(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from cast("list[Any]", value)
    elif isinstance(value, dict):
        yield from cast("dict[str, Any]", value).values()


def _descend(value: Any) -> Iterator[Any]:
    yield value
    for item in _wildcard(value):
        yield from _descend(item)


def _filter(expression: str) -> Step:
    found = _FILTER.match(expression)
    if found is None:
        path = expression.strip().removeprefix("@")
        return _kept(lambda item: bool(find(path, item)))
    path, operator, right = found[1].strip(), found[2], found[3]
    literal = _literal(right)

    def holds(item: Any) -> bool:
        values = find(path, item)
        return bool(values) and _compare(values[0], operator, literal)

    return _kept(holds)


def _kept(holds: Callable[[Any], bool]) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from (item for item in cast("list[Any]", value) if holds(item))

    return step


def _literal(text: str) -> Any:
    if text[:1] in ("'", '"') and text[-1:] == text[:1]:
        return text[1:-1]
    try:
        return from_json(text)
    except ValueError as error:
        raise JSONPathError(f"unrecognized literal {text}") from error


def _compare(left: Any, operator: str, right: Any) -> bool:
    if isinstance(left, bool) != isinstance(right, bool):
        return operator == "!="
    try:
        match operator:
            case "==":
                return left == right
            case "!=":
                return left != right
            case "<":
                return left < right
            case "<=":
                return left <= right
            case ">":
                return left > right
            case _:
                return left >= right
    except TypeError:
        return False
