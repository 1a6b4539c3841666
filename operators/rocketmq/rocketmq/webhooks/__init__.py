"""What the API server asks before it stores an object; importing this package declares it."""

from rocketmq.webhooks import (
    broker_v1_validation,
    controller_v1_validation,
    nameservice_v1_validation,
    rocketmqcluster_v1_validation,
    topictransfer_v1_validation,
)

__all__ = [
    "broker_v1_validation",
    "controller_v1_validation",
    "nameservice_v1_validation",
    "rocketmqcluster_v1_validation",
    "topictransfer_v1_validation",
]
