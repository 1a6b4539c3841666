"""Brings the world in line with what every Controller asks for."""

from steersman import Context, ready_when

from rocketmq.api.v1.controller_types import Controller, ControllerStatus
from rocketmq.manager import operator


@operator.controller
async def reconcile(controller: Controller, ctx: Context) -> ControllerStatus:
    """Called when a Controller or something it owns has changed, and again when it fails: it must bear being repeated.

    Write what should be with `ctx.apply(...)`, name the kinds in `owns=[...]` of the decorator, and return what is.
    """
    return ControllerStatus(
        observed_generation=controller.metadata.generation,
        conditions=ready_when(True, message="there is nothing to do yet"),
    )
