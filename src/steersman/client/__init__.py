"""The client: requests to one API server, from bytes (`Raw`) to typed verbs (`Client`).

It does not depend on caches, queues or controllers. `client.config` has configuration and authentication,
`client.errors` the error classes, `client.transport` the HTTP transports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steersman.client.client import Client
from steersman.client.config import Config
from steersman.client.discovery import ApiResource, ServerVersion
from steersman.client.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    ClientError,
    Conflict,
    ConnectError,
    ConnectionLostError,
    Expired,
    Forbidden,
    InternalError,
    Invalid,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    RequestTooLarge,
    ResponseError,
    ServerTimeout,
    ServiceUnavailable,
    TooManyRequests,
    TransportError,
    TransportTimeoutError,
    Unauthorized,
    UnsupportedMediaType,
    UpgradeRefusedError,
    WaitTimeoutError,
)
from steersman.client.hooks import WriteEnded, WriteGate, WriteObserver, WriteOutcome
from steersman.client.lists import Page, UndecodableItem
from steersman.client.options import FieldValidation, Preconditions, Propagation
from steersman.client.raw import Raw
from steersman.client.retry import NO_RETRIES, RetryPolicy
from steersman.client.status import Status, StatusCause, StatusDetails
from steersman.client.streams import ExecResult, ExecSession, Forwarding
from steersman.client.subresources import ScaleState, Token
from steersman.client.wait import condition_is, condition_true, deleted, exists
from steersman.client.watch import WatchEvent

if TYPE_CHECKING:
    from steersman.client.transport.native import NativeTransport

__all__ = [
    "NO_RETRIES",
    "AlreadyExists",
    "ApiError",
    "ApiResource",
    "BadRequest",
    "Client",
    "ClientError",
    "Config",
    "Conflict",
    "ConnectError",
    "ConnectionLostError",
    "ExecResult",
    "ExecSession",
    "Expired",
    "FieldValidation",
    "Forbidden",
    "Forwarding",
    "InternalError",
    "Invalid",
    "MethodNotAllowed",
    "NativeTransport",
    "NotAcceptable",
    "NotFound",
    "Page",
    "Preconditions",
    "Propagation",
    "Raw",
    "RequestTooLarge",
    "ResponseError",
    "RetryPolicy",
    "ScaleState",
    "ServerTimeout",
    "ServerVersion",
    "ServiceUnavailable",
    "Status",
    "StatusCause",
    "StatusDetails",
    "Token",
    "TooManyRequests",
    "TransportError",
    "TransportTimeoutError",
    "Unauthorized",
    "UndecodableItem",
    "UnsupportedMediaType",
    "UpgradeRefusedError",
    "WaitTimeoutError",
    "WatchEvent",
    "WriteEnded",
    "WriteGate",
    "WriteObserver",
    "WriteOutcome",
    "condition_is",
    "condition_true",
    "deleted",
    "exists",
]


def __getattr__(name: str) -> object:
    if name != "NativeTransport":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from steersman.client.transport.native import NativeTransport  # a client imports it for its first request

    return NativeTransport
