"""Kubernetes types that CRDs repeat in full: `steersman models` uses the classes of `steersman.k8s` for them.

A type is recognized by the names of its fields, so the list has only types with unambiguous field names.
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
    """Return the types and the JSON names of their fields."""
    from steersman.k8s import core_v1
    from steersman.models import meta

    types = [*((core_v1, name) for name in _CORE), *((meta, name) for name in _META)]
    return {
        Ref(module.__name__, name): frozenset(
            field.encode_name for field in msgspec.structs.fields(getattr(module, name))
        )
        for module, name in types
    }
