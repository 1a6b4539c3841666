"""A Deployment of so many replicas of an image for every HelloApp. `steersman run helloapp:operator` runs it."""

from helloapp import api, controllers, webhooks
from helloapp.manager import operator

__all__ = ["api", "controllers", "operator", "webhooks"]
