"""Serves the operator's web page while the controllers run, if an environment variable sets its address."""

import os

from steersman import Context
from steersman.operator import ThreadServer, parse_address

from rocketmq.manager import operator
from rocketmq.metrics import METRICS
from rocketmq.page import ADDRESS_VARIABLE, serve_page

_servers: list[ThreadServer] = []


@operator.on_startup
async def start_page(ctx: Context) -> None:
    """Start the server of the page, if an address is set."""
    address = parse_address(os.environ.get(ADDRESS_VARIABLE, ""))
    if address is not None:
        _servers.append(serve_page(address, METRICS.brokers))
        ctx.log.info("page_served", address=str(_servers[-1].address))


@operator.on_shutdown
async def stop_page(ctx: Context) -> None:
    """Stop the server of the page."""
    while _servers:
        _servers.pop().close()
        ctx.log.info("page_stopped")
