"""The kinds that this operator defines."""

from sidecarset.api import (
    v1alpha1,
)

__all__ = [
    "v1alpha1",
]
