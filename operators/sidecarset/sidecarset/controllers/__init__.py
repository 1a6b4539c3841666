"""The controllers of the operator. Importing this package declares them."""

from sidecarset.controllers import (
    sidecarset_controller,
)

__all__ = [
    "sidecarset_controller",
]
