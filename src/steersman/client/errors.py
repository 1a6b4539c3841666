"""What can go wrong with a request, as one tree.

    ClientError
    ├── ApiError                 the server answered, with a Status that is kept
    │   ├── BadRequest           400            ├── Invalid                 422, `.causes`
    │   ├── Unauthorized         401            ├── TooManyRequests         429, `.retry_after`
    │   ├── Forbidden            403            ├── InternalError           500 and other 5xx
    │   ├── NotFound             404            ├── ServiceUnavailable      503
    │   ├── MethodNotAllowed     405            ├── ServerTimeout           504, or reason ServerTimeout
    │   ├── NotAcceptable        406            ├── RequestTooLarge         413
    │   ├── Conflict             409            ├── UnsupportedMediaType    415
    │   ├── AlreadyExists        409, reason AlreadyExists
    │   └── Expired              410 (also reason Expired or Gone)
    ├── TransportError           no whole answer came
    │   ├── ConnectError         the request was never sent
    │   ├── ConnectionLost       it may have been sent, and may have taken effect
    │   ├── TransportTimeout     no answer in time; it may have taken effect
    │   └── UpgradeRefused       the server would not open a web socket
    ├── WaitTimeout              a condition did not come true in time
    └── ResponseError            a 2xx answer that makes no sense

Messages name the request and the way out. No message, `repr` or attribute holds a header or the body of a request.
"""

# ruff: noqa: N818 - the names are those of the API: a NotFound, a Conflict

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
    "ConnectionLost",
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
    "TransportTimeout",
    "Unauthorized",
    "UnsupportedMediaType",
    "UpgradeRefused",
    "WaitTimeout",
    "api_error",
    "error_from_status",
]


class ClientError(Exception):
    """Everything that a client raises about a request, apart from cancellation and wrong arguments."""


class TransportError(ClientError):
    """No whole answer came."""


class ConnectError(TransportError):
    """The request was never sent: nobody listens, the name has no address, or TLS found no trust. Safe to repeat."""


class ConnectionLost(TransportError):
    """The connection broke after the request was (or may have been) sent: it may have taken effect."""


class TransportTimeout(TransportError):
    """No answer came in time: the request may have taken effect."""


class UpgradeRefused(TransportError):
    """The server answered a web socket's handshake with a plain response; `status` and `body` are that response's."""

    def __init__(self, message: str, status: int = 0, body: bytes = b"", content_type: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body = body
        self.content_type = content_type


class WaitTimeout(ClientError, TimeoutError):
    """A condition did not come true in time; the message says what was seen last."""


class ResponseError(ClientError):
    """The server reported success, but what it sent is not what was asked for."""


class ApiError(ClientError):
    """The server refused: `status` is its Status, `request` the request as `VERB path`.

    `code`, `reason` and `causes` are shorthands for what the Status says.
    """

    hint: ClassVar[str] = ""
    """What to do about it, where that can be said for all of a kind."""

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
        """The single complaints with their field paths, where the server lists any."""
        return self.status.details.causes

    @property
    def retry_after(self) -> float | None:
        """Seconds after which the server asks to be tried again, where it says so."""
        if self._retry_after is not None:
            return self._retry_after
        return float(self.status.details.retry_after_seconds) or None

    @property
    def is_refusal(self) -> bool:
        """Whether the API server has judged the request and denied it, and would deny it again.

        True for quotas, roles, validation, and for admission webhooks and policies, which deny with any 4xx code: 400
        where a webhook gives none. False for the codes that ask for a new attempt or tell about the state of the object
        (401, 404, 408, 409, 410, 429), and for failures of the server (5xx).
        """
        return 400 <= self.code < 500 and self.code not in _NO_REFUSALS

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.status, self.request, self._retry_after)


_NO_REFUSALS: Final = frozenset((401, 404, 408, 409, 410, 429))


class BadRequest(ApiError):
    """400: the request itself is malformed; with strict field validation also an unknown or duplicate field."""


class Unauthorized(ApiError):
    """401: the server does not know who we are, even after the credentials were renewed once."""

    hint = "The credentials were refused: they are missing, expired or revoked; log in anew or check the kubeconfig"


_ROLE_HINT: Final = "Grant the verb with a Role or ClusterRole, or see with `kubectl auth whoami` which user this is"
_FORBIDDEN_HINTS: Final = (
    ("exceeded quota", "Raise the namespace's ResourceQuota, or request less"),
    ("failed quota", "Set the requests and limits that the namespace's ResourceQuota counts"),
    ("is being terminated", "The namespace is being deleted: wait until it is gone, and create it again"),
    ("violates PodSecurity", "Change the Pod's security context, or the pod-security labels of the namespace"),
    ("denied the request", ""),  # a webhook or a policy: its own message says why
    ("denied request", ""),
)
"""What to do about a 403 that is not about roles, by words of its message (the first that fit)."""


class Forbidden(ApiError):
    """403: the identity may not do this, or an admission plugin refuses."""

    def _message(self) -> str:
        text = super()._message()
        said = self.status.message
        hint = next((hint for words, hint in _FORBIDDEN_HINTS if words in said), _ROLE_HINT)
        return f"{text}. {hint}" if hint else text


class NotFound(ApiError):
    """404: no such object, or no such kind (is the CustomResourceDefinition installed?)."""

    @property
    def kind_is_missing(self) -> bool:
        """True when the server does not serve the kind at all, as opposed to having no object of that name."""
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
    """406: the server cannot answer in the form that was asked for."""


class Conflict(ApiError):
    """409: the object changed since it was read, or a field belongs to another manager. `causes` names the fields."""

    hint = "Read the object again and repeat, or, for apply, take over the fields with force=True"


class AlreadyExists(ApiError):
    """409: an object of that name exists."""

    hint = "Use apply(), or delete the object first"


class Expired(ApiError):
    """410: the resourceVersion or continue token is too old; list afresh."""


class RequestTooLarge(ApiError):
    """413: the object is larger than the server takes (3 MB by default, etcd 1.5 MB)."""

    hint = "Split the object, or keep large data elsewhere"


class UnsupportedMediaType(ApiError):
    """415: the server does not know the kind of patch; custom resources take no strategic merge patch."""

    hint = "Use a merge patch, a JSON patch or apply()"


class Invalid(ApiError):
    """422: the object breaks its schema or its rules; `causes` lists what and where."""

    def _message(self) -> str:
        text = super()._message()
        missing = [c for c in self.causes if c.field and c.field not in self.status.message]
        return text + "".join(f"; {c.field}: {c.message}" for c in missing)


class TooManyRequests(ApiError):
    """429: the server sheds load, or an eviction would break a PodDisruptionBudget. It has not acted."""


class ServerTimeout(ApiError):
    """The server gave up waiting (504, or reason ServerTimeout): it may still act."""


class ServiceUnavailable(ApiError):
    """503: the server, or the one behind it, cannot be reached at the moment."""


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
    """The error of the tree that fits a Status; the reason decides before the code."""
    kind = _BY_REASON.get(status.reason) or _BY_CODE.get(status.code)
    if kind is None:
        kind = InternalError if status.code >= 500 else ApiError
    return kind(status, request, retry_after)


def api_error(
    code: int, body: bytes, *, request: str, content_type: str = "", retry_after: float | None = None
) -> ApiError:
    """The error for a response of status `code`, whatever its body is."""
    return error_from_status(status_from_body(code, body, content_type), request, retry_after)
