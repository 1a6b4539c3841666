"""The client: requests to one API server, from bytes (`Raw`) to typed verbs (`Client`).

It knows nothing of caches, queues or controllers. Configuration and authentication are in `client.config`, the
documented tree of errors is in `client.errors`, the HTTP libraries are behind `client.transport`.
"""

from steersman.client.client import Client
from steersman.client.config import Config
from steersman.client.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    ClientError,
    Conflict,
    ConnectError,
    ConnectionLost,
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
    TransportTimeout,
    Unauthorized,
    UnsupportedMediaType,
    UpgradeRefused,
    WaitTimeout,
)
from steersman.client.hooks import WriteGate, WriteObserver, WriteOutcome
from steersman.client.raw import Raw
from steersman.client.retry import NO_RETRIES, RetryPolicy
from steersman.client.status import Status, StatusCause, StatusDetails

__all__ = [
    "NO_RETRIES",
    "AlreadyExists",
    "ApiError",
    "BadRequest",
    "Client",
    "ClientError",
    "Config",
    "Conflict",
    "ConnectError",
    "ConnectionLost",
    "Expired",
    "Forbidden",
    "InternalError",
    "Invalid",
    "MethodNotAllowed",
    "NotAcceptable",
    "NotFound",
    "Raw",
    "RequestTooLarge",
    "ResponseError",
    "RetryPolicy",
    "ServerTimeout",
    "ServiceUnavailable",
    "Status",
    "StatusCause",
    "StatusDetails",
    "TooManyRequests",
    "TransportError",
    "TransportTimeout",
    "Unauthorized",
    "UnsupportedMediaType",
    "UpgradeRefused",
    "WaitTimeout",
    "WriteGate",
    "WriteObserver",
    "WriteOutcome",
]
