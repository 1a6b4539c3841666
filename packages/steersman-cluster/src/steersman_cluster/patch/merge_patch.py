"""JSON merge patch (RFC 7386), as the API server's library reads it.

It never changes its arguments; the answer shares what did not change.
"""

from __future__ import annotations

from typing import Any, cast

from steersman_cluster.errors import bad_request
from steersman_cluster.objects import Object
from steersman_cluster.schema.depth import bounded
from steersman_cluster.schema.scalars import described

__all__ = ["merge_patch"]

_GO_MAP = "map[string]interface {}"


@bounded
def merge_patch(doc: Object, patch: Any) -> Any:
    """The document after the patch: null removes, maps merge, everything else replaces.

    A patch that is no object is a 400.
    """
    if patch is None:
        raise bad_request("Invalid JSON Patch")
    if not isinstance(patch, dict):
        what = described(patch)
        raise bad_request(f"error decoding patch: json: cannot unmarshal {what} into Go value of type {_GO_MAP}")
    return _merge(doc, cast(Object, patch))


def _merge(doc: Object, patch: Object) -> Object:
    out = dict(doc)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, dict):
            current = out.get(key)
            merging = cast(Object, value)
            out[key] = _merge(cast(Object, current), merging) if isinstance(current, dict) else _without_nulls(merging)
        else:
            out[key] = _without_nulls(value)
    return out


def _without_nulls(value: Any) -> Any:
    """A value that meets no counterpart: nulls in its maps go, nulls in its lists stay."""
    if isinstance(value, dict):
        entries = cast(Object, value)
        return {key: _without_nulls(item) for key, item in entries.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in cast("list[Any]", value)]
    return value
