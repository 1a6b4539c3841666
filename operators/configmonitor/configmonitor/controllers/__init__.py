"""The controllers of the operator. Importing this package declares them."""

from configmonitor.controllers import (
    configmonitor_controller,
)

__all__ = [
    "configmonitor_controller",
]
