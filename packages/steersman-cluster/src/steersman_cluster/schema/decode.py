"""Decoding of built-in kinds as in Go: unknown fields, mismatches, and the object after a round trip.

One walk over the object, in place: it records and removes unknown fields, refuses values that Go's decoder refuses,
turns scalars into their canonical form, drops empty optional fields and adds the fields that Go always writes. The walk
is compiled for each type at its first use. Custom resources are decoded by their schema instead. Empty lists at the top
of an object stay, since managed fields distinguish them from missing ones; their kinds make them null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import msgspec

from steersman_cluster.objects import Object
from steersman_cluster.schema.depth import bounded
from steersman_cluster.schema.literals import exact, finite, plain, whole
from steersman_cluster.schema.scalars import SCALARS, MismatchError, described
from steersman_cluster.schema.types import Type

__all__ = ["Decoded", "decode", "decode_errors", "duplicate_fields", "loads", "strict_errors"]

_MAX_UNKNOWN_FIELDS = 100
_Unknown: TypeAlias = list[str]
_Codec: TypeAlias = Callable[[Any, _Unknown], Any]


@dataclass(frozen=True, slots=True)
class Decoded:
    """The result of decoding: unknown fields (at most 100) and the first mismatch, "" for none."""

    unknown: tuple[str, ...] = ()
    mismatch: str = ""
    converted: str = ""
    """Return the mismatch with the text of the converter for strategic patches and apply."""


_CLEAN = Decoded()


@bounded
def decode(obj: Object, type: Type) -> Decoded:
    """Bring an object into the form in which the API server would write it, in place.

    `unknown` has texts such as `unknown field "spec.foo"`; they are what strict validation refuses ("strict decoding
    error: ...") and what the warnings say. With a `mismatch`, the object is half done and must be refused.
    """
    unknown: _Unknown = []
    try:
        _codec(type)(obj, unknown)
    except MismatchError as error:
        return Decoded((), error.message, error.converted)
    if not unknown:
        return _CLEAN
    return Decoded(tuple(f'unknown field "{path}"' for path in dict.fromkeys(unknown))[:_MAX_UNKNOWN_FIELDS])


def decode_errors(obj: Object, type: Type) -> tuple[list[str], str | None]:
    """Return the result of `decode` on a copy: the texts of unknown fields, and the first mismatch or `None`."""
    found = decode(json.loads(json.dumps(obj)), type)
    return list(found.unknown), found.mismatch or None


def _codec(type: Type) -> _Codec:
    codec = type.memo.get("codec")
    if codec is None:
        codec = type.memo["codec"] = _compile(type)
    return codec


def _compile(type: Type) -> _Codec:
    if type.form == "scalar":
        check, shown = SCALARS[type.scalar], type.name or type.scalar
        return lambda value, unknown: check(value, shown)
    if type.form == "list":
        return _list(type)
    if type.form == "map" and type.fields:
        return _Struct(type)
    if type.form == "map" and type.element is not None and type.element.form != "any":
        return _map(type, type.element)
    return _anything


def _anything(value: Any, unknown: _Unknown) -> Any:
    """Return the value of a field without a type, with plain numbers."""
    try:
        return plain(value)
    except ValueError as problem:
        raise MismatchError(text=str(problem)) from None


class _Struct:
    """The codec of a struct. Its rules are made when it is first used, because structs may contain themselves."""

    __slots__ = ("_kept", "_name", "_root", "_rules", "_type")

    def __init__(self, type: Type) -> None:
        self._type = type
        self._name = type.name.rpartition(".")[2]
        self._root = "kind" in type.fields and "metadata" in type.fields
        self._rules: dict[str, tuple[_Codec, bool]] = {}
        self._kept: list[tuple[str, Type]] = []

    def __call__(self, obj: Any, unknown: _Unknown) -> Any:
        if obj.__class__ is not dict:
            raise MismatchError(described(obj), self._type.name, kind="struct")
        rules = self._rules or self._prepare()
        for key, value in list(cast(Object, obj).items()):
            rule = rules.get(key)
            if rule is None:
                unknown.append(key)
            elif value is not None:
                known = len(unknown)
                try:
                    result = rule[0](value, unknown)
                except MismatchError as error:
                    raise self._located(error, key) from None
                if len(unknown) != known:
                    _prefix(unknown, known, key)
                if result or not rule[1]:
                    obj[key] = result
                    continue
            del obj[key]
        for key, field in self._kept:
            if not obj.get(key) and not (self._root and obj.get(key) == []):
                _fill(obj, key, field)
        return obj

    def _prepare(self) -> dict[str, tuple[_Codec, bool]]:
        for key, field in self._type.fields.items():
            # An empty list of managed fields is a request to remove them.
            self._rules[key] = _codec(field), field.empty == "drop" and key != "managedFields"
            if field.empty in ("keep", "keep-nil"):
                self._kept.append((key, field))
        return self._rules

    def _located(self, error: MismatchError, key: str) -> MismatchError:
        embedded = self._type.fields[key].embedded
        error.struct = error.struct or self._name
        error.path.append(f"{embedded}.{key}" if embedded else key)
        return error


def _prefix(unknown: _Unknown, start: int, key: str) -> None:
    """Put a step before the paths that were found below it."""
    unknown[start:] = [f"{key}{rest}" if rest[:1] == "[" else f"{key}.{rest}" for rest in unknown[start:]]


def _fill(obj: Object, key: str, field: Type) -> None:
    """A field that Go always writes: its zero value where it is missing, null for empty lists and maps."""
    value = obj.get(key)
    if value is None or isinstance(value, list) or (isinstance(value, dict) and not field.fields):
        obj[key] = zero(field)


def zero(type: Type) -> Any:
    """Return Go's zero value of a field: 0, "", null for lists and maps, filled structs."""
    if type.empty == "keep-nil":
        return None
    if type.form == "map" and type.fields:
        return _codec(type)({}, [])
    if type.form == "scalar":
        match type.scalar:
            case "string":
                return ""
            case "quantity":
                return "0"
            case "boolean":
                return False
            case "bytes" | "time" | "micro-time":
                return None
            case _:
                return 0
    return None


def _zero_entry(type: Type) -> Any:
    """Return the value of null in a map; empty bytes stay bytes."""
    return "" if type.scalar == "bytes" else zero(type)


def _list(type: Type) -> _Codec:
    item = type.item
    shown = type.name

    def items(value: Any, unknown: _Unknown) -> Any:
        if value.__class__ is not list:
            raise MismatchError(described(value), shown, kind="slice")
        codec = _codec(item)
        entries = cast("list[Any]", value)
        for index, entry in enumerate(entries):
            known = len(unknown)
            result = zero(item) if entry is None else codec(entry, unknown)
            if result is not entry:
                entries[index] = result
            if len(unknown) != known:
                _prefix(unknown, known, f"[{index}]")
        return entries

    return items


def _map(type: Type, element: Type) -> _Codec:
    shown = type.name
    plain = element.form == "scalar" and element.scalar == "string"

    def entries(value: Any, unknown: _Unknown) -> Any:
        if value.__class__ is not dict:
            raise MismatchError(described(value), shown, kind="map")
        found = cast(Object, value)
        if plain and all(entry.__class__ is str for entry in found.values()):
            return found
        codec = _codec(element)
        for key, entry in found.items():
            known = len(unknown)
            result = _zero_entry(element) if entry is None else codec(entry, unknown)
            if result is not entry:
                found[key] = result
            if len(unknown) != known:
                _prefix(unknown, known, key)
        return found

    return entries


class _DuplicateKeyError(Exception):
    """Stops the fast parse."""


def _pairs(items: list[tuple[str, Any]]) -> Object:
    obj = dict(items)
    if len(obj) != len(items):
        raise _DuplicateKeyError
    return obj


def _no_float(text: str) -> float:
    """Refuse numbers with a fraction or an exponent: their text can matter."""
    raise ValueError(text)


_encode: Final = msgspec.json.Encoder().encode
_decode_compact: Final = msgspec.json.Decoder(float_hook=_no_float).decode
"""The fast parser of compact JSON. A body that `_encode` does not reproduce exactly may have duplicate keys."""
_COMPACT_MAX_BYTES: Final = 64 * 1024
_LONG_INTEGER: Final = re.compile(rb"\d{19}")
_FINITE: Final = json.JSONDecoder(object_pairs_hook=_pairs, parse_float=finite)
_EXACT: Final = json.JSONDecoder(object_pairs_hook=_pairs, parse_float=exact)
_UNSTRUCTURED: Final = json.JSONDecoder(object_pairs_hook=_pairs, parse_float=finite, parse_int=whole)


def loads(data: bytes, *, literal: bool = False, unstructured: bool = False) -> tuple[Any, bool]:
    """Parse JSON and return whether an object in it has a duplicate key.

    With `literal`, numbers with a fraction or an exponent are `Literal`s, which `decode` replaces. With
    `unstructured`, integers of more than 64 bits are floats.

    Raises:
        ValueError: The data is not JSON in UTF-8, or a number is too large for a float and not a literal.
    """
    if len(data) <= _COMPACT_MAX_BYTES and not (unstructured and _LONG_INTEGER.search(data)):
        try:
            value = _decode_compact(data)
            if _encode(value) == data:
                return value, False
        except (ValueError, RecursionError):
            pass  # It is not compact, or not JSON: the slower parser has the exact rules and messages.
    text = data.decode()
    if "\\ud" in text or "\\uD" in text:
        text = _ESCAPE.sub(_without_lone_surrogate, text)
    try:
        return (_EXACT if literal else _UNSTRUCTURED if unstructured else _FINITE).decode(text), False
    except _DuplicateKeyError:
        number = exact if literal else finite
        return json.loads(text, parse_float=number, parse_int=whole if unstructured else int), True
    except RecursionError:
        raise ValueError("exceeded max depth") from None


_ESCAPE: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)


