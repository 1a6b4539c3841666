"""Reports that this version of the operator does not act on a TopicTransfer."""

from steersman import Context

from rocketmq.api.v1.topictransfer_types import TopicTransfer, TopicTransferStatus
from rocketmq.manager import operator
from rocketmq.support import NOT_SUPPORTED


@operator.controller
async def reconcile(topictransfer: TopicTransfer, ctx: Context) -> TopicTransferStatus:
    """Report the TopicTransfer as not supported, because nothing is deployed for it."""
    return TopicTransferStatus(observed_generation=topictransfer.metadata.generation, conditions=NOT_SUPPORTED)
