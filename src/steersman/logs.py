"""Structured logs: stable event names with fields, JSON in a cluster and colour on a terminal.

    from steersman.logs import get_logger

    log = get_logger("shop")
    log.info("backup_completed", shop="north", seconds=12)

In a reconcile use `ctx.log`. Every line within a reconcile has the kind, namespace, name and reconcile id.
"""

from steersman.telemetry.log import Logger, configure, get_logger

__all__ = ["Logger", "configure", "get_logger"]
