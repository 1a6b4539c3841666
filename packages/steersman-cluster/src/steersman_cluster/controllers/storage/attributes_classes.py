"""Protection of VolumeAttributesClasses: a class in use is kept by its finalizer until no claim or volume names it."""

from __future__ import annotations

from typing import Final

from steersman.k8s import PersistentVolume, PersistentVolumeClaim, VolumeAttributesClass
from steersman.models import ALL_NAMESPACES, Key, MergePatch
from steersman.operator import Context, Operator, Watch
from steersman_cluster.controllers.storage.volumes import drop_finalizer

__all__ = ["register"]

FINALIZER: Final = "kubernetes.io/vac-protection"


def register(operator: Operator) -> None:
    """Declare the controller."""
    operator.controller(
        name="vac-protection",
        reads=[PersistentVolume, PersistentVolumeClaim],
        watches=[Watch(PersistentVolumeClaim, to=_of_claim), Watch(PersistentVolume, to=_of_volume)],
        terminating=True,
    )(reconcile)


def _names_of_claim(claim: PersistentVolumeClaim) -> set[str]:
    modification = claim.status.modify_volume_status
    names = {claim.spec.volume_attributes_class_name, claim.status.current_volume_attributes_class_name}
    names.add(modification.target_volume_attributes_class_name if modification is not None else None)
    return {name for name in names if name}


def _of_claim(claim: PersistentVolumeClaim) -> list[Key]:
    return [Key("", name) for name in sorted(_names_of_claim(claim))]


def _of_volume(volume: PersistentVolume) -> Key | None:
    name = volume.spec.volume_attributes_class_name
    return Key("", name) if name else None


async def reconcile(attributes: VolumeAttributesClass, ctx: Context) -> None:
    """Remove the finalizer of a class that is being deleted and not in use; restore it on all others."""
    metadata = attributes.metadata
    if metadata.deletion_timestamp is not None:
        if not _is_used(metadata.name, ctx):
            await drop_finalizer(ctx, attributes, FINALIZER)
        return
    if FINALIZER not in metadata.finalizers:
        finalizers = [*metadata.finalizers, FINALIZER]
        body = {"uid": metadata.uid, "resourceVersion": metadata.resource_version, "finalizers": finalizers}
        await ctx.patch(attributes, MergePatch({"metadata": body}))


def _is_used(name: str, ctx: Context) -> bool:
    if any(volume.spec.volume_attributes_class_name == name for volume in ctx.list(PersistentVolume)):
        return True
    return any(name in _names_of_claim(c) for c in ctx.list(PersistentVolumeClaim, namespace=ALL_NAMESPACES))
