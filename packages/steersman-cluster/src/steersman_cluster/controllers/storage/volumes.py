"""PersistentVolumeClaims and PersistentVolumes: binding, provisioning of local directories, reclaiming, protection.

A claim is bound to a volume that fits; where its class is ours, a directory becomes a volume for it.
Claims in use and volumes that are bound are kept by their finalizers until they are free.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from steersman.client import AlreadyExists, Conflict, NotFound
from steersman.controller import RequeueError
from steersman.k8s import PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from steersman.k8s.core_v1 import HostPathVolumeSource, ObjectReference, PersistentVolumeSpec
from steersman.models import ALL_NAMESPACES, Key, MergePatch, ObjectMeta, to_dict
from steersman.operator import Context, Operator, Watch
from steersman_cluster.controllers.storage.claims import (
    CLAIM_INDEX,
    SELECTED_NODE,
    best_volume,
    is_bound_to,
    is_in_use,
    waits_for_consumer,
)

__all__ = ["PROVISIONER", "register"]

PROVISIONER = "steersman.dev/local"
_UNUSED_DIRECTORY = Path("/var/lib/steersman/volumes")
"""The directory in the paths of volumes of simulated nodes."""
_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_BOUND = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
_PROVISIONED = "pv.kubernetes.io/provisioned-by"
_CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
_VOLUME_PROTECTION = "kubernetes.io/pv-protection"


def register(
    operator: Operator,
    *,
    directory: Path | None = None,
    default_class: str = "standard",
) -> None:
    """Declare the controllers.

    Args:
        operator: The operator that gets the controllers.
        directory: The directory of this machine below which volumes are directories, which the kubelet creates; that of
            a volume with the policy Delete is deleted with it. Without it the volumes have paths that no node uses.
        default_class: The StorageClass that is created at the start if it is missing; none if empty.
    """
    binder = Binder(directory or _UNUSED_DIRECTORY)
    reclaimer = Reclaimer(directory)

    async def make_class(ctx: Context) -> None:
        if default_class and await ctx.fetch(StorageClass, default_class) is None:
            made = StorageClass(
                metadata=ObjectMeta(name=default_class, annotations={_DEFAULT: "true"}),
                provisioner=PROVISIONER,
                reclaim_policy="Delete",
                volume_binding_mode="WaitForFirstConsumer",
            )
            try:
                await ctx.client.create(made)
            except AlreadyExists:
                return

    operator.on_startup(make_class)
    operator.controller(
        name="persistentvolume-binder",
        reads=[PersistentVolumeClaim, StorageClass],
        watches=[
            Watch(PersistentVolume, to=_to_claims),
            Watch(Pod, to=_claims_used),
            Watch(StorageClass, to=_to_pending),
        ],
        terminating=True,
    )(binder.claim)
    operator.controller(
        name="persistentvolume-reclaimer",
        reads=[PersistentVolume],
        watches=[Watch(PersistentVolumeClaim, to=_to_volume)],
        terminating=True,
    )(reclaimer.volume)


def _claims_used(pod: Pod) -> list[Key]:
    names = (v.persistent_volume_claim.claim_name for v in pod.spec.volumes if v.persistent_volume_claim)
    return [Key(pod.metadata.namespace, name) for name in names]


def _to_claims(volume: PersistentVolume, ctx: Context) -> list[Key]:
    """The volume's claim, or every claim that waits for one."""
    reference = volume.spec.claim_ref
    if reference is not None:
        return [Key(reference.namespace or "", reference.name or "")]
    return _to_pending(volume, ctx)


def _to_pending(_: Any, ctx: Context) -> list[Key]:
    claims = ctx.list(PersistentVolumeClaim, namespace=ALL_NAMESPACES)
    return [Key(c.metadata.namespace, c.metadata.name) for c in claims if not (c.spec.volume_name)]


def _to_volume(claim: PersistentVolumeClaim) -> Key | None:
    name = claim.spec.volume_name
    return Key("", name) if name else None


def phase(obj: Any) -> str:
    return obj.status.phase or "Pending"


