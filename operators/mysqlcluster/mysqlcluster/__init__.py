"""Replicated MariaDB clusters that fail over by themselves. `steersman run mysqlcluster:operator` runs it."""

from mysqlcluster import api, controllers, webhooks
from mysqlcluster.manager import operator

__all__ = ["api", "controllers", "operator", "webhooks"]
