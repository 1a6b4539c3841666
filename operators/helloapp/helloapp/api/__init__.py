"""The kinds that this operator defines."""

from helloapp.api import (
    v1,
)

__all__ = [
    "v1",
]
