"""The metrics of `steersman.operator`, with the names of client-go and controller-runtime."""

from __future__ import annotations

from steersman.telemetry.metrics import counter, gauge

__all__ = ["LEADER", "UNDECODABLE_RECONCILES"]

LEADER = gauge("leader_election_master_status", "1 if this replica holds the lease, else 0.", ["name"])
UNDECODABLE_RECONCILES = counter(
    "steersman_undecodable_reconciles", "Reconciles skipped because the object does not fit its type.", ["controller"]
)
