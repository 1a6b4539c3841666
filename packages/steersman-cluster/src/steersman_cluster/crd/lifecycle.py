"""The life cycle of a CustomResourceDefinition: accepting names, establishing, terminating.

Each function is pure: it takes the definition and its neighbours and returns the next status, or `None` without a
change. The API server applies it right after the write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from steersman_cluster.objects import Object, dig, meta, name_of

__all__ = ["FINALIZER", "accept", "condition", "deleting", "deletion_progress", "established"]

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
"""Holds a definition until its objects are gone."""

_PARTS = (
    ("plural", "PluralConflict", "resources"),
    ("singular", "SingularConflict", "resources"),
    ("shortNames", "ShortNamesConflict", "resources"),
    ("kind", "KindConflict", "kinds"),
    ("listKind", "ListKindConflict", "kinds"),
)


def condition(definition: Object, kind: str) -> Object | None:
    """One condition of the status."""
    for found in cast("list[Object]", dig(definition, "status", "conditions", default=[])):
        if found.get("type") == kind:
            return found
    return None


def established(definition: Object) -> bool:
    """Return whether the resource is served; stays true once it was."""
    found = condition(definition, "Established")
    return found is not None and found.get("status") == "True"


def accept(definition: Object, others: Iterable[Object], now: str) -> Object | None:
    """The status with the names that are free and the conditions that follow; `None` where it is so already.

    `others` are all definitions, this one may be among them. Also to be asked for every other definition of the group
    when one changed or went, since names may have become free.
    """
    spec_names = cast(Object, definition["spec"]["names"])
    status = cast(Object, definition.get("status") or {})
    accepted = cast(Object, status.get("acceptedNames") or {})
    taken = _taken(definition, others)
    granted = dict(accepted)
    conflict: tuple[str, str] | None = None
    for part, reason, space in _PARTS:
        wanted, had = spec_names.get(part), accepted.get(part)
        if message := _conflict(wanted, had, taken[space]):
            conflict = (reason, message)
        elif wanted:
            granted[part] = wanted
        else:
            granted.pop(part, None)
    if categories := spec_names.get("categories"):
        granted["categories"] = categories
    else:
        granted.pop("categories", None)
    conditions = [dict(item) for item in cast("list[Object]", status.get("conditions") or [])]
    if conflict:
        _set(conditions, "NamesAccepted", "False", conflict[0], conflict[1], now)
    else:
        _set(conditions, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
    if not established(definition):
        if conflict:
            _set(conditions, "Established", "False", "NotAccepted", "not all names are accepted", now)
        else:
            _set(conditions, "Established", "True", "InitialNamesAccepted", "the initial names have been accepted", now)
    after: Object = {
        "conditions": conditions,
        "acceptedNames": granted,
        "storedVersions": status.get("storedVersions") or stored_versions(definition),
    }
    return None if after == status else after


def stored_versions(definition: Object) -> list[str]:
    """The stored versions with the present storage version among them."""
    known = list(cast("list[str]", dig(definition, "status", "storedVersions", default=[])))
    for version in cast("list[Object]", dig(definition, "spec", "versions", default=[])):
        if version.get("storage") is True and version.get("name") not in known:
            known.append(cast(str, version["name"]))
            break
    return known


def _taken(definition: Object, others: Iterable[Object]) -> dict[str, set[str]]:
    taken: dict[str, set[str]] = {"resources": set(), "kinds": set()}
    for other in others:
        if name_of(other) == name_of(definition) or dig(other, "spec", "group") != definition["spec"]["group"]:
            continue
        names = cast(Object, dig(other, "status", "acceptedNames", default={}))
        taken["resources"].update(filter(None, (names.get("plural"), names.get("singular"))))
        taken["resources"].update(cast("Sequence[str]", names.get("shortNames") or ()))
        taken["kinds"].update(filter(None, (names.get("kind"), names.get("listKind"))))
    return taken


def _conflict(wanted: Any, had: Any, taken: set[str]) -> str:
    if wanted == had:
        return ""
    if isinstance(wanted, list):
        mine = set(cast("list[str]", had or []))
        used = [
            f'"{name}" is already in use' for name in cast("list[str]", wanted) if name in taken and name not in mine
        ]
        used = list(dict.fromkeys(used))
        return used[0] if len(used) == 1 else f"[{', '.join(used)}]" if used else ""
    return f'"{wanted}" is already in use' if wanted in taken else ""


def _set(conditions: list[Object], kind: str, status: str, reason: str, message: str, now: str) -> None:
    for found in conditions:
        if found["type"] == kind:
            if found["status"] != status:
                found["lastTransitionTime"] = now
            found.update(status=status, reason=reason, message=message)
            return
    conditions.append({"type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message})


def deleting(definition: Object, now: str) -> None:
    """Return the definition after the first DELETE: with the finalizer and a condition."""
    finalizers = cast("list[str]", meta(definition).setdefault("finalizers", []))
    if FINALIZER not in finalizers:
        finalizers.append(FINALIZER)
    text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    deletion_progress(definition, "True", "InstanceDeletionPending", text, now)


def deletion_progress(definition: Object, status: str, reason: str, message: str, now: str) -> None:
    """Set the Terminating condition, in place."""
    conditions = cast("list[Object]", definition.setdefault("status", {}).setdefault("conditions", []))
    _set(conditions, "Terminating", status, reason, message, now)
