"""Transports, which send requests to one API server and receive its responses. `base.Transport` is the contract.

The HTTP libraries are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steersman.client.config import Config
from steersman.client.transport.base import (
    ChunkConsumer,
    HeaderPairs,
    Headers,
    Query,
    RequestHeaders,
    Response,
    StreamResponse,
    Transport,
    UnsupportedTransport,
    WebSocket,
    deliver,
)
from steersman.extras import require

if TYPE_CHECKING:
    from steersman.client.transport.aiohttp import AiohttpTransport
    from steersman.client.transport.native import NativeTransport
    from steersman.client.transport.reqwest import PyreqwestTransport

__all__ = [
    "AiohttpTransport",
    "ChunkConsumer",
    "HeaderPairs",
    "Headers",
    "NativeTransport",
    "PyreqwestTransport",
    "Query",
    "RequestHeaders",
    "Response",
    "StreamResponse",
    "Transport",
    "UnsupportedTransport",
    "WebSocket",
    "deliver",
    "transport_for",
]


def transport_for(config: Config) -> Transport:
    """Return the transport for a configuration: the native one, or one that supports proxies.

    Args:
        config: The configuration of the client; `config.proxy` selects pyreqwest, or aiohttp where pyreqwest lacks a
            feature that the configuration needs.

    Raises:
        MissingExtraError: A proxy is configured, and the extra `proxy` is not installed.
    """
    from steersman.client.transport.native import NativeTransport, can_use_native

    if can_use_native(config):
        return NativeTransport(config)
    require("the proxy of this client's configuration", "proxy", "aiohttp", "pyreqwest", otherwise="remove the proxy")
    from steersman.client.transport.reqwest import PyreqwestTransport, can_use_pyreqwest

    if can_use_pyreqwest(config):
        return PyreqwestTransport(config)
    from steersman.client.transport.aiohttp import AiohttpTransport

    return AiohttpTransport(config)


def __getattr__(name: str) -> Any:
    if name == "NativeTransport":
        from steersman.client.transport.native import NativeTransport

        return NativeTransport
    if name == "PyreqwestTransport":
        from steersman.client.transport.reqwest import PyreqwestTransport

        return PyreqwestTransport
    if name == "AiohttpTransport":
        from steersman.client.transport.aiohttp import AiohttpTransport

        return AiohttpTransport
    raise AttributeError(name)
