"""ConfigMonitor: restarts Pods when their configuration changes. `steersman run configmonitor:operator` runs it."""

from configmonitor.controller import operator

__all__ = ["operator"]