class Binder:
    """Brings claims and volumes together."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def claim(self, claim: PersistentVolumeClaim, ctx: Context) -> None:
        """Protect, bind or provision for one claim."""
        users = ctx.list(Pod, index=(CLAIM_INDEX, f"{claim.metadata.namespace}/{claim.metadata.name}"))
        if claim.metadata.deletion_timestamp is not None:
            if not is_in_use(users):
                await drop_finalizer(ctx, claim, _CLAIM_PROTECTION)
            return
        if claim.spec.volume_name and claim.metadata.annotations.get("pv.kubernetes.io/bind-completed"):
            await self._check(claim, ctx)
            return
        volume = best_volume(claim, ctx.list(PersistentVolume))
        name = claim.spec.storage_class_name or ""
        storage = ctx.get(StorageClass, name) if name else None
        meant = volume is not None and volume.spec.claim_ref is not None
        if waits_for_consumer(storage) and not meant and SELECTED_NODE not in claim.metadata.annotations:
            if not users:
                message = "waiting for first consumer to be created before binding"
                ctx.event("WaitForFirstConsumer", message, action="Bind")
            await self._pending(claim, ctx)
            return
        if volume is None and storage is not None and storage.provisioner == PROVISIONER:
            volume = await self._provision(claim, storage, ctx)
        if volume is not None:
            await self._bind(claim, volume, ctx)
        else:
            await self._explain(claim, storage, ctx)

    async def _explain(self, claim: PersistentVolumeClaim, storage: StorageClass | None, ctx: Context) -> None:
        name = claim.spec.storage_class_name
        if name and storage is None:
            message = f'storageclass.storage.k8s.io "{name}" not found'
            ctx.event("ProvisioningFailed", message, type="Warning", action="Provision")
        elif storage is not None and storage.provisioner != "kubernetes.io/no-provisioner":
            message = (
                f"Waiting for a volume to be created either by the external provisioner '{storage.provisioner}' or "
                "manually by the system administrator. If volume creation is delayed, please verify that the "
                "provisioner is running and correctly registered."
            )
            ctx.event("ExternalProvisioning", message, action="Provision")
        else:
            message = "no persistent volumes available for this claim and no storage class is set"
            ctx.event("FailedBinding", message, action="Bind")
        await self._pending(claim, ctx)

    async def _pending(self, claim: PersistentVolumeClaim, ctx: Context) -> None:
        if not claim.status.phase:
            await _patch_status(ctx, claim, {"phase": "Pending"})

    async def _check(self, claim: PersistentVolumeClaim, ctx: Context) -> None:
        """Mark a bound claim as lost if its volume is missing or bound to another claim."""
        volume = ctx.get(PersistentVolume, claim.spec.volume_name or "")
        if volume is None or not is_bound_to(volume, claim):
            if phase(claim) != "Lost":
                await _patch_status(ctx, claim, {"phase": "Lost"})
                message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
                ctx.event("ClaimLost", message, type="Warning", action="Bind")
        elif phase(claim) != "Bound":
            await self._bind(claim, volume, ctx)

    async def _provision(
        self, claim: PersistentVolumeClaim, storage: StorageClass, ctx: Context
    ) -> PersistentVolume | None:
        name = f"pvc-{claim.metadata.uid}"
        volume = PersistentVolume(
            metadata=ObjectMeta(name=name, annotations={_PROVISIONED: PROVISIONER}, finalizers=(_VOLUME_PROTECTION,)),
            spec=PersistentVolumeSpec(
                access_modes=claim.spec.access_modes,
                capacity={"storage": claim.spec.resources.requests["storage"]},
                claim_ref=_reference(claim),
                host_path=HostPathVolumeSource(path=str(self._directory / name), type="DirectoryOrCreate"),
                persistent_volume_reclaim_policy=storage.reclaim_policy or "Delete",
                storage_class_name=storage.metadata.name,
                volume_mode=claim.spec.volume_mode,
                mount_options=storage.mount_options,
            ),
        )
        try:
            made = await ctx.create(volume, owned=False)
        except AlreadyExists:
            return ctx.get(PersistentVolume, name)
        ctx.event("ProvisioningSucceeded", f"Successfully provisioned volume {name}", action="Provision")
        return made

    async def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume, ctx: Context) -> None:
        reference = to_dict(_reference(claim))
        name = volume.metadata.name
        try:
            if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
                notes = {"pv.kubernetes.io/bound-by-controller": "yes"} if volume.spec.claim_ref is None else {}
                metadata = {"resourceVersion": volume.metadata.resource_version, "annotations": notes}
                body = {"metadata": metadata, "spec": {"claimRef": reference}}
                volume = await ctx.patch(volume, MergePatch(body))
            if phase(volume) != "Bound":
                await _patch_status(ctx, volume, {"phase": "Bound"})
            if (
                not claim.spec
                or claim.spec.volume_name != name
                or not _BOUND.items() <= claim.metadata.annotations.items()
            ):
                metadata = {"uid": claim.metadata.uid, "annotations": _BOUND}
                claim = await ctx.patch(claim, MergePatch({"metadata": metadata, "spec": {"volumeName": name}}))
        except (Conflict, NotFound) as problem:
            raise RequeueError(f"the claim or its volume changed meanwhile: {problem}", after=0.1) from None
        capacity = {resource: str(amount) for resource, amount in volume.spec.capacity.items()}
        status = {"phase": "Bound", "accessModes": [*volume.spec.access_modes], "capacity": capacity}
        await _patch_status(ctx, claim, status)


def _reference(claim: PersistentVolumeClaim) -> ObjectReference:
    metadata = claim.metadata
    return ObjectReference(
        api_version="v1",
        kind="PersistentVolumeClaim",
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )


class Reclaimer:
    """Sets the phase of volumes, and applies their reclaim policy after their claims are deleted.

    Args:
        directory: The directory of this machine that contains those of the volumes; none is deleted if `None`.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory

    async def volume(self, volume: PersistentVolume, ctx: Context) -> None:
        """Reconcile one volume."""
        reference = volume.spec.claim_ref
        claim: PersistentVolumeClaim | None = None
        if reference is not None:
            claim = ctx.get(PersistentVolumeClaim, reference.name or "", namespace=reference.namespace)
            if reference.uid and claim is None:
                claim = await ctx.fetch(PersistentVolumeClaim, reference.name or "", namespace=reference.namespace)
        released = (
            reference is not None and bool(reference.uid) and (claim is None or claim.metadata.uid != reference.uid)
        )
        if volume.metadata.deletion_timestamp is not None:
            if reference is None or released:
                await drop_finalizer(ctx, volume, _VOLUME_PROTECTION)
            return
        state = phase(volume)
        if released:
            if state != "Released":
                await _patch_status(ctx, volume, {"phase": "Released"})
            if volume.spec.persistent_volume_reclaim_policy == "Delete":
                await self._delete_directory(volume)
                await ctx.delete(volume)
        elif (reference is None or not reference.uid) and state != "Available":
            await _patch_status(ctx, volume, {"phase": "Available"})

    async def _delete_directory(self, volume: PersistentVolume) -> None:
        """Delete the directory of a volume that the binder has provisioned; a user's `hostPath` stays."""
        parent, source = self._directory, volume.spec.host_path
        if parent is None or source is None or volume.metadata.annotations.get(_PROVISIONED) != PROVISIONER:
            return
        directory = parent / volume.metadata.name
        if source.path == str(directory):
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)


async def _patch_status(ctx: Context, obj: Any, status: dict[str, Any]) -> None:
    try:
        await ctx.patch(
            obj, MergePatch({"metadata": {"uid": obj.metadata.uid}, "status": status}), subresource="status"
        )
    except NotFound:
        return
    except Conflict as problem:
        raise RequeueError(f"the object changed meanwhile: {problem}", after=0.1) from None


async def drop_finalizer(ctx: Context, obj: Any, name: str) -> None:
    """Take one finalizer off, if it is there."""
    if name not in obj.metadata.finalizers:
        return
    left: Iterable[str] = [f for f in obj.metadata.finalizers if f != name]
    metadata = {"uid": obj.metadata.uid, "resourceVersion": obj.metadata.resource_version, "finalizers": left or None}
    try:
        await ctx.patch(obj, MergePatch({"metadata": metadata}))
    except NotFound:
        return
