"""The webhooks of the operator. Importing this package declares them."""

from rocketmq.webhooks import (
    topictransfer_v1_validation,
)

__all__ = [
    "topictransfer_v1_validation",
]
