"""Brings the world in line with what every Broker asks for."""

from steersman import Context, ready_when

from rocketmq.api.v1.broker_types import Broker, BrokerStatus
from rocketmq.manager import operator


@operator.controller
async def reconcile(broker: Broker, ctx: Context) -> BrokerStatus:
    """Called when a Broker or something it owns has changed, and again when it fails: it must bear being repeated.

    Write what should be with `ctx.apply(...)`, name the kinds in `owns=[...]` of the decorator, and return what is.
    """
    return BrokerStatus(
        observed_generation=broker.metadata.generation,
        conditions=ready_when(True, message="there is nothing to do yet"),
    )
