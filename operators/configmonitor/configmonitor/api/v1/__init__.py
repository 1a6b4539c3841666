"""The kinds of `configmonitor.api.v1`."""

from configmonitor.api.v1.configmonitor_types import ConfigMonitor

__all__ = [
    "ConfigMonitor",
]
