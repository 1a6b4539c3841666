"""The controllers of the operator. Importing this package declares them."""

from helloapp.controllers import (
    helloapp_controller,
)

__all__ = [
    "helloapp_controller",
]
