"""Server-side apply: merge the applied object, find conflicts, remove the fields that its manager gave up.

Follows apimachinery's `managedfields` (its chain of managers) and structured-merge-diff's `merge.Updater`.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from steersman_cluster.errors import APIError, bad_request
from steersman_cluster.fields.elements import shown
from steersman_cluster.fields.managers import Manager, decode, encode
from steersman_cluster.fields.merge import merge, validate
from steersman_cluster.fields.sets import (
    EMPTY,
    FieldSet,
    InvalidFieldsError,
    difference,
    intersection,
    is_subset,
    paths,
    recursive_difference,
    sort,
    union,
    with_named,
)
from steersman_cluster.fields.tracking import STRIPPED, Changes, Versions, changes, new_object
from steersman_cluster.fields.walk import owned, remove
from steersman_cluster.objects import Object, annotations_of, dig, from_json, meta
from steersman_cluster.schema.depth import bounded
from steersman_cluster.schema.types import Type

__all__ = ["LAST_APPLIED", "apply", "unconvertible"]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_BEFORE_FIRST_APPLY = "before-first-apply"


@dataclass(frozen=True, slots=True)
class _Conflict:
    manager: Manager
    path: tuple[str, ...]


class _ConflictsError(Exception):
    def __init__(self, conflicts: list[_Conflict]) -> None:
        super().__init__()
        self.conflicts = conflicts


@dataclass(frozen=True, slots=True)
class _Request:
    """One apply, as it is passed along."""

    live: Object
    applied: Object
    type: Type
    manager: Manager
    reset: FieldSet
    versions: Versions | None


@bounded
def apply(
    live: Object | None,
    applied: Object,
    type: Type,
    *,
    manager: str,
    api_version: str,
    time: str,
    kind: str = "",
    subresource: str = "",
    force: bool = False,
    reset: FieldSet = EMPTY,
    versions: Versions | None = None,
) -> Object:
    """The object after applying `applied` as `manager`, with its managed fields; arguments stay as they are.

    `live` is the stored object in the version `api_version`, `None` where there is none. The answer is neither
    defaulted nor decoded; it may share parts with both arguments. Where nothing changes it equals `live`, but for
    managed fields. Raises `APIError`: 409 with one cause for each conflict, 400 for objects of another kind or
    version, with managed fields, or that do not fit the type.
    """
    _check(applied, api_version, kind)
    problem = validate(applied, type)
    if problem:
        raise bad_request(f"failed to create typed patch object ({_described(applied)}): {problem}")
    current = live if live is not None else copy.deepcopy(new_object(type))
    me = Manager(manager or "unknown", "Apply", api_version, subresource, time, EMPTY)
    request = _Request(current, applied, type, me, reset, versions)
    entries = _entries(live, type, api_version, time, subresource, reset)
    try:
        merged, managers = _apply(request, entries, force=force)
    except _ConflictsError as error:
        conflicts = _unexplained(request, error.conflicts) if manager == "kubectl" else error.conflicts
        if conflicts:
            raise _refusal(conflicts) from None
        merged, managers = _apply(request, entries, force=True)
    out = dict(merged)
    out["metadata"] = {key: value for key, value in meta(merged).items() if key != "managedFields"}
    if managers:
        out["metadata"]["managedFields"] = encode(managers)
    if manager == "kubectl" and annotations_of(out).get(LAST_APPLIED):
        out["metadata"]["annotations"] = {**annotations_of(out), LAST_APPLIED: _last_applied(applied)}
    return out


def unconvertible(applied: Object, why: str) -> APIError:
    """The 400 for an applied object that merges but does not decode; `why` is `Decoded.converted`."""
    group_version_kind = _described(applied).partition("; ")[2]
    return bad_request(
        f"failed to convert new object ({_described(applied)}) to proper version: "
        f"unable to convert unstructured object to {group_version_kind}: {why}"
    )


def _check(applied: Object, api_version: str, kind: str) -> None:
    given, given_kind = applied.get("apiVersion", ""), applied.get("kind", "")
    if kind and (given != api_version or given_kind != kind):
        group, slash, version = str(given).rpartition("/")
        raise bad_request(f"invalid object type: {group}{slash or '/'}{version}, Kind={given_kind}")
    if dig(applied, "metadata", "managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")


def _described(obj: Object) -> str:
    namespace, name = meta(obj).get("namespace") or "", meta(obj).get("name") or ""
    group, slash, version = str(obj.get("apiVersion", "")).rpartition("/")
    return f"{namespace}/{name}; {group}{slash or '/'}{version}, Kind={obj.get('kind', '')}"


def _entries(
    live: Object | None, type: Type, api_version: str, time: str, subresource: str, reset: FieldSet
) -> list[Manager]:
    """The stored entries; an object that has none gets one for all its fields before its first apply."""
    if live is None:
        return []
    try:
        entries = decode(meta(live).get("managedFields"), trusted=True)
    except (InvalidFieldsError, KeyError):
        entries = []
    if entries:
        return entries
    fields, _ = changes(None, live, type, reset)
    if not fields:
        return []
    return [Manager(_BEFORE_FIRST_APPLY, "Update", api_version, subresource, time, sort(fields))]


def _apply(request: _Request, entries: list[Manager], *, force: bool) -> tuple[Object, list[Manager]]:
    me = request.manager
    last = next((entry for entry in entries if entry.identity == me.identity), None)
    others = [entry for entry in entries if entry.identity != me.identity]
    fields = owned(request.applied, request.type)
    if request.reset:
        fields = recursive_difference(fields, request.reset)
    merged: Object = merge(request.live, request.applied, request.type)
    if last is not None and last.fields and not is_subset(last.fields, fields):
        merged = _prune(request, merged, last.fields, [*others, replace(me, fields=fields)])
    found = Changes(request.live, merged, request.type, me.api_version, request.reset, request.versions)
    if not force:
        _refuse_conflicts(others, found)
    kept = found.left(others)
    fields = difference(fields, STRIPPED)
    same = merged == request.live
    if fields:
        unchanged = last is not None and last.fields == fields
        written = last.fields if unchanged and last is not None else sort(fields)
        time = (last.time if last is not None else "") if same else me.time
        kept.append(replace(me, fields=written, time=time))
    return merged, kept


def _refuse_conflicts(others: list[Manager], found: Changes) -> None:
    clashes: list[_Conflict] = []
    for entry in sorted(others, key=lambda other: other.identifier):
        changed, _ = found.at(entry.api_version) or (EMPTY, EMPTY)
        clashes.extend(_Conflict(entry, path) for path in paths(intersection(entry.fields, changed)))
    if clashes:
        raise _ConflictsError(clashes)


def _prune(request: _Request, merged: Object, last: FieldSet, managers: list[Manager]) -> Object:
    """Remove what the manager applied last time and does not now, unless another manager has it, too.

    What others have is seen in the version of their entry (structured-merge-diff's `addBackOwnedItems`).
    """
    shape, own = request.type, request.manager.api_version
    mine = with_named(last, shape)
    there = with_named(owned(merged, shape), shape)
    pruned = remove(merged, mine, shape)
    by_version: dict[str, FieldSet] = {own: EMPTY}
    for entry in managers:
        by_version[entry.api_version] = union(by_version.get(entry.api_version, EMPTY), entry.fields)
    for version, managed in by_version.items():
        pruned = _with_managed(request, merged, pruned, version, managed)
    left = with_named(owned(pruned, shape), shape)
    return remove(merged, intersection(difference(there, left), mine), shape)


def _with_managed(request: _Request, merged: Object, pruned: Object, version: str, managed: FieldSet) -> Object:
    """The pruned object with what the managers of one version have; in the version of the request."""
    own = request.manager.api_version
    whole, less = _in_version(request, merged, version), _in_version(request, pruned, version)
    if whole is None or less is None:
        return pruned  # that version is not served any more
    obj, shape = whole
    there = with_named(owned(obj, shape), shape)
    left = with_named(owned(less[0], shape), shape)
    kept = remove(obj, difference(there, union(left, with_named(managed, shape))), shape)
    back = _in_version(request, kept, own) if version != own else None
    return back[0] if back is not None else kept


def _in_version(request: _Request, obj: Object, version: str) -> tuple[Object, Type] | None:
    same_version = obj.get("apiVersion", request.manager.api_version) == version
    if request.versions is None or same_version:
        return obj, request.type
    return request.versions(obj, version)


def _unexplained(request: _Request, conflicts: list[_Conflict]) -> list[_Conflict]:
    """The conflicts that client-side apply does not explain: kubectl takes over what its annotation set."""
    allowed = _allowed(request)
    if allowed is None:
        return conflicts
    return [conflict for conflict in conflicts if not _has(allowed, conflict.path)]


def _allowed(request: _Request) -> FieldSet | None:
    text = annotations_of(request.live).get(LAST_APPLIED)
    if not text:
        return None
    try:
        last: Any = from_json(text)
    except ValueError:
        return None
    if not isinstance(last, dict) or last.get("apiVersion") != request.manager.api_version:  # pyright: ignore[reportUnknownMemberType]
        return None
    if validate(last, request.type):
        return None
    changed, removed = changes(last, request.live, request.type)  # pyright: ignore[reportUnknownArgumentType]
    return difference(difference(owned(last, request.type), changed), removed)


def _has(fields: FieldSet, path: tuple[str, ...]) -> bool:
    node: FieldSet | None = fields
    for step in path:
        node = node.get(step) if node else None
        if node is None:
            return False
    return not node or "." in node


def _last_applied(applied: Object) -> str:
    annotations = {key: value for key, value in annotations_of(applied).items() if key != LAST_APPLIED}
    metadata = {key: value for key, value in meta(applied).items() if key != "annotations"}
    if annotations:
        metadata["annotations"] = annotations
    return json.dumps({**applied, "metadata": metadata}, separators=(",", ":"), sort_keys=True) + "\n"


def _refusal(conflicts: list[_Conflict]) -> APIError:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {conflict.manager.shown}",
            "field": shown(conflict.path),
        }
        for conflict in conflicts
    ]
    if len(conflicts) == 1:
        text = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines: list[str] = []
        manager = None
        for conflict, cause in zip(conflicts, causes, strict=True):
            if conflict.manager is not manager:
                manager = conflict.manager
                lines.append(f"conflicts with {manager.shown}:")
            lines.append(f"- {cause['field']}")
        text = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
    return APIError(409, "Conflict", text, {"causes": causes})
