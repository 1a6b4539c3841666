"""Ownership of fields for writers other than apply: the last writer of a field owns it.

`track` runs on every create, update and patch. It compares the object before and after, and removes the changed fields
from all other managers. Follows apimachinery's `managedfields` and structured-merge-diff's `merge`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

from msgspec.structs import replace

from steersman_cluster.fields.managers import Manager, cap, decode, encode, is_reset
from steersman_cluster.fields.sets import (
    EMPTY,
    FieldSet,
    InvalidFieldsError,
    difference,
    has_any,
    is_subset,
    recursive_difference,
    sort,
    union,
)
from steersman_cluster.fields.walk import child_type, compare_entries
from steersman_cluster.objects import Object, meta
from steersman_cluster.schema.decode import zero
from steersman_cluster.schema.depth import bounded
from steersman_cluster.schema.types import Type

__all__ = ["STRIPPED", "Changes", "Versions", "changes", "new_object", "settle", "track"]

Versions: TypeAlias = Callable[[Object, str], "tuple[Object, Type] | None"]
"""Converts an object to an apiVersion: (object, its type), or `None` where that version is not served any more."""

_ROOT = frozenset(("apiVersion", "kind", "metadata"))
_SYSTEM = frozenset(
    (
        "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
        "resourceVersion",
    )
)  # fmt: skip
_MAX_SORTED_SETS = 64
STRIPPED: FieldSet = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {".": {}, **{f"f:{name}": {} for name in sorted(_SYSTEM)}},
}
"""The fields that no manager owns."""


@bounded
def track(
    before: Object | None,
    after: Object,
    type: Type,
    *,
    manager: str,
    api_version: str,
    time: str,
    subresource: str = "",
    operation: str = "Update",
    reset: FieldSet = EMPTY,
    versions: Versions | None = None,
) -> None:
    """Set `metadata.managedFields` of the object that a write leaves, in place.

    `before` is the live object, `None` on creation. `time` is RFC 3339 with seconds. `reset` names the fields that
    the write cannot change (status for the main resource). A main write may replace the entries by valid ones of its
    own or forget them (`[]`, `[{}]`); invalid ones are ignored. An object without entries stays without until it is
    applied. The entry's time moves with every change of the object, as on the API server. `versions` is needed where
    a kind has several.
    """
    holder: Object = after.setdefault("metadata", {})
    given: list[Object] | None = holder.pop("managedFields", None)
    stored = cast("list[Object]", meta(before).get("managedFields") or []) if before else []
    if not given and not type.name:
        given = None  # Custom resources drop an empty list before it is compared.
    if subresource or given is None or given is stored or given == stored:
        entries, unchanged = decode(stored, trusted=True), True
    else:
        entries, unchanged = _given(given, stored), False
    if not entries and before is not None:
        return
    found = Changes(before, after, type, api_version, reset, versions)
    changed, removed = found.at(api_version) or (EMPTY, EMPTY)
    if not changed and not removed:
        written = stored if unchanged else encode(entry for entry in entries if entry.fields)
    else:
        self = Manager(manager or "unknown", operation, api_version, subresource, time, EMPTY)
        written = encode(cap(_joined(found.left(entries), self, changed, type)))
    if written:
        holder["managedFields"] = written


def _given(given: list[Object], stored: list[Object]) -> list[Manager]:
    """The entries that a client sends, where they are valid; else those that are stored."""
    try:
        if is_reset(given):
            return []
        entries = decode(given)
    except (InvalidFieldsError, KeyError, AttributeError, TypeError):
        entries = []
    return entries or decode(stored, trusted=True)


def _joined(entries: list[Manager], self: Manager, changed: FieldSet, type: Type) -> list[Manager]:
    """Add what changed to the writer's entry, which moves its time."""
    if not changed:
        return entries
    out: list[Manager] = []
    mine = EMPTY
    for entry in entries:
        if entry.identity == self.identity:
            mine = entry.fields
        else:
            out.append(entry)
    if not mine:
        fields = _sorted(changed, self, type)
    else:
        fields = mine if is_subset(changed, mine) else sort(union(changed, mine))
    out.append(Manager(self.name, self.operation, self.api_version, self.subresource, self.time, fields))
    return out


