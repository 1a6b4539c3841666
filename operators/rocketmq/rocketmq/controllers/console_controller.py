"""Reports that this version of the operator does not act on a Console."""

from steersman import Context

from rocketmq.api.v1.console_types import Console, ConsoleStatus
from rocketmq.manager import operator
from rocketmq.support import NOT_SUPPORTED


@operator.controller
async def reconcile(console: Console, ctx: Context) -> ConsoleStatus:
    """Report the Console as not supported, because nothing is deployed for it."""
    return ConsoleStatus(observed_generation=console.metadata.generation, conditions=NOT_SUPPORTED)
