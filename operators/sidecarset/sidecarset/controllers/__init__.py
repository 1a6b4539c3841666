"""What brings the world in line with the objects; importing this package declares it."""

from sidecarset.controllers import (
    sidecarset_controller,
)

__all__ = [
    "sidecarset_controller",
]
