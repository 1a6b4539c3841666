"""What brings the world in line with the objects; importing this package declares it."""

from configmonitor.controllers import (
    configmonitor_controller,
)

__all__ = [
    "configmonitor_controller",
]
