"""Structured logs: stable event names with fields, JSON in a cluster and colour on a terminal.

    from steersman.logs import get_logger

    log = get_logger("shop")
    log.info("backup_completed", shop="north", seconds=12)

In a reconcile use `ctx.log`. Every line within a reconcile has the kind, namespace, name and reconcile id.

`steersman run` and the other commands configure logging. A program that uses Steersman as a library calls `configure`
or configures structlog; until then Steersman writes no log lines.
"""

from steersman.telemetry.log import Logger, configure, get_logger

__all__ = ["Logger", "configure", "get_logger"]
