"""The kinds that this operator defines."""

from rocketmq.api import (
    v1,
)

__all__ = [
    "v1",
]
