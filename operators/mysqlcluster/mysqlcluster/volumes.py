"""The volumes of the members: they grow with `spec.storage` and with their use, and never shrink."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from steersman import Condition, Context, MergePatch, Quantity
from steersman.client import Forbidden, Invalid
from steersman.k8s import PersistentVolumeClaim

from mysqlcluster.desired import Desired, Storage
from mysqlcluster.observation import Observation

__all__ = ["Growth", "Volume", "claim_of", "grow_volumes", "growth"]

MEBIBYTE = 1 << 20


class Volume(NamedTuple):
    """The volume of one member."""

    requested: Quantity
    capacity: Quantity
    used: float
    """The used share, from 0 to 1."""


class Growth(NamedTuple):
    """The claims that grow, and the condition StorageOK."""

    sizes: Mapping[str, Quantity]
    """The new request by member."""
    problem: str = ""
    """Why a full volume does not grow; empty if none is full."""


def growth(storage: Storage, volumes: Mapping[str, Volume]) -> Growth:
    """Return the volumes that grow.

    A member can become the primary, so a volume is at least as large as `spec.storage` and as the largest request of
    the others. A volume does not grow again before its previous growth has ended.

    Args:
        storage: The storage of the spec.
        volumes: The volumes by member.
    """
    grow = storage.auto_grow
    least = max([storage.size, *(each.requested for each in volumes.values())])
    sizes: dict[str, Quantity] = {}
    problems: list[str] = []
    for member, volume in volumes.items():
        wanted = max(volume.requested, least)
        if volume.used * 100 >= grow.threshold_percent and volume.capacity >= volume.requested >= least:
            larger = _larger(volume.requested, grow.step_percent, grow.max)
            if not grow.enabled:
                problems.append(f"{member} uses {volume.used:.0%}; set spec.storage.size or autoGrow")
            elif larger <= volume.requested:
                problems.append(f"{member} uses {volume.used:.0%} and has spec.storage.autoGrow.max")
            else:
                wanted = larger
        if wanted > volume.requested:
            sizes[member] = wanted
    return Growth(sizes, "; ".join(problems))


def _larger(size: Quantity, percent: int, most: Quantity | None) -> Quantity:
    """Return a size in whole MiB that is larger by a percentage, up to the greatest size."""
    mebibytes = ceil(size.as_fraction() * Fraction(100 + percent, 100) / MEBIBYTE)
    grown = Quantity(f"{mebibytes}Mi")
    return grown if most is None or grown <= most else most


def claim_of(cluster: str, member: str) -> str:
    """Return the name of the PersistentVolumeClaim of a member."""
    return f"data-{member}"


async def grow_volumes(want: Desired, seen: Observation, ctx: Context) -> Condition:
    """Let the volumes grow, and return the condition StorageOK."""
    volumes: dict[str, Volume] = {}
    for member in seen.members:
        found = ctx.get(PersistentVolumeClaim, claim_of(want.key.name, member.name))
        if found is None or "storage" not in found.spec.resources.requests:
            continue
        requested = found.spec.resources.requests["storage"]
        capacity = found.status.capacity.get("storage")
        volumes[member.name] = Volume(requested, capacity or requested, member.disk_used_ratio)
    step = growth(want.storage, volumes)
    refused: list[str] = []
    for member, size in step.sizes.items():
        name, before = claim_of(want.key.name, member), volumes[member].requested
        patch = MergePatch({"spec": {"resources": {"requests": {"storage": str(size)}}}})
        try:
            await ctx.patch(PersistentVolumeClaim, patch, name=name)
        except (Forbidden, Invalid) as problem:
            refused.append(f"{name} cannot grow to {size}: {problem}")
            continue
        text = f"{name} grows from {before} to {size}"
        ctx.event("VolumeGrown", text, action="Grow")
        ctx.log.info("volume_grown", claim=name, before=str(before), after=str(size), used=volumes[member].used)
    message = "; ".join(filter(None, (step.problem, *refused)))
    reason = "GrowthRefused" if refused else "VolumeFull" if message else "EnoughSpace"
    return Condition(type="StorageOK", status="False" if message else "True", reason=reason, message=message)