def _without_lone_surrogate(match: re.Match[str]) -> str:
    """Return an escape sequence, a lone surrogate as the replacement character, as Go reads it."""
    return "\\ufffd" if match["lone"] else match[0]


def duplicate_fields(data: bytes) -> list[str]:
    """The texts for keys that come twice in one object: `duplicate field "spec.replicas"`, at most 100."""
    return _strict(data, None)


def strict_errors(data: bytes, type: Type) -> list[str]:
    """The texts for keys that come twice and for unknown fields, in the order in which they are written; at most 100.

    Slow: for bodies of which `loads` said that a key comes twice; `Decoded.unknown` has the others' texts.
    """
    return _strict(data, type)


@bounded
def _strict(data: bytes, type: Type | None) -> list[str]:
    found: list[str] = []
    _walk(json.loads(data, object_pairs_hook=_Pairs), type, "", found)
    return list(dict.fromkeys(found))[:_MAX_UNKNOWN_FIELDS]


class _Pairs(list[tuple[str, Any]]):
    """An object as it was written, repetitions included."""


def _walk(value: Any, type: Type | None, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, item in value:
            here = f"{path}.{key}" if path else key
            shown = json.dumps(here, ensure_ascii=False)
            child = type.child(key) if type is not None and type.form != "any" else None
            if child is None and type is not None and type.form == "map":
                found.append(f"unknown field {shown}")
                continue
            if key in seen:
                found.append(f"duplicate field {shown}")
            seen.add(key)
            _walk(item, child, here, found)
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[Any]", value)):
            _walk(item, type.item if type is not None else None, f"{path}[{index}]", found)
