"""The transport of WebSockets, which is loaded for the first exec, attach or port forwarding."""

from __future__ import annotations

from steersman.client.config import Config
from steersman.client.transport.base import Transport
from steersman.extras import require

__all__ = ["websocket_transport"]


def websocket_transport(config: Config) -> Transport:
    """Return a transport that opens WebSockets.

    Raises:
        MissingExtraError: aiohttp is not installed.
    """
    require("a WebSocket (exec, attach, port forwarding)", "aiohttp", "aiohttp")
    from steersman.client.transport.aiohttp import AiohttpTransport

    return AiohttpTransport(config)
