"""YAML documents, read within bounds: into values that JSON can express, in one pass over the parser's events.

PyYAML composes a document recursively in C and only then constructs values: deep nesting ends the process, and aliases
expand without limit. This reader counts events, depth and expanded aliases before it builds anything, so the cost of a
document is proportional to its limits, whatever it says.

Scalars are read as Kubernetes reads them (YAML 1.1 without timestamps, base-60 numbers and the lone `=`). Keys become
text, as in JSON. Aliases are copies, and merge keys (`<<`) are applied.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn, cast

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

__all__ = ["Document", "DocumentError", "Limits", "error_position", "load", "load_all", "text_only"]

_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = object()
"""Stands for the key `<<` while its value is read."""
_MAPPINGS: Final = (f"{_TAG}map", f"{_TAG}set")
_SEQUENCES: Final = (f"{_TAG}seq", f"{_TAG}omap", f"{_TAG}pairs")
_INTEGER: Final = re.compile(r"^(?:[-+]?0b[01_]+|[-+]?0o?[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+)$")
_FLOAT: Final = re.compile(
    r"^(?:[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
    r"|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
_BOOLEANS: Final = {
    **{form: True for word in ("yes", "true", "on") for form in (word, word.capitalize(), word.upper())},
    **{form: False for word in ("no", "false", "off") for form in (word, word.capitalize(), word.upper())},
}
_NULLS: Final = frozenset(("", "~", "null", "Null", "NULL"))
_NUMBER_STARTS: Final = frozenset("+-.0123456789")
_MAX_DIGITS: Final = 1000
"""Digits of a number; longer ones are text, since the conversion of digits takes quadratic time."""


class DocumentError(yaml.MarkedYAMLError):
    """A document that is beyond the limits, or that JSON cannot express.

    `text` names the problem, and `problem_mark` its line and column.
    """

    def __init__(self, text: str, mark: yaml.Mark | None = None) -> None:
        super().__init__(problem=text, problem_mark=mark)
        self.text = text


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the size of YAML texts.

    The defaults hold for the largest definitions in use (a megabyte, 40,000 values) with room to spare.
    """

    bytes: int = 16 << 20
    """The length of the text, in bytes or characters."""
    depth: int = 250
    """Levels of nesting."""
    values: int = 500_000
    """Scalars, mappings and sequences of all documents, those that aliases and merge keys repeat included."""
    duplicates: int = 100
    """Repeated keys that are reported; further ones are not."""


DEFAULT_LIMITS: Final = Limits()

Scalars = Callable[[str], Any]
"""Reads a plain scalar, without quotes."""


class Document(NamedTuple):
    """One document of a text."""

    value: Any
    line: int
    """The line that it begins in, from 1."""
    duplicates: list[str]
    """One sentence for each repeated key; the last value of a key counts."""


def load(text: str | bytes, *, limits: Limits = DEFAULT_LIMITS, scalars: Scalars | None = None) -> Any:
    """Return the value of the only document of a text, `None` for an empty one.

    Raises:
        yaml.YAMLError: The text is not YAML, has several documents, or is beyond the limits (`DocumentError`).
    """
    found = list(load_all(text, limits=limits, scalars=scalars, most=1))
    return found[0].value if found else None


def load_all(
    text: str | bytes, *, limits: Limits = DEFAULT_LIMITS, scalars: Scalars | None = None, most: int | None = None
) -> Iterator[Document]:
    """Yield the documents of a text.

    Args:
        text: YAML or JSON; bytes may be UTF-8 or UTF-16.
        limits: The bounds for the whole text.
        scalars: Reads plain scalars; as Kubernetes does by default.
        most: How many documents are allowed.

    Raises:
        yaml.YAMLError: The text is not YAML, or is beyond the limits (`DocumentError`).
    """
    if len(text) > limits.bytes:
        raise DocumentError(f"the text is longer than {limits.bytes} bytes")
    if isinstance(text, str):
        try:
            text = text.encode()
        except UnicodeEncodeError:
            raise DocumentError("the text contains a lone surrogate, which UTF-8 cannot express") from None
    reader = _Reader(text, limits, scalars or plain_scalar)
    try:
        yield from reader.documents(most)
    finally:
        reader.close()


def text_only(text: str) -> Any:
    """Read a plain scalar as text, except null: for files in which `no` and `1.10` are names."""
    return None if text in _NULLS else text


