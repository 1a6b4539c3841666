"""Reconciles every RocketMQCluster: applies its objects and reports their state."""

from steersman import Context

from rocketmq import umbrella
from rocketmq.api.v1.broker_types import Broker
from rocketmq.api.v1.console_types import Console
from rocketmq.api.v1.controller_types import Controller
from rocketmq.api.v1.nameservice_types import NameService
from rocketmq.api.v1.rocketmqcluster_types import RocketMQCluster, RocketMQClusterStatus
from rocketmq.manager import operator


@operator.controller(owns=[Broker, Console, Controller, NameService])
async def reconcile(cluster: RocketMQCluster, ctx: Context) -> RocketMQClusterStatus:
    """Apply an object of each kind, remove a console that is no longer in the spec, and report the status."""
    present = ctx.get(Broker, cluster.metadata.name)
    children = [await ctx.apply(child) for child in umbrella.sync(cluster, present)]
    if cluster.spec.console is None and ctx.get(Console, cluster.metadata.name) is not None:
        await ctx.delete(Console, cluster.metadata.name)
        ctx.log.info("console_removed", name=cluster.metadata.name, reason="spec_has_none")
    return umbrella.status(cluster, children, ctx.now())
