"""The errors of requests, as one class hierarchy.

    ClientError
    ├── ApiError                 the server responded with a Status, see `.status`
    │   ├── BadRequest           400            ├── Invalid                 422, `.causes`
    │   ├── Unauthorized         401            ├── TooManyRequests         429, `.retry_after`
    │   ├── Forbidden            403            ├── InternalError           500 and other 5xx
    │   ├── NotFound             404            ├── ServiceUnavailable      503
    │   ├── MethodNotAllowed     405            ├── ServerTimeout           504, or reason ServerTimeout
    │   ├── NotAcceptable        406            ├── RequestTooLarge         413
    │   ├── Conflict             409            ├── UnsupportedMediaType    415
    │   ├── AlreadyExists        409, reason AlreadyExists
    │   └── Expired              410 (also reason Expired or Gone)
    ├── TransportError           no complete response arrived
    │   ├── ConnectError         the request was not sent
    │   ├── ConnectionLostError  the request may have been sent and processed
    │   ├── TransportTimeoutError no response in time; the request may have been processed
    │   └── UpgradeRefusedError  the server did not open a WebSocket
    ├── WaitTimeoutError         a condition was not met in time
    └── ResponseError            a 2xx response with invalid content

Messages name the request and what to do. No message, `repr` or attribute holds a header or the body of a request.
"""

# ruff: noqa: N818 - the names of ApiErrors are reasons of the API, such as NotFound and Conflict

from __future__ import annotations

from typing import ClassVar, Final

from steersman.client.status import Status, StatusCause, status_from_body

__all__ = [
    "AlreadyExists",
    "ApiError",
    "BadRequest",
    "ClientError",
    "Conflict",
    "ConnectError",
    "ConnectionLostError",
    "Expired",
    "Forbidden",
    "InternalError",
    "Invalid",
    "MethodNotAllowed",
    "NotAcceptable",
    "NotFound",
    "RequestTooLarge",
    "ResponseError",
    "ServerTimeout",
    "ServiceUnavailable",
    "TooManyRequests",
    "TransportError",
    "TransportTimeoutError",
    "Unauthorized",
    "UnsupportedMediaType",
    "UpgradeRefusedError",
    "WaitTimeoutError",
    "api_error",
    "error_from_status",
]


class ClientError(Exception):
    """Base class of all errors of requests, except cancellation and invalid arguments."""


class TransportError(ClientError):
    """No complete response arrived."""


class ConnectError(TransportError):
    """The request was not sent: the connection, the name resolution or TLS failed. It is safe to retry."""


class ConnectionLostError(TransportError):
    """The connection broke after the request was (or may have been) sent: it may have been processed."""


class TransportTimeoutError(TransportError):
    """No response arrived in time: the request may have been processed."""


class UpgradeRefusedError(TransportError):
    """The server responded to a WebSocket handshake with a plain response, which has `status` and `body`."""

    def __init__(self, message: str, status: int = 0, body: bytes = b"", content_type: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body = body
        self.content_type = content_type


class WaitTimeoutError(ClientError, TimeoutError):
    """A condition was not met in time; the message describes the last state of the object."""


class ResponseError(ClientError):
    """The server reported success, but its response is not valid."""


class ApiError(ClientError):
    """The server refused the request. `status` is its Status, `request` is the request as `VERB path`.

    `code`, `reason` and `causes` are taken from the Status.
    """

    hint: ClassVar[str] = ""
    """The remedy, if it is the same for all errors of a class."""

    def __init__(self, status: Status, request: str = "", retry_after: float | None = None) -> None:
        self.status = status
        self.request = request
        self._retry_after = retry_after
        super().__init__(self._message())

    def _message(self) -> str:
        status = self.status
        said = status.message or status.reason or "no reason given"
        about = f"{status.code} {status.reason}".strip()
        text = f"{self.request}: {said} ({about})" if self.request else f"{said} ({about})"
        return f"{text}. {self.hint}" if self.hint else text

    @property
    def code(self) -> int:
        """The HTTP status."""
        return self.status.code

    @property
    def reason(self) -> str:
        """The machine-readable reason (`AlreadyExists`); may be empty."""
        return self.status.reason

    @property
    def causes(self) -> tuple[StatusCause, ...]:
        """The errors of single fields, if the server lists any."""
        return self.status.details.causes

    @property
    def namespace_terminating(self) -> bool:
        """Whether the server refused to create an object because its namespace is being deleted."""
        return any(cause.reason == "NamespaceTerminating" for cause in self.causes)

    @property
    def retry_after(self) -> float | None:
        """Seconds after which the server allows a retry, if it tells."""
        if self._retry_after is not None:
            return self._retry_after
        return float(self.status.details.retry_after_seconds) or None

    @property
    def is_refusal(self) -> bool:
        """Whether the API server evaluated and denied the request, and would deny it again.

        True for quotas, RBAC, validation, and for admission webhooks and policies, which deny with any 4xx code (400 if
        a webhook sets none). False for the codes that allow a retry or describe the state of the object (401, 404, 408,
        409, 410, 429), and for failures of the server (5xx).
        """
        return 400 <= self.code < 500 and self.code not in _NO_REFUSALS

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.status, self.request, self._retry_after)