def plain_scalar(text: str) -> Any:
    """Read a plain scalar as Kubernetes does: null, boolean, integer, float or text.

    A number that no float can hold is text.
    """
    if text in _NULLS:
        return None
    if (known := _BOOLEANS.get(text)) is not None:
        return known
    if text[0] not in _NUMBER_STARTS or len(text) > _MAX_DIGITS:
        return text
    try:
        if _INTEGER.match(text):
            return _integer(text)
        if _FLOAT.match(text):
            return _float(text)
    except OverflowError:
        return text
    return text


def _integer(text: str) -> int | float:
    digits = text.replace("_", "")
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    if digits.startswith(("0b", "0x")):
        value = int(digits, 0)
    elif digits.startswith("0") and len(digits) > 1:
        value = int(digits.removeprefix("0o"), 8)
    else:
        value = int(digits)
    value *= sign
    return value if -(2**63) <= value < 2**64 else float(value)


def _float(text: str) -> float:
    digits = text.replace("_", "").lower()
    if digits.endswith((".inf", ".nan")):
        raise ValueError(f"json: unsupported value: {'NaN' if digits.endswith('nan') else digits.replace('.i', 'I')}")
    value = float(digits)
    if math.isinf(value):
        raise OverflowError("the number is too large for a float")
    return value