def _sorted(changed: FieldSet, self: Manager, type: Type) -> FieldSet:
    """Return the sorted set; most writers write the same fields of many objects of a type, one after the other."""
    memo: dict[tuple[str, str], tuple[FieldSet, FieldSet]] = type.memo.setdefault("sorted", {})
    slot = self.name, self.subresource
    known = memo.get(slot)
    if known is not None and known[0] == changed:
        return known[1]
    if len(memo) >= _MAX_SORTED_SETS:
        memo.clear()
    memo[slot] = changed, sort(changed)
    return memo[slot][1]


class Changes:
    """The changes of a write, in its own version and, on request, in those of other entries."""

    __slots__ = ("_after", "_before", "_reset", "_seen", "_versions")

    def __init__(
        self,
        before: Object | None,
        after: Object,
        type: Type,
        api_version: str,
        reset: FieldSet,
        versions: Versions | None,
    ) -> None:
        self._before = before
        self._after = after
        self._reset = reset
        self._versions = versions
        self._seen: dict[str, tuple[FieldSet, FieldSet] | None] = {api_version: changes(before, after, type, reset)}

    def at(self, api_version: str) -> tuple[FieldSet, FieldSet] | None:
        """(added or modified, removed) as a version sees it; `None` where it is not served any more."""
        if api_version not in self._seen:
            self._seen[api_version] = self._converted(api_version)
        return self._seen[api_version]

    def _converted(self, api_version: str) -> tuple[FieldSet, FieldSet] | None:
        if self._versions is None:
            return next(iter(self._seen.values()))
        new = self._versions(self._after, api_version)
        if new is None:
            return None
        old = self._versions(self._before, api_version) if self._before else None
        return changes(old[0] if old else None, new[0], new[1], self._reset)

    def left(self, entries: list[Manager]) -> list[Manager]:
        """The entries of others after this write."""
        out: list[Manager] = []
        for entry in entries:
            found = self.at(entry.api_version)
            kept = _take(entry, *found) if found is not None else None
            if kept is not None:
                out.append(kept)
        return out


def _take(entry: Manager, changed: FieldSet, removed: FieldSet) -> Manager | None:
    """An entry without what others changed or removed; `None` where nothing is left of it."""
    fields = entry.fields
    if changed and has_any(fields, changed):
        fields = difference(fields, changed)
    if removed and has_any(fields, removed):
        fields = difference(fields, removed)
    if fields is entry.fields:
        return entry if fields else None
    return replace(entry, fields=fields) if fields else None


def changes(before: Object | None, after: Object, type: Type, reset: FieldSet = EMPTY) -> tuple[FieldSet, FieldSet]:
    """The fields that are added or modified, and those that are removed; nothing of what no manager owns."""
    if before is None:
        before = new_object(type)
    changed, removed = compare_entries(before, after, type, _ROOT)
    changed, removed = changed or {}, removed or {}
    old, new = meta(before), meta(after)
    if old is not new and old != new:
        more, less = compare_entries(old, new, child_type(type, "metadata"), _SYSTEM)
        if more:
            changed["f:metadata"] = more
        if less:
            removed["f:metadata"] = less
    if reset:
        changed, removed = recursive_difference(changed, reset), recursive_difference(removed, reset)
    return changed, removed


def new_object(type: Type) -> Object:
    """Return the object that a new object is compared with: only structs that Go always has."""
    if "zero" not in type.memo:
        empty: Object = {}  # custom resources start from nothing; their types have no Go name
        type.memo["zero"] = zero(type) if type.name else empty
    found: Object = type.memo["zero"]
    return found


def settle(before: Object, after: Object) -> None:
    """Take back new times of managers where nothing else of the object changed, so that the write is none.

    To be called last, after admission; `after` is changed in place.
    """
    old, new = meta(before), meta(after)
    stored, written = old.get("managedFields"), new.get("managedFields")
    if not stored or not written or len(stored) != len(written) or stored == written:
        return
    for mine, theirs in zip(stored, written, strict=True):
        if {**mine, "time": ""} != {**theirs, "time": ""}:
            return
    if before.keys() != after.keys() or old.keys() != new.keys():
        return
    if any(after[key] != value for key, value in before.items() if key != "metadata"):
        return
    if any(new[key] != value for key, value in old.items() if key != "managedFields"):
        return
    new["managedFields"] = stored
