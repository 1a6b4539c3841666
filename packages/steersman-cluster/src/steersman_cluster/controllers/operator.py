"""All controllers as one `Operator`, and how to run it beside an API server.

There is one replica, so there is no leader election; nothing listens, nothing is exported.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from steersman.client import Client, Config
from steersman.client.transport import Transport, transport_for
from steersman.k8s import ControllerRevision, Pod, ReplicaSet, Secret
from steersman.operator import Operator, Settings
from steersman.operator.run import Replica
from steersman.telemetry.clock import Now, utc_now
from steersman_cluster.controllers import (
    aggregation,
    disruption,
    endpoint_mirroring,
    endpoints,
    garbage_collector,
    namespace,
    node_lifecycle,
    pod_collector,
    resourcequota,
    serviceaccount,
)
from steersman_cluster.controllers.autoscaling import autoscaler
from steersman_cluster.controllers.pods import NODE_INDEX, ORPHANS, node_of, orphaned_in
from steersman_cluster.controllers.scheduling import scheduler
from steersman_cluster.controllers.storage import attributes_classes, volumes
from steersman_cluster.controllers.storage.claims import CLAIM_INDEX, claims_of
from steersman_cluster.controllers.workloads import (
    cronjob,
    daemonset,
    deployment,
    job,
    replicaset,
    replicationcontroller,
    statefulset,
)

__all__ = ["CONTROLLERS", "SETTINGS", "operator", "run"]

NAME: Final = "kube-controller-manager"

SETTINGS: Final = Settings(
    leader_elect=False,
    metrics_bind_address="0",
    health_probe_bind_address="0",
    gc_tuning=False,
    shutdown_grace=2.0,
    sync_timeout=30.0,
)
"""No election, no servers; the garbage collector of the process is left to its owner."""

CONTROLLERS: Final[Mapping[str, Callable[..., None]]] = {
    "aggregation": aggregation.register,
    "attributesclasses": attributes_classes.register,
    "autoscaler": autoscaler.register,
    "cronjob": cronjob.register,
    "daemonset": daemonset.register,
    "deployment": deployment.register,
    "disruption": disruption.register,
    "endpointmirroring": endpoint_mirroring.register,
    "endpoints": endpoints.register,
    "garbagecollector": garbage_collector.register,
    "job": job.register,
    "namespace": namespace.register,
    "nodelifecycle": node_lifecycle.register,
    "podcollector": pod_collector.register,
    "replicaset": replicaset.register,
    "replicationcontroller": replicationcontroller.register,
    "resourcequota": resourcequota.register,
    "scheduler": scheduler.register,
    "serviceaccount": serviceaccount.register,
    "statefulset": statefulset.register,
    "volumes": volumes.register,
}
"""By name, what `only` and `without` choose from."""


def operator(
    *,
    only: Collection[str] = (),
    without: Collection[str] = (),
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Operator:
    """The operator with all controllers, or `only` some, or all `without` some.

    `options` are keyword arguments of single controllers, such as `{"serviceaccount": {"ca_bundle": pem}}`. Raises
    `ValueError` for names that are none.
    """
    options = options or {}
    unknown = sorted({*only, *without, *options} - CONTROLLERS.keys())
    if unknown:
        raise ValueError(f"no such controller: {', '.join(unknown)}; there are {', '.join(CONTROLLERS)}")
    made = Operator(NAME)
    for name, register in CONTROLLERS.items():
        if (not only or name in only) and name not in without:
            register(made, **options.get(name, {}))
    _declare_indexes(made)
    return made


def _declare_indexes(made: Operator) -> None:
    kinds = {view.info.kind for view in made.kinds()}
    if "Pod" in kinds:
        made.index(NODE_INDEX, Pod, node_of)
        made.index(CLAIM_INDEX, Pod, claims_of)
    for kind in (Pod, ReplicaSet, ControllerRevision):
        if kind.__name__ in kinds:
            made.index(ORPHANS, kind, orphaned_in)
    if "Secret" in kinds:
        made.index("account", Secret, serviceaccount.token_namespace)


async def run(
    config: Config | Client,
    *,
    transport: Callable[[Config], Transport] = transport_for,
    settings: Settings = SETTINGS,
    stop: asyncio.Event | None = None,
    rng: random.Random | None = None,
    now: Now = utc_now,
    **choice: Any,
) -> None:
    """Run the controllers until `stop` is set or the task is cancelled, as the identity of `config`.

    `transport` makes the connections, so that an API server in the same process needs no socket. `choice` is what
    `operator` takes.
    """
    made = operator(**choice)
    made.check()
    where = config.config if isinstance(config, Client) else config
    replica = Replica(made, where, settings, rng=rng, now=now, transport=transport)
    await replica.run(stop or asyncio.Event())
