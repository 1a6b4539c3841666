"""The operator: controllers and webhooks are declared on it, and `steersman` runs it."""

from steersman import Operator

operator = Operator("rocketmq")
