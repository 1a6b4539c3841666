"""The metrics of this operator, in addition to those of every Steersman operator."""

from __future__ import annotations

from steersman.metrics import counter

__all__ = ["CHANGES", "REFUSED", "RESTARTED"]

CHANGES = counter("configmonitor_changes_total", "Changes of watched data that ConfigMonitors have seen.", ["kind"])
RESTARTED = counter(
    "configmonitor_restarts_total",
    "Pods evicted or deleted, and owners told to roll out, because data changed.",
    ["how"],
)
REFUSED = counter(
    "configmonitor_refusals_total", "Evictions and roll-outs that the API server refused; they are retried."
)
