"""The controllers of the operator. Importing this package declares them."""

from rocketmq.controllers import (
    broker_controller,
    console_controller,
    controller_controller,
    nameservice_controller,
    page_hooks,
    rocketmqcluster_controller,
    topictransfer_controller,
)

__all__ = [
    "broker_controller",
    "console_controller",
    "controller_controller",
    "nameservice_controller",
    "page_hooks",
    "rocketmqcluster_controller",
    "topictransfer_controller",
]
