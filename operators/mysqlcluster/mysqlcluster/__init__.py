"""Replicated MySQL and MariaDB clusters that fail over, upgrade, back up and restore themselves. `steersman run mysqlcluster:operator` runs it."""

from mysqlcluster import api, controllers, webhooks
from mysqlcluster.manager import operator

__all__ = ["api", "controllers", "operator", "webhooks"]
