"""The kinds of `sidecarset.api.v1alpha1`."""

from sidecarset.api.v1alpha1.sidecarset_types import SidecarSet

__all__ = [
    "SidecarSet",
]
