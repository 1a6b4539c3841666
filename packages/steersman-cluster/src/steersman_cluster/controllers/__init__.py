"""Kubernetes' built-in controllers, written with Steersman: one operator, one shared cache, against any API server.

    await run(client)                 # until cancelled
    Replica(operator(), config, SETTINGS)

Each module is one controller: pure decisions, and a thin reconcile around them.
"""

from steersman_cluster.controllers.operator import CONTROLLERS, SETTINGS, operator, run

__all__ = ["CONTROLLERS", "SETTINGS", "operator", "run"]
