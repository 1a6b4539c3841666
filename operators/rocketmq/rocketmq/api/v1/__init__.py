"""The kinds of `rocketmq.api.v1`."""

from rocketmq.api.v1.broker_types import Broker
from rocketmq.api.v1.console_types import Console
from rocketmq.api.v1.controller_types import Controller
from rocketmq.api.v1.nameservice_types import NameService
from rocketmq.api.v1.rocketmqcluster_types import RocketMQCluster
from rocketmq.api.v1.topictransfer_types import TopicTransfer

__all__ = [
    "Broker",
    "Console",
    "Controller",
    "NameService",
    "RocketMQCluster",
    "TopicTransfer",
]
