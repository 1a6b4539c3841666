"""What brings the world in line with the objects; importing this package declares it."""

from helloapp.controllers import (
    helloapp_controller,
)

__all__ = [
    "helloapp_controller",
]
