"""The stages of a RocketMQCluster as pure functions: Sync creates an object of each kind, Status summarizes them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from steersman import Condition, Conditions, ObjectMeta, replace
from steersman.models import is_true, merge_conditions

from rocketmq.api.v1.broker_types import Broker
from rocketmq.api.v1.console_types import Console
from rocketmq.api.v1.controller_types import Controller
from rocketmq.api.v1.nameservice_types import NameService
from rocketmq.api.v1.rocketmqcluster_types import RocketMQCluster, RocketMQClusterStatus

__all__ = ["Child", "status", "sync"]

Child = NameService | Controller | Broker | Console


def sync(cluster: RocketMQCluster, present: Broker | None = None) -> tuple[Child, ...]:
    """Return the children, which have the name of the cluster and refer to each other by it.

    Args:
        cluster: the RocketMQCluster.
        present: its current Broker; with autoscaling, its number of groups is kept.
    """
    spec = cluster.spec
    broker = spec.broker
    if present is not None and broker.autoscaling.enabled:
        broker = replace(broker, size=present.spec.size)
    metadata = ObjectMeta(name=cluster.metadata.name, namespace=cluster.metadata.namespace)
    children: list[Child] = [NameService(metadata=metadata, spec=spec.name_service)]
    if spec.controller is not None:
        children.append(Controller(metadata=metadata, spec=spec.controller))
    children.append(Broker(metadata=metadata, spec=broker))
    if spec.console is not None:
        children.append(Console(metadata=metadata, spec=spec.console))
    return tuple(children)


def status(cluster: RocketMQCluster, children: Sequence[Child], now: datetime) -> RocketMQClusterStatus:
    """Return the status of a RocketMQCluster from its children."""
    missing = [type(each).__name__ for each in children if not is_true(each.status.conditions, "Available")]
    broker = next(each for each in children if isinstance(each, Broker))
    reachable = [each for each in broker.status.conditions if each.type == "NameServersReachable"]
    found: Conditions = (
        Condition(
            type="Available",
            status="False" if missing else "True",
            reason="ChildrenMissing" if missing else "AllAvailable",
            message=f"not available: {', '.join(missing)}" if missing else f"{len(children)} objects are available",
        ),
        *reachable,
    )
    return RocketMQClusterStatus(
        observed_generation=cluster.metadata.generation,
        phase=broker.status.phase or "Pending",
        name_servers=broker.status.name_servers,
        groups=len(broker.status.groups),
        conditions=merge_conditions(cluster.status.conditions, found, now, cluster.metadata.generation),
    )
