"""What the API server asks before it stores an object; importing this package declares it."""

from sidecarset.webhooks import (
    pod_v1_defaulting,
    sidecarset_v1alpha1_defaulting,
    sidecarset_v1alpha1_validation,
)

__all__ = [
    "pod_v1_defaulting",
    "sidecarset_v1alpha1_defaulting",
    "sidecarset_v1alpha1_validation",
]
