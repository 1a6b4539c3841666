"""Brings the world in line with what every Console asks for."""

from steersman import Context, ready_when

from rocketmq.api.v1.console_types import Console, ConsoleStatus
from rocketmq.manager import operator


@operator.controller
async def reconcile(console: Console, ctx: Context) -> ConsoleStatus:
    """Called when a Console or something it owns has changed, and again when it fails: it must bear being repeated.

    Write what should be with `ctx.apply(...)`, name the kinds in `owns=[...]` of the decorator, and return what is.
    """
    return ConsoleStatus(
        observed_generation=console.metadata.generation,
        conditions=ready_when(True, message="there is nothing to do yet"),
    )
