"""Managed fields of the subresource `scale`: the replicas of a resource and of its `Scale`.

A Scale shows the entries that own the replicas of its parent as its own, and writes of the Scale change the entries of
the parent. Follows apimachinery's `managedfields.ScaleHandler`, including this: an entry of a Scale has no time.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from steersman_cluster.fields.managers import Manager, decode, encode
from steersman_cluster.fields.sets import FieldSet, difference, has_any
from steersman_cluster.objects import Object

__all__ = ["from_scale", "to_scale"]

SCALE_VERSION = "autoscaling/v1"
_REPLICAS: FieldSet = {"f:spec": {"f:replicas": {}}}


def to_scale(entries: Sequence[Object] | None, path: Sequence[str] = ("spec", "replicas")) -> list[Object]:
    """The entries of a Scale, by those of its parent; `path` is where the parent has its replicas."""
    wanted = _at(path)
    return encode(
        replace(entry, api_version=SCALE_VERSION, fields=_REPLICAS)
        for entry in decode(entries, trusted=True)
        if has_any(entry.fields, wanted)
    )


def from_scale(
    entries: Sequence[Object] | None,
    scale_entries: Sequence[Object] | None,
    api_version: str,
    path: Sequence[str] = ("spec", "replicas"),
) -> list[Object]:
    """The entries of the parent after its Scale was written; `api_version` is the parent's."""
    wanted = _at(path)
    scaled = {entry.identity: entry for entry in decode(scale_entries, trusted=True)}
    out: list[Manager] = []
    for entry in decode(entries, trusted=True):
        if not has_any(entry.fields, wanted) or scaled.pop(entry.identity, None) is not None:
            out.append(entry)
            continue
        left = difference(entry.fields, wanted)
        if left:
            out.append(replace(entry, fields=left))
    out.extend(
        replace(entry, api_version=api_version, time="", fields=wanted)
        for entry in scaled.values()
        if has_any(entry.fields, _REPLICAS)
    )
    return encode(out)


def _at(path: Sequence[str]) -> FieldSet:
    fields: FieldSet = {}
    for name in reversed(path):
        fields = {f"f:{name}": fields}
    return fields
