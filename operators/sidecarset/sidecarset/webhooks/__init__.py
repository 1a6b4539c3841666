"""The webhooks of the operator. Importing this package declares them."""

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
