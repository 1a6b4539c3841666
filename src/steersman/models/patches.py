"""The four kinds of patch that the API server takes, and the pure functions behind two of them.

JSON patch (RFC 6902) and JSON merge patch (RFC 7386) can be built, computed from two documents and applied to plain
data. Strategic merge patches and apply configurations are bodies only: the server knows how to merge those.
Documents are never modified; results share what did not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias, cast

from steersman.models.jsonpatch import (
    JsonPatch,
    Operation,
    PatchError,
    escape,
    plain,
    pointer,
    same,
    split_pointer,
)
from steersman.models.wire import encode

__all__ = [
    "ApplyPatch",
    "JsonPatch",
    "MergePatch",
    "Operation",
    "Patch",
    "PatchError",
    "StrategicMergePatch",
    "escape",
    "pointer",
    "split_pointer",
]


class _Body:
    """A patch that is one document."""

    __slots__ = ("body",)

    content_type: ClassVar[str]

    def __init__(self, body: Any) -> None:
        self.body: Any = plain(body)

    def encode(self) -> bytes:
        """The request's body."""
        return encode(self.body)

    def __to_wire__(self) -> Any:
        return self.body

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and same(self.body, cast(_Body, other).body)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        # Not the body: it may be a Secret's.
        body: object = self.body
        keys = ", ".join(map(str, cast("dict[str, Any]", body))) if isinstance(body, dict) else "…"
        return f"{type(self).__name__}({keys})"


class MergePatch(_Body):
    """Members to set, and `None` for those to remove (RFC 7386); lists are replaced as a whole."""

    __slots__ = ()
    content_type = "application/merge-patch+json"

    @classmethod
    def diff(cls, before: Any, after: Any) -> MergePatch:
        """The smallest body that turns `before` into `after`.

        Raises `PatchError` where `after` holds a new `null`, which a merge patch cannot say.
        """
        return cls(_merge_difference("", plain(before), plain(after)))

    def __bool__(self) -> bool:
        """Whether it changes anything."""
        return self.body != {}

    def apply(self, document: Any) -> Any:
        """A new document with the patch merged in."""
        return _merge(document, self.body)


def _merge_difference(path: str, before: Any, after: Any) -> Any:
    if not isinstance(after, Mapping):
        if isinstance(before, Mapping) or not same(before, after):
            _refuse_null(path, after)
        return after
    wanted = cast("Mapping[str, Any]", after)
    if not isinstance(before, Mapping):
        _refuse_nulls_in(path, wanted)
        return dict(wanted)
    present = cast("Mapping[str, Any]", before)
    found: dict[str, Any] = {key: None for key in present if key not in wanted}
    for key, value in wanted.items():
        where = f"{path}/{escape(key)}"
        if key not in present:
            _refuse_null(where, value)
            _refuse_nulls_in(where, value)
            found[key] = value
        elif not same(present[key], value):
            found[key] = _merge_difference(where, present[key], value)
    return found


def _refuse_null(path: str, value: Any) -> None:
    if value is None:
        raise PatchError(path, "a merge patch cannot set null; use a JSON patch")


def _refuse_nulls_in(path: str, value: Any) -> None:
    if isinstance(value, Mapping):
        for key, item in cast("Mapping[str, Any]", value).items():
            where = f"{path}/{escape(key)}"
            _refuse_null(where, item)
            _refuse_nulls_in(where, item)


def _merge(document: Any, patch: Any) -> Any:
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(cast("Mapping[str, Any]", document)) if isinstance(document, Mapping) else {}
    for key, value in cast("Mapping[str, Any]", patch).items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), value)
    return merged


class StrategicMergePatch(_Body):
    """A merge patch whose lists merge by key; built-in kinds only, applied by the server."""

    __slots__ = ()
    content_type = "application/strategic-merge-patch+json"


class ApplyPatch(_Body):
    """A server-side apply configuration: the fields that the field manager wants to own."""

    __slots__ = ()
    content_type = "application/apply-patch+yaml"


StrategicPatch = StrategicMergePatch

Patch: TypeAlias = JsonPatch | MergePatch | StrategicMergePatch | ApplyPatch
"""What `client.patch` takes."""
