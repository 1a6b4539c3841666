"""Reports that this version of the operator does not act on a RocketMQCluster."""

from steersman import Context

from rocketmq.api.v1.rocketmqcluster_types import RocketMQCluster, RocketMQClusterStatus
from rocketmq.manager import operator
from rocketmq.support import NOT_SUPPORTED


@operator.controller
async def reconcile(rocketmqcluster: RocketMQCluster, ctx: Context) -> RocketMQClusterStatus:
    """Report the RocketMQCluster as not supported, because nothing is deployed for it."""
    return RocketMQClusterStatus(observed_generation=rocketmqcluster.metadata.generation, conditions=NOT_SUPPORTED)