_NO_REFUSALS: Final = frozenset((401, 404, 408, 409, 410, 429))


class BadRequest(ApiError):
    """400: the request is malformed; with strict field validation also an unknown or duplicate field."""


class Unauthorized(ApiError):
    """401: the server does not accept the credentials, even after they were renewed once."""

    hint = "The credentials were refused: they are missing, expired or revoked; log in anew or check the kubeconfig"


_ROLE_HINT: Final = "Grant the verb with a Role or ClusterRole, or see with `kubectl auth whoami` which user this is"
_FORBIDDEN_HINTS: Final = (
    ("exceeded quota", "Raise the namespace's ResourceQuota, or request less"),
    ("failed quota", "Set the requests and limits that the namespace's ResourceQuota counts"),
    ("is being terminated", "The namespace is being deleted: wait until it is gone, and create it again"),
    ("violates PodSecurity", "Change the Pod's security context, or the pod-security labels of the namespace"),
    ("denied the request", ""),  # a webhook or a policy: its own message has the reason
    ("denied request", ""),
)
"""The remedies for a 403 that is not about RBAC, by parts of its message (the first match applies)."""


class Forbidden(ApiError):
    """403: the identity lacks permission, or an admission plugin refuses the request."""

    def _message(self) -> str:
        text = super()._message()
        said = self.status.message
        hint = next((hint for words, hint in _FORBIDDEN_HINTS if words in said), _ROLE_HINT)
        return f"{text}. {hint}" if hint else text


class NotFound(ApiError):
    """404: no such object, or no such kind (is the CustomResourceDefinition installed?)."""

    @property
    def kind_is_missing(self) -> bool:
        """Whether the server does not serve the kind at all, as opposed to having no object of that name."""
        said = self.status.message
        unknown = "could not find the requested resource" in said or "page not found" in said
        return unknown and not self.status.details.name

    def _message(self) -> str:
        text = super()._message()
        if self.kind_is_missing:
            text += ". The server does not serve this kind: install its CustomResourceDefinition, or check the version"
        return text


class MethodNotAllowed(ApiError):
    """405: the kind does not support the verb."""


class NotAcceptable(ApiError):
    """406: the server does not support the requested content type."""


class Conflict(ApiError):
    """409: the object changed after it was read, or another manager owns a field. `causes` names the fields."""

    hint = "Read the object again and repeat, or, for apply, take over the fields with force=True"


class AlreadyExists(ApiError):
    """409: an object of that name exists already."""

    hint = "Use apply(), or delete the object first"


class Expired(ApiError):
    """410: the resourceVersion or continue token is too old; list again."""


class RequestTooLarge(ApiError):
    """413: the object is larger than the server accepts (3 MB by default, etcd 1.5 MB)."""

    hint = "Split the object, or keep large data elsewhere"


class UnsupportedMediaType(ApiError):
    """415: the server does not support the patch type; custom resources have no strategic merge patch."""

    hint = "Use a merge patch, a JSON patch or apply()"


class Invalid(ApiError):
    """422: the object violates its schema or rules; `causes` lists the fields and errors."""

    def _message(self) -> str:
        text = super()._message()
        missing = [c for c in self.causes if c.field and c.field not in self.status.message]
        return text + "".join(f"; {c.field}: {c.message}" for c in missing)


class TooManyRequests(ApiError):
    """429: the server is overloaded, or an eviction would violate a PodDisruptionBudget. Nothing was done."""


class ServerTimeout(ApiError):
    """The server stopped waiting (504, or reason ServerTimeout): it may still process the request."""


class ServiceUnavailable(ApiError):
    """503: the server, or a server behind it, is not available at present."""


class InternalError(ApiError):
    """500 and other 5xx: the server failed."""


_BY_REASON: dict[str, type[ApiError]] = {
    "AlreadyExists": AlreadyExists,
    "Expired": Expired,
    "Gone": Expired,
    "ServerTimeout": ServerTimeout,
    "Timeout": ServerTimeout,
    "TooManyRequests": TooManyRequests,
}
_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    406: NotAcceptable,
    409: Conflict,
    410: Expired,
    413: RequestTooLarge,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooManyRequests,
    503: ServiceUnavailable,
    504: ServerTimeout,
}


def error_from_status(status: Status, request: str = "", retry_after: float | None = None) -> ApiError:
    """Return the error for a Status; the reason takes precedence over the code."""
    kind = _BY_REASON.get(status.reason) or _BY_CODE.get(status.code)
    if kind is None:
        kind = InternalError if status.code >= 500 else ApiError
    return kind(status, request, retry_after)


def api_error(
    code: int, body: bytes, *, request: str, content_type: str = "", retry_after: float | None = None
) -> ApiError:
    """Return the error for a response with status `code` and any body."""
    return error_from_status(status_from_body(code, body, content_type), request, retry_after)
