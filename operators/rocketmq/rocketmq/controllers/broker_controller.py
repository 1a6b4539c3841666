"""Reports that this version of the operator does not act on a Broker."""

from steersman import Context

from rocketmq.api.v1.broker_types import Broker, BrokerStatus
from rocketmq.manager import operator
from rocketmq.support import NOT_SUPPORTED


@operator.controller
async def reconcile(broker: Broker, ctx: Context) -> BrokerStatus:
    """Report the Broker as not supported, because nothing is deployed for it."""
    return BrokerStatus(observed_generation=broker.metadata.generation, conditions=NOT_SUPPORTED)
