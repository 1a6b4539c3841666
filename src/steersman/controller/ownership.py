"""Owner references: who made an object, and who may change it (A4).

An owner is in the same namespace as its dependents, or cluster-scoped; an object has at most one controller; and an
owner is a uid, not a name: a namesake that was made later owns nothing of its predecessor's. Values only, no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steersman.models import HasMetadata, OwnerReference, info_of

__all__ = ["OwnershipError", "controller_of", "is_controlled_by", "is_owned_by", "owner_reference"]


class OwnershipError(ValueError):
    """An owner reference that Kubernetes would act upon wrongly: the message says which and why."""


def owner_reference(owner: Any, *, controller: bool = True, block_owner_deletion: bool = True) -> OwnerReference:
    """The reference that makes `owner` the owner of a dependent, by default its controller.

    `owner` must have been read from the cluster, since the uid is what counts; raises `OwnershipError` otherwise.
    """
    if hasattr(owner, "__resource__"):
        info = info_of(owner)
        api_version, kind = info.api_version, info.kind
    else:
        api_version, kind = str(owner.api_version), str(owner.kind)
    metadata = owner.metadata
    if not metadata.uid:
        raise OwnershipError(
            f"{kind} {metadata.name!r} has no metadata.uid, so it can own nothing yet: pass the object as it was read"
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
    """Raise `OwnershipError` when garbage collection would not find, or would wrongly miss, this owner."""
    namespace = owner.metadata.namespace
    if namespace and namespace != child_namespace:
        where = f"namespace {child_namespace!r}" if child_namespace else "no namespace (it is cluster-scoped)"
        raise OwnershipError(
            f"{child_kind} {child_name!r} is in {where}, so {owner.metadata.name!r} in namespace {namespace!r} cannot "
            "own it, and the garbage collector would delete it: put it in the owner's namespace, or pass owner=None "
            "and clean up in a finalizer"
        )


def controller_of(obj: HasMetadata) -> OwnerReference | None:
    """The owner that controls the object."""
    return next((o for o in obj.metadata.owner_references if o.controller), None)


def is_controlled_by(obj: HasMetadata, owner: HasMetadata) -> bool:
    """Whether `owner`, this very one by uid, controls the object."""
    controller = controller_of(obj)
    return controller is not None and controller.uid == owner.metadata.uid


def is_owned_by(obj: HasMetadata, owner: HasMetadata) -> bool:
    """Whether `owner`, this very one by uid, is among the owners of the object."""
    return any(o.uid == owner.metadata.uid for o in obj.metadata.owner_references)


def wire_reference(reference: OwnerReference) -> Mapping[str, Any]:
    """The reference with wire names."""
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
