"""What the operator counts, beside what every Steersman operator does."""

from __future__ import annotations

from steersman.telemetry.metrics import counter

__all__ = ["CHANGES", "REFUSED", "RESTARTED"]

CHANGES = counter("configmonitor_changes", "Changes of watched data that ConfigMonitors have seen.", ["kind"])
RESTARTED = counter(
    "configmonitor_restarts", "Pods evicted or deleted, and owners told to roll out, because data changed.", ["how"]
)
REFUSED = counter("configmonitor_refusals", "Evictions and roll-outs that the API server refused; they are retried.")
