"""Reports that this version of the operator does not act on a Controller."""

from steersman import Context

from rocketmq.api.v1.controller_types import Controller, ControllerStatus
from rocketmq.manager import operator
from rocketmq.support import NOT_SUPPORTED


@operator.controller
async def reconcile(controller: Controller, ctx: Context) -> ControllerStatus:
    """Report the Controller as not supported, because nothing is deployed for it."""
    return ControllerStatus(observed_generation=controller.metadata.generation, conditions=NOT_SUPPORTED)
