"""Owner references (A4): pure functions that create and compare them.

An owner is in the namespace of its dependents or cluster-scoped. An object has at most one controller. The uid
identifies an owner: a later object of the same name does not own the dependents of the earlier one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steersman.controller.references import group_version_kind
from steersman.models import HasMetadata, OwnerReference

__all__ = ["OwnershipError", "controller_of", "is_controlled_by", "is_owned_by", "owner_reference"]


class OwnershipError(ValueError):
    """An owner reference is invalid and would make the garbage collector delete the wrong objects."""


def owner_reference(owner: Any, *, controller: bool = True, block_owner_deletion: bool = True) -> OwnerReference:
    """Return an owner reference to `owner`, by default as controller.

    Raises:
        OwnershipError: `owner` has no uid, because it was not read from the cluster.
    """
    api_version, kind = group_version_kind(owner)
    metadata = owner.metadata
    if not metadata.uid:
        raise OwnershipError(
            f"{kind} {metadata.name!r} has no metadata.uid, so it cannot be an owner: pass the object as it was read"
        )
    return OwnerReference(
        api_version=api_version,
        kind=kind,
        name=metadata.name,
        uid=metadata.uid,
        controller=controller or None,
        block_owner_deletion=block_owner_deletion or None,
    )


def check_scope(owner: Any, child_kind: str, child_namespace: str, child_name: str) -> None:
    """Raise `OwnershipError` if the garbage collector would not find the owner of a child."""
    namespace = owner.metadata.namespace
    if namespace and namespace != child_namespace:
        where = f"namespace {child_namespace!r}" if child_namespace else "no namespace (it is cluster-scoped)"
        raise OwnershipError(
            f"{child_kind} {child_name!r} is in {where}, so {owner.metadata.name!r} in namespace {namespace!r} cannot "
            "own it, and the garbage collector would delete it: put it in the owner's namespace, or pass owner=None "
            "and clean up in a finalizer"
        )


def controller_of(obj: HasMetadata) -> OwnerReference | None:
    """Return the controlling owner of the object, or `None`."""
    return next((o for o in obj.metadata.owner_references if o.controller), None)


def is_controlled_by(obj: HasMetadata, owner: HasMetadata) -> bool:
    """Return whether `owner`, by uid, controls the object."""
    controller = controller_of(obj)
    return controller is not None and controller.uid == owner.metadata.uid


def is_owned_by(obj: HasMetadata, owner: HasMetadata) -> bool:
    """Return whether `owner`, by uid, is among the owners of the object."""
    return any(o.uid == owner.metadata.uid for o in obj.metadata.owner_references)


def wire_reference(reference: OwnerReference) -> Mapping[str, Any]:
    """Return the reference in wire form."""
    wire: dict[str, Any] = {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "name": reference.name,
        "uid": reference.uid,
    }
    if reference.controller:
        wire["controller"] = True
    if reference.block_owner_deletion:
        wire["blockOwnerDeletion"] = True
    return wire
