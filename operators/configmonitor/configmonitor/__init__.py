"""Restarts Pods when the ConfigMap or Secret they read changes. `steersman run configmonitor:operator` runs it."""

from configmonitor import api, controllers, webhooks
from configmonitor.manager import operator

__all__ = ["api", "controllers", "operator", "webhooks"]
