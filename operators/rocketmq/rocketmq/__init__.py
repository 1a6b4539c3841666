"""Runs RocketMQ name servers, brokers in groups and topic transfers. `steersman run rocketmq:operator` runs it."""

from rocketmq import api, controllers, webhooks
from rocketmq.manager import operator

__all__ = ["api", "controllers", "operator", "webhooks"]
