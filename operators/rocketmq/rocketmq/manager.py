"""The operator itself: controllers and webhooks declare what they do on it, and `steersman` runs it."""

from steersman import Operator

operator = Operator("rocketmq")
