"""The four patch types of the API server.

JSON patch (RFC 6902) and JSON merge patch (RFC 7386) can be created, computed from two documents and applied to plain
data. Strategic merge patches and apply configurations are only bodies of requests; the server merges them. Documents
are not modified; results share unchanged parts with their input.
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
    """Base class of patches that are one document."""

    __slots__ = ("body",)

    content_type: ClassVar[str]

    def __init__(self, body: Any) -> None:
        self.body: Any = plain(body)

    def encode(self) -> bytes:
        """Return the body of the request."""
        return encode(self.body)

    def __to_wire__(self) -> Any:
        return self.body

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Body) and type(other) is type(self) and same(self.body, other.body)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        # Without the body, which may be that of a Secret.
        body: object = self.body
        keys = ", ".join(map(str, cast("dict[str, Any]", body))) if isinstance(body, dict) else "…"
        return f"{type(self).__name__}({keys})"


class MergePatch(_Body):
    """Members to set, with `None` for members to remove (RFC 7386); lists are replaced as a whole."""

    __slots__ = ()
    content_type = "application/merge-patch+json"

    @classmethod
    def diff(cls, before: Any, after: Any) -> MergePatch:
        """Return the smallest patch that changes `before` to `after`.

        Raises `PatchError` if `after` has a new `null`, which a merge patch cannot express.
        """
        return cls(_merge_difference("", plain(before), plain(after)))

    def __bool__(self) -> bool:
        """Return whether the patch changes anything."""
        return self.body != {}

    def apply(self, document: Any) -> Any:
        """Return a new document with the patch applied."""
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
    """A merge patch that merges some lists by key; for built-in kinds only. The server applies it."""

    __slots__ = ()
    content_type = "application/strategic-merge-patch+json"


class ApplyPatch(_Body):
    """A server-side apply configuration: the fields that the field manager declares."""

    __slots__ = ()
    content_type = "application/apply-patch+yaml"


Patch: TypeAlias = JsonPatch | MergePatch | StrategicMergePatch | ApplyPatch
"""A patch for `client.patch`."""
