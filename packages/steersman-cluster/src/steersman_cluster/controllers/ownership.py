"""Decisions of the garbage collector about a dependent, from the states of its owners, without I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Literal, NamedTuple

from steersman.controller.ownership import wire_reference
from steersman.models import ObjectMeta, OwnerReference

__all__ = ["FOREGROUND", "ORPHAN", "OwnerState", "Verdict", "references_without", "state_of", "unblocked", "verdict_of"]

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class OwnerState(Enum):
    """The state of the object that an owner reference names."""

    SOLID = "solid"
    ABSENT = "absent"
    WAITING = "waiting"
    """The owner is deleted in the foreground and waits for its dependents to go first."""


class Verdict(NamedTuple):
    """Leave a dependent alone, cut it loose from some owners (by uid), or delete it."""

    action: Literal["keep", "cut", "delete"]
    cut: frozenset[str] = frozenset()
    propagation: Literal["Background", "Foreground", "Orphan"] = "Background"
    unblock: bool = False
    """First clear `blockOwnerDeletion` of the owner references, because a dependent waits for this object as well."""


def state_of(owner: ObjectMeta | None, uid: str) -> OwnerState:
    """The state of an owner as it was found; another uid is another object."""
    if owner is None or owner.uid != uid:
        return OwnerState.ABSENT
    waits = owner.deletion_timestamp is not None and FOREGROUND in owner.finalizers
    return OwnerState.WAITING if waits else OwnerState.SOLID


def verdict_of(
    obj: ObjectMeta, states: Mapping[str, OwnerState], *, has_dependents: bool, in_circle: bool = False
) -> Verdict:
    """Decide about a dependent: a solid owner keeps it; without one it is deleted as its finalizers require.

    `in_circle` says that a dependent of the object is being deleted in the foreground.
    """
    if not states:
        return Verdict("keep")
    left = frozenset(uid for uid, state in states.items() if state is not OwnerState.SOLID)
    if len(left) < len(states):
        return Verdict("cut", left) if left else Verdict("keep")
    if OwnerState.WAITING in states.values() and has_dependents:
        blocks = any(reference.block_owner_deletion for reference in obj.owner_references)
        return Verdict("delete", propagation="Foreground", unblock=in_circle and blocks)
    if ORPHAN in obj.finalizers:
        return Verdict("delete", propagation="Orphan")
    return Verdict("delete", propagation="Foreground" if FOREGROUND in obj.finalizers else "Background")


def references_without(references: Iterable[OwnerReference], uids: Iterable[str]) -> list[Mapping[str, Any]] | None:
    """The owner references that stay, in wire form; `None` where none does."""
    gone = frozenset(uids)
    return [wire_reference(r) for r in references if r.uid not in gone] or None


def unblocked(references: Iterable[OwnerReference]) -> list[Mapping[str, Any]]:
    """Return the owner references without `blockOwnerDeletion`, in wire form."""
    return [{**wire_reference(r), "blockOwnerDeletion": False} for r in references]
