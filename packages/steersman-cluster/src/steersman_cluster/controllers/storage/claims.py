"""The volumes that fit a claim, and the Pods that use it: pure functions."""

from __future__ import annotations

from collections.abc import Iterable

from steersman.k8s import PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from steersman.models import Quantity
from steersman.models.selectors import from_label_selector
from steersman_cluster.controllers.pods import phase_of

__all__ = ["CLAIM_INDEX", "SELECTED_NODE", "best_volume", "claims_of", "is_bound_to", "is_in_use", "waits_for_consumer"]

CLAIM_INDEX = "claim"
"""Finds Pods by the claims they use, as `namespace/name`."""
SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""The annotation with the node that the scheduler selected for the consumer of a claim."""


def claims_of(pod: Pod) -> list[str]:
    """The index function of `CLAIM_INDEX`."""
    found: list[str] = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            found.append(f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}")
        elif volume.ephemeral is not None:
            found.append(f"{pod.metadata.namespace}/{pod.metadata.name}-{volume.name}")
    return found


def is_in_use(pods: Iterable[Pod]) -> bool:
    """Return whether any of the Pods that name a claim may still write to it."""
    return any(phase_of(p) not in ("Succeeded", "Failed") and bool(p.spec.node_name) for p in pods)


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether the volume is bound to, or reserved for, this claim."""
    reference = volume.spec.claim_ref
    if reference is None or (reference.namespace, reference.name) != (claim.metadata.namespace, claim.metadata.name):
        return False
    return not reference.uid or reference.uid == claim.metadata.uid


def waits_for_consumer(storage: StorageClass | None) -> bool:
    """Return whether claims of the class are bound only when a Pod that uses them is scheduled."""
    return storage is not None and storage.volume_binding_mode == "WaitForFirstConsumer"


def best_volume(claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]) -> PersistentVolume | None:
    """The volume made for the claim, else the smallest free one that fits."""
    fitting = [v for v in volumes if _fits(claim, v)]
    reserved = [v for v in fitting if is_bound_to(v, claim)]
    free = [v for v in fitting if v.spec.claim_ref is None]
    return min(reserved or free, key=lambda v: (_size(v), v.metadata.name), default=None)


def _fits(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    wanted, has = claim.spec, volume.spec
    if volume.metadata.deletion_timestamp is not None:
        return False
    if wanted.volume_name and wanted.volume_name != volume.metadata.name:
        return False
    if has.claim_ref is not None and not is_bound_to(volume, claim):
        return False
    request = wanted.resources.requests.get("storage", Quantity(0))
    return (
        (wanted.storage_class_name or "") == (has.storage_class_name or "")
        and (wanted.volume_mode or "Filesystem") == (has.volume_mode or "Filesystem")
        and set(wanted.access_modes) <= set(has.access_modes)
        and _size(volume) >= request
        and (wanted.selector is None or from_label_selector(wanted.selector).matches(volume.metadata.labels))
    )


def _size(volume: PersistentVolume) -> Quantity:
    return volume.spec.capacity.get("storage", Quantity(0))
