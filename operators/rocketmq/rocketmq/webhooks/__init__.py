"""What the API server asks before it stores an object; importing this package declares it."""

from rocketmq.webhooks import (
    topictransfer_v1_validation,
)

__all__ = [
    "topictransfer_v1_validation",
]
