"""Errors as the API server answers them: a `Status`, its HTTP code, and the texts that users know.

Everything that refuses a request raises `APIError`, made by one of the functions here; validation collects
`FieldError`s and ends in `invalid`. Texts follow apimachinery's `api/errors` and `util/validation/field`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from steersman_cluster.objects import Object

__all__ = [
    "APIError",
    "ErrorType",
    "FieldError",
    "already_exists",
    "bad_request",
    "conflict",
    "duplicate",
    "expired",
    "field_forbidden",
    "field_invalid",
    "forbidden",
    "internal",
    "invalid",
    "method_not_supported",
    "not_acceptable",
    "not_found",
    "not_supported",
    "required",
    "too_large",
    "too_many",
    "too_many_requests",
    "unauthorized",
    "unknown_path",
    "unsupported_media_type",
]


class APIError(Exception):
    """A refusal. `status` is the whole `Status` object; `headers` go out with it."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Object | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers

    @property
    def status(self) -> Object:
        """The body of the answer."""
        status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


class ErrorType(StrEnum):
    """The type of a field error; the value is the `reason` of the Status cause."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    DUPLICATE = "FieldValueDuplicate"
    FORBIDDEN = "FieldValueForbidden"
    NOT_FOUND = "FieldValueNotFound"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    TOO_FEW = "FieldValueTooFew"
    TYPE_INVALID = "FieldValueTypeInvalid"
    INTERNAL = "InternalError"


_PREFIX = {
    ErrorType.REQUIRED: "Required value",
    ErrorType.INVALID: "Invalid value",
    ErrorType.NOT_SUPPORTED: "Unsupported value",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.NOT_FOUND: "Not found",
    ErrorType.TOO_LONG: "Too long",
    ErrorType.TOO_MANY: "Too many",
    ErrorType.TOO_FEW: "Too few",
    ErrorType.TYPE_INVALID: "Invalid value",
    ErrorType.INTERNAL: "Internal error",
}
_WITHOUT_VALUE = {ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG, ErrorType.INTERNAL}


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field that is wrong. `value` is shown as Go would print it."""

    type: ErrorType
    path: str
    value: Any = None
    detail: str = ""
    shown: str | None = field(default=None)
    """The printed value, if the API server does not print it as JSON."""

    @property
    def body(self) -> str:
        """The message without the path, as it stands in a Status cause."""
        text = _PREFIX[self.type]
        if self.type not in _WITHOUT_VALUE:
            text += f": {self.shown if self.shown is not None else _go(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    @property
    def message(self) -> str:
        """The message with the path, as one of the causes of a `Status`."""
        return f"{self.path}: {self.body}"


def _go(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def required(path: str, detail: str = "") -> FieldError:
    """Return the error of a missing required field."""
    return FieldError(ErrorType.REQUIRED, path, detail=detail)


def field_invalid(path: str, value: Any, detail: str) -> FieldError:
    """Return the error of a value that breaks a rule; `detail` names the rule."""
    return FieldError(ErrorType.INVALID, path, value, detail)


def not_supported(path: str, value: Any, supported: Sequence[str]) -> FieldError:
    """Return the error of a value outside an enumeration; `supported` is listed in the given order."""
    detail = f"supported values: {', '.join(json.dumps(item) for item in supported)}" if supported else ""
    return FieldError(ErrorType.NOT_SUPPORTED, path, value, detail)


def duplicate(path: str, value: Any) -> FieldError:
    """Return the error of an item that occurs twice in a list with unique keys."""
    return FieldError(ErrorType.DUPLICATE, path, value)


def field_forbidden(path: str, detail: str) -> FieldError:
    """Return the error of a field that must not be set or changed."""
    return FieldError(ErrorType.FORBIDDEN, path, detail=detail)


def too_many(path: str, actual: int, most: int) -> FieldError:
    """Return the error of a list with too many items."""
    items = "item" if most == 1 else "items"
    return FieldError(ErrorType.TOO_MANY, path, actual, f"must have at most {most} {items}", shown=str(actual))


def _qualified(group: str, resource: str) -> str:
    return f"{resource}.{group}" if group else resource


def _details(name: str, group: str, kind: str, **more: Any) -> Object:
    details: Object = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    details.update(more)
    return details


def not_found(group: str, resource: str, name: str) -> APIError:
    """Return the 404 of an object."""
    message = f'{_qualified(group, resource)} "{name}" not found'
    return APIError(404, "NotFound", message, _details(name, group, resource))


def unknown_path() -> APIError:
    """Return the 404 for a resource or path that does not exist."""
    return APIError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(group: str, resource: str, name: str) -> APIError:
    """Return the 409 of a name that exists."""
    message = f'{_qualified(group, resource)} "{name}" already exists'
    return APIError(409, "AlreadyExists", message, _details(name, group, resource))


def conflict(group: str, resource: str, name: str, why: str) -> APIError:
    """Return the 409 of a write with an outdated version."""
    message = f'Operation cannot be fulfilled on {_qualified(group, resource)} "{name}": {why}'
    return APIError(409, "Conflict", message, _details(name, group, resource))


def forbidden(group: str, resource: str, name: str, why: str) -> APIError:
    """Return the 403 of a request."""
    if name:
        message = f'{_qualified(group, resource)} "{name}" is forbidden: {why}'
    elif resource:
        message = f"{_qualified(group, resource)} is forbidden: {why}"
    else:
        message = f"forbidden: {why}"
    return APIError(403, "Forbidden", message, _details(name, group, resource))


def unauthorized() -> APIError:
    """Return the 401 of a request."""
    return APIError(401, "Unauthorized", "Unauthorized")


def bad_request(message: str) -> APIError:
    """Return a 400 with reason `BadRequest`, for requests that cannot be parsed."""
    return APIError(400, "BadRequest", message)


def method_not_supported(group: str, resource: str, action: str) -> APIError:
    """Return the 405 of a resource."""
    message = f'{action} is not supported on resources of kind "{_qualified(group, resource)}"'
    return APIError(405, "MethodNotAllowed", message, _details("", group, resource))


def expired(message: str) -> APIError:
    """Return the 410 of a compacted revision."""
    return APIError(410, "Expired", message)


def too_large(message: str) -> APIError:
    """Return the 413 of a request."""
    return APIError(413, "RequestEntityTooLarge", message)


def not_acceptable(message: str) -> APIError:
    """Return the 406 of a request."""
    return APIError(406, "NotAcceptable", message)


def unsupported_media_type(message: str) -> APIError:
    """Return the 415 of a request."""
    return APIError(415, "UnsupportedMediaType", message)


def too_many_requests(message: str, retry_after: int = 1) -> APIError:
    """`retry_after` in seconds; 0 leaves the header out."""
    headers = (("Retry-After", str(retry_after)),) if retry_after else ()
    details: Object = {"retryAfterSeconds": retry_after} if retry_after else {}
    return APIError(429, "TooManyRequests", message, details, headers)


def internal(message: str) -> APIError:
    """Return the 500 of a request."""
    text = f"Internal error occurred: {message}"
    return APIError(500, "InternalError", text, {"causes": [{"message": message}]})


def invalid(group: str, kind: str, name: str, errors: Iterable[FieldError]) -> APIError:
    """Return the 422 for an object with field errors: a single message as it is, several in brackets."""
    found = list(errors)
    texts = list(dict.fromkeys(error.message for error in found))
    summary = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    message = f'{_qualified(group, kind)} "{name}" is invalid: {summary}'
    causes = [{"reason": str(error.type), "message": error.body, "field": str(error.path)} for error in found]
    return APIError(422, "Invalid", message, _details(name, group, kind, causes=causes))
