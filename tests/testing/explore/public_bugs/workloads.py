"""Objects that the minimal operators create."""

from __future__ import annotations

from steersman import LabelSelector, ObjectMeta, Quantity
from steersman.k8s import (
    Container,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PodSpec,
    PodTemplateSpec,
    StatefulSet,
    StatefulSetSpec,
    VolumeResourceRequirements,
)

__all__ = ["claim", "stateful_set"]


def claim(
    name: str, storage: str = "1Gi", *, labels: dict[str, str] | None = None, storage_class: str | None = None
) -> PersistentVolumeClaim:
    """Return a PersistentVolumeClaim."""
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name=name, labels=labels or {}),
        spec=PersistentVolumeClaimSpec(
            access_modes=("ReadWriteOnce",),
            storage_class_name=storage_class,
            resources=VolumeResourceRequirements(requests={"storage": Quantity(storage)}),
        ),
    )


def stateful_set(
    name: str,
    replicas: int,
    *,
    claims: tuple[PersistentVolumeClaim, ...] = (),
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    node_selector: dict[str, str] | None = None,
    parallel: bool = False,
) -> StatefulSet:
    """Return a StatefulSet whose Pods have the label `app` with its name."""
    selected = {"app": name}
    spec = PodSpec(containers=(Container(name="main", image="app"),), node_selector=node_selector or {})
    return StatefulSet(
        metadata=ObjectMeta(name=name, labels=labels or {}),
        spec=StatefulSetSpec(
            replicas=replicas,
            selector=LabelSelector(match_labels=selected),
            service_name=name,
            pod_management_policy="Parallel" if parallel else None,
            template=PodTemplateSpec(metadata=ObjectMeta(labels=selected, annotations=annotations or {}), spec=spec),
            volume_claim_templates=claims,
        ),
    )
