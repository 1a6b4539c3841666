"""The kinds that this operator defines."""

from configmonitor.api import (
    v1,
)

__all__ = [
    "v1",
]
