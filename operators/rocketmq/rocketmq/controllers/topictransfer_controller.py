"""Brings the world in line with what every TopicTransfer asks for."""

from steersman import Context, ready_when

from rocketmq.api.v1.topictransfer_types import TopicTransfer, TopicTransferStatus
from rocketmq.manager import operator


@operator.controller
async def reconcile(topictransfer: TopicTransfer, ctx: Context) -> TopicTransferStatus:
    """Called when a TopicTransfer or something it owns has changed, and again when it fails: it must bear being repeated.

    Write what should be with `ctx.apply(...)`, name the kinds in `owns=[...]` of the decorator, and return what is.
    """
    return TopicTransferStatus(
        observed_generation=topictransfer.metadata.generation,
        conditions=ready_when(True, message="there is nothing to do yet"),
    )
