"""Brings the world in line with what every NameService asks for."""

from steersman import Context, ready_when

from rocketmq.api.v1.nameservice_types import NameService, NameServiceStatus
from rocketmq.manager import operator


@operator.controller
async def reconcile(nameservice: NameService, ctx: Context) -> NameServiceStatus:
    """Called when a NameService or something it owns has changed, and again when it fails: it must bear being repeated.

    Write what should be with `ctx.apply(...)`, name the kinds in `owns=[...]` of the decorator, and return what is.
    """
    return NameServiceStatus(
        observed_generation=nameservice.metadata.generation,
        conditions=ready_when(True, message="there is nothing to do yet"),
    )
