"""Markers for `Annotated[…]`: constraints and other facts about a field.

Bounds and lengths are msgspec's constraints, and RE2 matches patterns; both are checked when an object is decoded. The
other markers are for schemas, patches and merges and do not change how a value is decoded or encoded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, NoReturn, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from steersman.models.base import fields_of
from steersman.models.declaring import ModelDeclarationError, checked_marker
from steersman.models.patterns import pattern_note

__all__ = [
    "CEL",
    "AtLeastOneOf",
    "AtMostOneOf",
    "Atomic",
    "Embedded",
    "ExactlyOneOf",
    "Format",
    "Ge",
    "Gt",
    "Immutable",
    "Le",
    "ListMap",
    "Lt",
    "MaxItems",
    "MaxLength",
    "MaxProperties",
    "MinItems",
    "MinLength",
    "MinProperties",
    "MultipleOf",
    "Nullable",
    "PatchStrategy",
    "Pattern",
    "PreserveUnknown",
    "RawExtension",
    "Schemaless",
    "Selectable",
    "Set",
    "markers_of",
]

T = TypeVar("T")


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"a bound is a number, not {value!r}")
    return value


def _size(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"the size is a whole number of at least 0, not {value!r}")
    return value


@checked_marker
def Ge(bound: float) -> msgspec.Meta:  # noqa: N802
    """At least `bound` (JSON schema `minimum`)."""
    return msgspec.Meta(ge=_number(bound))


@checked_marker
def Gt(bound: float) -> msgspec.Meta:  # noqa: N802
    """More than `bound` (`exclusiveMinimum`)."""
    return msgspec.Meta(gt=_number(bound))


@checked_marker
def Le(bound: float) -> msgspec.Meta:  # noqa: N802
    """At most `bound` (`maximum`)."""
    return msgspec.Meta(le=_number(bound))


@checked_marker
def Lt(bound: float) -> msgspec.Meta:  # noqa: N802
    """Less than `bound` (`exclusiveMaximum`)."""
    return msgspec.Meta(lt=_number(bound))


@checked_marker
def MultipleOf(step: float) -> msgspec.Meta:  # noqa: N802
    """A multiple of `step`."""
    return msgspec.Meta(multiple_of=_number(step))


@checked_marker
def MinLength(length: int) -> msgspec.Meta:  # noqa: N802
    """At least `length` characters."""
    return msgspec.Meta(min_length=_size(length))


@checked_marker
def MaxLength(length: int) -> msgspec.Meta:  # noqa: N802
    """At most `length` characters."""
    return msgspec.Meta(max_length=_size(length))


@checked_marker
def Pattern(regex: str) -> msgspec.Meta:  # noqa: N802
    """Matches `regex` anywhere in the string, like JSON schema: anchor it with `^…$` for the whole string.

    The syntax is that of RE2, like on the API server. Other syntax raises `TypeError` at the declaration of the model.
    """
    _check_texts("a pattern", regex)
    return pattern_note(regex)


@checked_marker
def MinItems(count: int) -> msgspec.Meta:  # noqa: N802
    """A list of at least `count` items."""
    return msgspec.Meta(min_length=_size(count))


@checked_marker
def MaxItems(count: int) -> msgspec.Meta:  # noqa: N802
    """A list of at most `count` items."""
    return msgspec.Meta(max_length=_size(count))


@checked_marker
def MinProperties(count: int) -> msgspec.Meta:  # noqa: N802
    """A map of at least `count` entries."""
    return msgspec.Meta(min_length=_size(count))


@checked_marker
def MaxProperties(count: int) -> msgspec.Meta:  # noqa: N802
    """A map of at most `count` entries."""
    return msgspec.Meta(max_length=_size(count))


def _check_texts(what: str, *values: object) -> None:
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{what} is a string, not {value!r}")


@dataclass(frozen=True, init=False)
class Format:
    """JSON schema's `format`, for example `Format("uuid")`; only the API server checks it."""

    name: str

    @checked_marker
    def __init__(self, name: str) -> None:
        _check_texts("a format", name)
        object.__setattr__(self, "name", name)


@dataclass(frozen=True, init=False)
class ListMap:
    """A list that is a map by the JSON names of `keys` (`x-kubernetes-list-type: map`)."""

    keys: tuple[str, ...]

    @checked_marker
    def __init__(self, *keys: str) -> None:
        if not keys:
            raise TypeError('at least one key is needed, for example ListMap("name")')
        _check_texts("a key", *keys)
        object.__setattr__(self, "keys", keys)


