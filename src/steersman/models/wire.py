"""Encoding and decoding of models: the only module that creates msgspec encoders and decoders.

Decoding first uses msgspec directly. If that fails, it treats JSON `null` as absent, like Go (the API server sends
`null`, for example, for the `rules` of an empty Role). Otherwise it raises a `DecodeError` with the field. Types of
this package have the methods `__from_wire__` and `__to_wire__`; pydantic models use their own protocol (declare
camelCase aliases on them). Dataclasses are supported with unchanged field names; give them `slots=True`, because
msgspec otherwise leaves defaults on the class and does not write them.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar, cast

import msgspec

from steersman.models.enums import Unsupported, unsupported_value
from steersman.models.memo import Memo
from steersman.models.patterns import Check, checker_of

__all__ = ["DecodeError", "decode", "decoder", "encode", "from_dict", "to_dict"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_PATH = re.compile(r"^(?P<message>.*?)(?: - at (?P<key>`key` in )?`(?P<path>[^`]*)`)?$", re.DOTALL)


class DecodeError(ValueError):
    """Data does not fit the expected type: `message` is the error, `path` the place (`$.spec.size`).

    `unsupported` has the value and the supported values of an enum, a literal or the tag of a union.
    """

    def __init__(self, message: str, path: str = "$", unsupported: Unsupported | None = None) -> None:
        super().__init__(f"{path}: {message}" if path not in ("", "$") else message)
        self.message = message
        self.path = path
        self.unsupported = unsupported


def enc_hook(value: object) -> object:
    """Return the JSON form of a value of a type that msgspec does not support (msgspec's `enc_hook`)."""
    to_wire = getattr(value, "__to_wire__", None)
    if to_wire is None:
        dump = getattr(value, "model_dump", None)  # pydantic's protocol; a user's type, so never imported here
        if dump is not None:
            return dump(mode="json", by_alias=True, exclude_none=True)
        raise NotImplementedError(f"{type(value).__name__} has no wire form: give it __to_wire__()")
    return to_wire()


def dec_hook(kind: Any, value: object) -> object:
    """Decode a value of a type that msgspec does not support (msgspec's `dec_hook`)."""
    from_wire = getattr(kind, "__from_wire__", None)
    if from_wire is None:
        validate = getattr(kind, "model_validate", None)
        if validate is not None:
            return validate(value)
        raise NotImplementedError(f"{kind} cannot be read from the wire: give it __from_wire__(value)")
    return from_wire(value)


_encoder = msgspec.json.Encoder(enc_hook=enc_hook)
_parse = msgspec.json.Decoder()


_making = threading.Lock()


class Decoder(Protocol[T_co]):
    """Decodes JSON as one type."""

    def decode(self, data: Any, /) -> T_co:
        """Decode JSON."""
        ...


class _CheckedDecoder:
    """A decoder of a type with patterns."""

    __slots__ = ("_decode", "check")

    def __init__(self, decode: Callable[[Any], Any], check: Check) -> None:
        self._decode = decode
        self.check = check

    def decode(self, data: Any, /) -> Any:
        """Decode JSON and check the patterns."""
        value = self._decode(data)
        self.check(value)
        return value


def _decoder_of(kind: Any) -> Decoder[Any]:
    # msgspec analyses nested structs when it creates a decoder; two threads that do so crash the interpreter.
    with _making:
        plain = msgspec.json.Decoder(kind, dec_hook=dec_hook)
        check = checker_of(kind)
    return plain if check is None else _CheckedDecoder(plain.decode, check)


_decoders: Final = Memo(_decoder_of, 4096)


def decoder(kind: Any) -> Decoder[Any]:
    """Return the shared strict decoder of a type, which raises msgspec's errors. Safe to call from several threads."""
    return _decoders[kind]


def encode(value: object) -> bytes:
    """Encode a model, a dynamic object or plain data as JSON. Raises `TypeError` for unsupported types."""
    return _encoder.encode(value)


def decode(kind: type[T], data: bytes | bytearray | memoryview | str) -> T:
    """Decode `data` as `kind`.

    Raises `DecodeError` with the path of the invalid field; truncated or malformed JSON has the path `$`.
    """
    try:
        return _decoders[kind].decode(data)
    except msgspec.ValidationError as problem:
        return _without_nulls(kind, data, problem)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise DecodeError(str(problem)) from None


def _without_nulls(kind: type[T], data: Any, problem: msgspec.ValidationError) -> T:
    try:
        plain = _parse.decode(data)
        return _converted(kind, _prune(plain))
    except msgspec.ValidationError:
        raise as_decode_error(kind, problem) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as malformed:
        raise DecodeError(str(malformed)) from None


def _converted(kind: type[T], plain: Any) -> T:
    checked = decoder(kind)  # the first conversion would also analyse the type
    value = msgspec.convert(plain, kind, dec_hook=dec_hook)
    if isinstance(checked, _CheckedDecoder):
        checked.check(value)
    return value


def _prune(value: Any) -> Any:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {k: _prune(v) for k, v in items if v is not None}
    if isinstance(value, list):
        return [_prune(v) for v in cast("list[Any]", value)]
    return value


def as_decode_error(kind: Any, problem: msgspec.ValidationError) -> DecodeError:
    """Convert msgspec's error to a `DecodeError` with message and path; errors of enums list the supported values."""
    match = _PATH.match(str(problem))
    assert match is not None
    path = match["path"] or "$"
    unsupported = unsupported_value(kind, match["message"], path, keys=match["key"] is not None)
    return DecodeError(match["message"] if unsupported is None else str(unsupported), path, unsupported)


def to_dict(value: object) -> dict[str, Any]:
    """Return the JSON values as new plain dicts, lists and scalars."""
    # By JSON instead of to_builtins(), which is not faster and keeps tuples.
    return _parse.decode(_encoder.encode(value))


def from_dict(kind: type[T], value: Mapping[str, Any]) -> T:
    """Convert plain data to `kind`. Raises `DecodeError` like `decode`."""
    try:
        return _converted(kind, value)
    except msgspec.ValidationError as problem:
        try:
            return _converted(kind, _prune(dict(value)))
        except msgspec.ValidationError:
            raise as_decode_error(kind, problem) from None
