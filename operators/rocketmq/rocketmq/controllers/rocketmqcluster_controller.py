"""Brings the world in line with what every RocketMQCluster asks for."""

from steersman import Context, ready_when

from rocketmq.api.v1.rocketmqcluster_types import RocketMQCluster, RocketMQClusterStatus
from rocketmq.manager import operator


@operator.controller
async def reconcile(rocketmqcluster: RocketMQCluster, ctx: Context) -> RocketMQClusterStatus:
    """Called when a RocketMQCluster or something it owns has changed, and again when it fails: it must bear being repeated.

    Write what should be with `ctx.apply(...)`, name the kinds in `owns=[...]` of the decorator, and return what is.
    """
    return RocketMQClusterStatus(
        observed_generation=rocketmqcluster.metadata.generation,
        conditions=ready_when(True, message="there is nothing to do yet"),
    )
