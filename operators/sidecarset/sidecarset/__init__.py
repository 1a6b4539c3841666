"""Injects sidecar containers into Pods, counts them, and updates their images in place. `steersman run sidecarset:operator` runs it."""

from sidecarset import api, controllers, webhooks
from sidecarset.manager import operator

__all__ = ["api", "controllers", "operator", "webhooks"]
