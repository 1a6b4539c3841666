"""The intent of an apply, and its differences from the live object; pure functions on wire data.

An intent is the object without the fields that only the server writes. The live object may have more fields (defaults,
fields of other managers). Where the server stores a value in another form (`1000m` as `1`), the difference remains
after an apply, and the caller remembers it as accepted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from steersman.controller.ownership import OwnershipError, wire_reference
from steersman.models import OwnerReference

__all__ = ["Differences", "differences", "intent_of"]

Differences: TypeAlias = Mapping[tuple[str | int, ...], Any]
"""The live value at each path that differs from the intent; `None` for absent values."""

_SERVER_FIELDS: Final = frozenset(
    {
        "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
        "deletionGracePeriodSeconds", "managedFields", "selfLink",
    }
)  # fmt: skip
"""Fields of metadata that a client may not apply."""

_ATOMIC: Final = frozenset(
    {"labelSelector", "matchLabels", "namespaceSelector", "nodeSelector", "podSelector", "selector"}
)
"""Atomic maps (`x-kubernetes-map-type: atomic`), in which an additional key is a difference."""


def intent_of(wire: dict[str, Any], owner: OwnerReference | None) -> dict[str, Any]:
    """Return the part of an object in wire form that can be applied, with `owner` among its owners.

    The function changes `wire`.

    Raises:
        OwnershipError: The object has another controller.
    """
    wire.pop("status", None)
    metadata = cast("dict[str, Any]", wire.get("metadata") or {})
    wire["metadata"] = {name: value for name, value in metadata.items() if name not in _SERVER_FIELDS}
    if owner is not None:
        _add_owner(wire["metadata"], owner)
    return wire


def _add_owner(metadata: dict[str, Any], owner: OwnerReference) -> None:
    present = cast("Sequence[Mapping[str, Any]]", metadata.get("ownerReferences") or ())
    others = [o for o in present if o.get("uid") != owner.uid]
    existing = next((o for o in others if o.get("controller")), None)
    if owner.controller and existing is not None:
        raise OwnershipError(
            f"{metadata.get('name')!r} names {existing.get('kind')} {existing.get('name')!r} as its controller, and an "
            f"object has only one: leave that reference out, or pass controller=False for {owner.name!r}"
        )
    metadata["ownerReferences"] = [*others, wire_reference(owner)]


def differences(intent: Mapping[str, Any], live: Mapping[str, Any]) -> dict[tuple[str | int, ...], Any]:
    """Return the differences of `live` from `intent`; additional keys of maps are not differences."""
    found: dict[tuple[str | int, ...], Any] = {}
    _compare(intent, live, (), found)
    return found


Path: TypeAlias = tuple[str | int, ...]


def _compare(wanted: Any, live: Any, path: Path, found: dict[Path, Any]) -> None:
    if isinstance(wanted, Mapping):
        _compare_maps(cast("Mapping[str, Any]", wanted), live, path, found)
    elif isinstance(wanted, list | tuple):
        _compare_lists(cast("Sequence[Any]", wanted), live, path, found)
    elif wanted != live or isinstance(wanted, bool) is not isinstance(live, bool):
        found[path] = live


def _compare_maps(wanted: Mapping[str, Any], live: Any, path: Path, found: dict[Path, Any]) -> None:
    if not isinstance(live, Mapping):
        if wanted or live is not None:  # an empty map and an absent one are the same
            found[path] = live
        return
    members = cast("Mapping[str, Any]", live)
    if path and path[-1] in _ATOMIC and len(members) > len(wanted):
        found[path] = members
        return
    for name, value in wanted.items():
        _compare(value, members.get(name), (*path, name), found)


def _compare_lists(wanted: Sequence[Any], live: Any, path: Path, found: dict[Path, Any]) -> None:
    if path == ("metadata", "ownerReferences"):
        _compare_owners(wanted, cast("Sequence[Any]", live or ()), path, found)
    elif isinstance(live, list | tuple) and len(cast("Sequence[Any]", live)) == len(wanted):
        for n, (a, b) in enumerate(zip(wanted, cast("Sequence[Any]", live), strict=True)):
            _compare(a, b, (*path, n), found)
    elif wanted or live:
        found[path] = live


def _compare_owners(wanted: Sequence[Any], live: Sequence[Any], path: Path, found: dict[Path, Any]) -> None:
    """Compare owner references by uid; other managers may add theirs."""
    by_uid = {str(o.get("uid")): o for o in cast("Sequence[Mapping[str, Any]]", live)}
    for owner in cast("Sequence[Mapping[str, Any]]", wanted):
        _compare(owner, by_uid.get(str(owner.get("uid"))), (*path, str(owner.get("uid"))), found)
