"""The difference of two statuses as a JSON merge patch, without encoding unchanged fields.

The result equals `MergePatch.diff` of the two wire forms. Models of the same class are compared field by field; values
that are neither scalars nor models are compared in wire form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias, cast

import msgspec
from msgspec.structs import astuple

from steersman.models import Model, to_dict
from steersman.models.base import fields_of
from steersman.models.memo import Memo
from steersman.models.patches import MergePatch
from steersman.models.wire import encode

__all__ = ["Difference", "difference"]

_SCALARS: Final = frozenset({str, int, bool})
_NO_DEFAULT: Final = object()
_parse: Final = msgspec.json.Decoder().decode


Difference: TypeAlias = tuple[dict[str, Any], bool]
"""The values to set, `None` for fields to remove; and whether lists are replaced or removed (A3)."""


class _NotComparableError(Exception):
    """The fast path cannot compare a value."""


def difference(old: Any, new: Any) -> Difference:
    """Return the merge patch from the status `old` to `new`, which are models, mappings or `None`.

    Raises:
        PatchError: `new` has a null, which a merge patch cannot express.
    """
    if isinstance(new, Model) and new.__class__ is old.__class__:
        try:
            return _of_models(old, new)
        except _NotComparableError:
            pass
    before, after = (to_dict(v) if v is not None else {} for v in (old, new))
    return _of_wire(before, after)


def _of_models(old: Any, new: Any) -> Difference:
    body: dict[str, Any] = {}
    lists = False
    for (wire, default), a, b in zip(_fields[new.__class__], astuple(old), astuple(new)):  # noqa: B905 - both are of one class
        if a is b:
            continue
        kind = b.__class__
        if kind in _SCALARS and (a.__class__ is kind or a is default) and b is not default:
            if a != b or a is default:
                body[wire] = b
            continue
        if b is not default and a is not default and a.__class__ is kind and isinstance(b, Model):
            found, its_lists = _of_models(a, b)
            if found:
                body[wire] = found
        else:
            before = {} if a is default else {wire: _wire(a)}
            after = {} if b is default else {wire: _wire(b)}
            found, its_lists = _of_wire(before, after)
            body.update(found)
        lists = lists or its_lists
    return body, lists


def _of_wire(before: Any, after: Any) -> Difference:
    body = cast("dict[str, Any]", MergePatch.diff(before, after).body)
    return body, _touches_list(before, body)


def _fields_of(kind: type[Model]) -> tuple[tuple[str, object], ...]:
    """Return the wire name of each field, and the default that msgspec omits by identity."""
    config = kind.__struct_config__
    if not config.omit_defaults or config.array_like or config.tag is not None:
        raise _NotComparableError
    found: list[tuple[str, object]] = []
    for f in fields_of(kind):
        if f.default_factory is not msgspec.NODEFAULT and f.default_factory in (list, dict, set):
            raise _NotComparableError  # omitted if empty, not by identity
        default = _NO_DEFAULT if f.default is msgspec.NODEFAULT else f.default
        found.append((f.encode_name, default))
    return tuple(found)


_fields: Final = Memo(_fields_of, 4096)


def _wire(value: Any) -> Any:
    return _parse(encode(value))


def _has_list(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_has_list(v) for v in cast("Mapping[str, Any]", value).values())
    return isinstance(value, list)


def _touches_list(before: Any, body: Mapping[str, Any]) -> bool:
    """Return whether the patch replaces or removes a list."""
    present = cast("Mapping[str, Any]", before if isinstance(before, Mapping) else {})
    for name, value in body.items():
        if _has_list(value) or (value is None and _has_list(present.get(name))):
            return True
        if isinstance(value, Mapping) and _touches_list(present.get(name), cast("Mapping[str, Any]", value)):
            return True
    return False