@dataclass(frozen=True, init=False)
class PatchStrategy:
    """The treatment of a field by strategic merge patches: `merge` by `key`, `retainKeys`, or both."""

    strategies: tuple[str, ...]
    key: str | None

    @checked_marker
    def __init__(self, *strategies: str, key: str | None = None) -> None:
        object.__setattr__(self, "strategies", strategies)
        object.__setattr__(self, "key", key)


@dataclass(frozen=True)
class Flag:
    """A marker without arguments."""

    name: str

    def __repr__(self) -> str:
        return self.name

    def __call__(self, *_args: object, **_options: object) -> NoReturn:
        """Raise: the marker is written without parentheses."""
        raise ModelDeclarationError(f"{self.name} takes no arguments: write Annotated[…, {self.name}]")

    def __getitem__(self, _item: object) -> NoReturn:
        """Raise: the marker is not a type."""
        raise ModelDeclarationError(f"{self.name} is a marker and no type: write Annotated[…, {self.name}]")


Set: Final = Flag("Set")
"""A list without duplicates (`x-kubernetes-list-type: set`)."""
Atomic: Final = Flag("Atomic")
"""A list, map or struct that is replaced as a whole by server-side apply."""
Immutable: Final = Flag("Immutable")
"""Set once, never changed; the CRD has a CEL rule for it."""
Selectable: Final = Flag("Selectable")
"""Allowed in field selectors (at most eight fields per kind)."""
PreserveUnknown: Final = Flag("PreserveUnknown")
"""The API server keeps fields that the schema does not have."""
Schemaless: Final = Flag("Schemaless")
"""The schema does not describe the field's type."""
_NULLABLE: Final = Flag("Nullable")
_EMBEDDED: Final = Flag("Embedded")
_RAW: Final = Flag("RawExtension")

Nullable: TypeAlias = Annotated[T | None, _NULLABLE]
"""`Nullable[X]`: the API server accepts an explicit `null`."""
Embedded: TypeAlias = Annotated[T, _EMBEDDED]
"""`Embedded[Pod]`: a complete object with apiVersion, kind and metadata."""
RawExtension: TypeAlias = Annotated[Any, _RAW]
"""Any object, kept as plain data."""


@dataclass(frozen=True, kw_only=True)
class _Rule:
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""
    optional_old_self: bool | None = None


@dataclass(frozen=True, init=False)
class CEL(_Rule):
    """A validation rule in CEL on a field or, as a class attribute `__rules__`, on a model."""

    rule: str

    @checked_marker
    def __init__(
        self,
        rule: str,
        *,
        message: str = "",
        message_expression: str = "",
        reason: str = "",
        field_path: str = "",
        optional_old_self: bool | None = None,
    ) -> None:
        _check_texts("a rule", rule)
        texts = (message, message_expression, reason, field_path)
        _check_texts("each of message, message_expression, reason and field_path", *texts)
        for name, value in (
            ("rule", rule),
            ("message", message),
            ("message_expression", message_expression),
            ("reason", reason),
            ("field_path", field_path),
            ("optional_old_self", optional_old_self),
        ):
            object.__setattr__(self, name, value)


@dataclass(frozen=True, init=False)
class _FieldSet:
    names: tuple[str, ...]

    @checked_marker
    def __init__(self, *names: str) -> None:
        if len(names) < 2:
            raise TypeError("at least two field names are needed")
        _check_texts("a field name", *names)
        object.__setattr__(self, "names", names)


class ExactlyOneOf(_FieldSet):
    """Exactly one of these fields is set."""


class AtMostOneOf(_FieldSet):
    """At most one of these fields is set."""


class AtLeastOneOf(_FieldSet):
    """At least one of these fields is set."""


def markers_of(model: type[msgspec.Struct], name: str) -> tuple[object, ...]:
    """Return the markers of a field by Python or JSON name, without those of inner types. Raises AttributeError."""
    for f in fields_of(model):
        if name in (f.name, f.encode_name):
            hint = get_type_hints(model, include_extras=True)[f.name]
            return tuple(get_args(hint)[1:]) if get_origin(hint) is Annotated else ()
    raise AttributeError(f"{model.__name__} has no field {name!r}")