def key_text(key: Any) -> str:
    """Return a key as JSON writes it. Raises `ValueError` for a key that JSON does not have."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(key)
    raise ValueError(f"unsupported map key of type {type(key).__name__}")


class _Anchored(NamedTuple):
    value: Any
    values: int
    """The number of values, including itself and those of aliases."""
    height: int


@dataclass(slots=True)
class _Frame:
    """A mapping or sequence that is being read."""

    container: dict[str, Any] | list[Any]
    event: Any
    values: int = 1
    height: int = 1
    key: Any = None
    has_key: bool = False
    merges: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


def error_position(problem: yaml.YAMLError) -> tuple[int, str]:
    """Return the line of a syntax error, from 1, or 0 if it is not known, and the text of the error."""
    if not isinstance(problem, yaml.MarkedYAMLError):
        return 0, str(problem)
    mark = problem.problem_mark
    return (mark.line + 1 if mark is not None else 0), problem.problem or str(problem)


class _Reader:
    """Builds the values of documents from the events of the parser, without recursion."""

    def __init__(self, text: bytes, limits: Limits, scalars: Scalars) -> None:
        parser: Any = getattr(yaml, "cyaml", None)
        self._parser: Any = parser.CParser(text) if parser is not None else yaml.Loader(text)
        self._limits = limits
        self._scalars = scalars
        self._values = 0
        self._stack: list[_Frame] = []
        self._anchors: dict[str, _Anchored | None] = {}
        self._duplicates: list[str] = []
        self._root: Any = None
        self._line = 1

    def close(self) -> None:
        self._parser.dispose()

    def documents(self, most: int | None) -> Iterator[Document]:
        count = 0
        next_event = self._parser.get_event
        while True:
            event: Any = next_event()
            kind = cast("type[object]", type(event))
            if kind is ScalarEvent:
                self._count(1, event)
                self._add(self._scalar(event), event.anchor, 1, 0, event)
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                self._open(event, mapping=kind is MappingStartEvent)
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                self._close()
            elif kind is AliasEvent:
                self._alias(event)
            elif kind is DocumentStartEvent:
                count += 1
                if most is not None and count > most:
                    self._fail(f"expected {most} document{'s' if most > 1 else ''}, but found another one", event)
                self._anchors.clear()
                self._duplicates, self._root = [], None
            elif kind is DocumentEndEvent:
                yield Document(self._root, self._line, self._duplicates)
            elif kind is StreamEndEvent:
                return

    def _count(self, values: int, event: Any) -> None:
        self._values += values
        if self._values > self._limits.values:
            aliasing = "document contains excessive aliasing"
            self._fail(aliasing if values > 1 else f"more than {self._limits.values} values", event)

    def _open(self, event: Any, *, mapping: bool) -> None:
        tag = event.tag
        if tag and tag != "!" and tag not in (_MAPPINGS if mapping else _SEQUENCES):
            self._fail(f"unknown tag {tag!r} of a {'mapping' if mapping else 'sequence'}", event)
        if len(self._stack) >= self._limits.depth:
            self._fail(f"exceeded max depth of {self._limits.depth}", event)
        self._count(1, event)
        if event.anchor:
            self._anchors[event.anchor] = None  # open: an alias to it would be recursive
        self._stack.append(_Frame({} if mapping else [], event))

    def _close(self) -> None:
        frame = self._stack.pop()
        container: Any = frame.container
        if frame.merges:
            merged: dict[str, Any] = {}
            for one in frame.merges:
                merged.update(one)
            container = {**merged, **container}
        self._add(container, frame.event.anchor, frame.values, frame.height, frame.event)

    def _alias(self, event: Any) -> None:
        name = event.anchor
        if name not in self._anchors:
            self._fail(f"unknown anchor {name!r} referenced", event)
        found = self._anchors[name]
        if found is None:
            self._fail(f"anchor {name!r} value contains itself", event)
        if len(self._stack) + found.height > self._limits.depth:
            self._fail(f"exceeded max depth of {self._limits.depth}", event)
        self._count(found.values, event)
        self._add(_copy(found.value), None, found.values, found.height, event)

    def _scalar(self, event: Any) -> Any:
        text, tag = event.value, event.tag
        if tag is None or tag == "!":
            # `implicit` says whether a plain scalar, and whether a quoted one, goes without a tag.
            if tag is None and event.implicit[0]:
                if text == "<<" and self._stack and isinstance(self._stack[-1].container, dict):
                    return text if self._stack[-1].has_key else _MERGE
                try:
                    return self._scalars(text)
                except ValueError as problem:
                    self._fail(str(problem), event)
            return text
        return self._tagged(tag.removeprefix(_TAG), text, event)

    def _tagged(self, tag: str, text: str, event: Any) -> Any:
        try:
            match tag:
                case "str" | "timestamp" | "value":
                    return text
                case "null":
                    return None
                case "bool":
                    return _BOOLEANS[text]
                case "int":
                    return _integer(text)
                case "float":
                    return _float(text) if _FLOAT.match(text) else float(_integer(text))
                case "binary":
                    return base64.b64decode(text, validate=False).decode("latin-1")
                case "merge":
                    return _MERGE
                case _:
                    self._fail(f"unknown tag {event.tag!r} of a scalar", event)
        except (KeyError, ValueError, OverflowError, binascii.Error):
            self._fail(f"cannot decode {text[:60]!r} as a !!{tag}", event)

    def _add(self, value: Any, anchor: str | None, values: int, height: int, event: Any) -> None:
        """Put a value where it belongs: into the open container, as a key, or as the document."""
        if anchor:
            self._anchors[anchor] = _Anchored(None if value is _MERGE else value, values, height)
        if not self._stack:
            self._root, self._line = value, event.start_mark.line + 1
            return
        frame = self._stack[-1]
        frame.values += values
        frame.height = max(frame.height, height + 1)
        container = frame.container
        if isinstance(container, list):
            container.append(value)
        elif not frame.has_key:
            self._key(frame, value, event)
        else:
            frame.has_key = False
            if frame.key is _MERGE:
                self._merge(frame, value, event)
            else:
                container[frame.key] = value

    def _key(self, frame: _Frame, value: Any, event: Any) -> None:
        frame.has_key = True
        if value is _MERGE:
            frame.key = _MERGE
            return
        try:
            frame.key = key_text(value)
        except ValueError as problem:
            self._fail(str(problem), event)
        if frame.key in frame.container and len(self._duplicates) < self._limits.duplicates:
            line = event.start_mark.line + 1
            self._duplicates.append(f"line {line}: key {json.dumps(frame.key)} already set in map")

    def _merge(self, frame: _Frame, value: Any, event: Any) -> None:
        found = cast("list[Any]", value) if isinstance(value, list) else [value]
        if not all(isinstance(one, dict) for one in found):
            self._fail("map merge requires map or sequence of maps as the value", event)
        frame.merges += reversed(cast("list[dict[str, Any]]", found))  # the first of a sequence wins

    def _fail(self, problem: str, event: Any) -> NoReturn:
        raise DocumentError(problem, event.start_mark)


def _copy(value: Any) -> Any:
    """Return a deep copy of a value; its depth is bounded."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_copy(item) for item in cast("list[Any]", value)]
    return value
