"""Kubernetes' own types that CRDs repeat in full: `steersman models` uses ours instead of making them again.

They are recognised by the names of their fields, so the list has only types whose names leave no doubt.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from steersman.models.codegen import Ref

__all__ = ["known_shapes"]

_CORE = (
    "Affinity", "Container", "ContainerPort", "EnvVar", "EphemeralVolumeSource", "HostAlias", "Lifecycle",
    "NodeAffinity",    "PersistentVolumeClaimSpec", "PodAffinity", "PodAffinityTerm", "PodAntiAffinity", "PodDNSConfig",
    "PodSecurityContext", "PodSpec", "Probe", "ResourceRequirements", "SecurityContext", "ServicePort", "ServiceSpec",
    "Toleration", "TopologySpreadConstraint", "Volume", "VolumeMount",
)  # fmt: skip
_META = ("Condition", "LabelSelector")


def known_shapes() -> Mapping[Ref, frozenset[str]]:
    """The types and the wire names of their fields."""
    from steersman.k8s import core_v1
    from steersman.models import meta

    types = [*((core_v1, name) for name in _CORE), *((meta, name) for name in _META)]
    return {
        Ref(module.__name__, name): frozenset(
            field.encode_name for field in msgspec.structs.fields(getattr(module, name))
        )
        for module, name in types
    }
