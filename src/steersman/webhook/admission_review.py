"""AdmissionReview (admission.k8s.io/v1) as bytes: the request of the API server and the response.

Only the fields that decisions need are decoded; the objects stay bytes until a handler reads them. See KEP-492 and
`k8s.io/api/admission/v1`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Raw

from steersman.client.status import Status, StatusCause, StatusDetails
from steersman.models import encode
from steersman.webhook.denials import AdmissionRefusedError

__all__ = ["InvalidReviewError", "Operation", "Review", "UserInfo", "allowed", "failure", "read_review", "refused"]

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]

_API_VERSION = "admission.k8s.io/v1"
_NULL = b"null"


class InvalidReviewError(ValueError):
    """A body is not an AdmissionReview of the supported version."""


class UserInfo(msgspec.Struct, frozen=True):
    """The user that made the request, as the API server identified it."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class Gvk(msgspec.Struct, frozen=True):
    """Group, version and kind."""

    group: str = ""
    version: str = ""
    kind: str = ""


class Gvr(msgspec.Struct, frozen=True):
    """Group, version and resource."""

    group: str = ""
    version: str = ""
    resource: str = ""


class Review(msgspec.Struct, frozen=True, rename="camel"):
    """The `request` of a review."""

    uid: str
    operation: Operation
    kind: Gvk = Gvk()
    resource: Gvr = Gvr()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: UserInfo = UserInfo()
    object: Raw = Raw(_NULL)
    old_object: Raw = Raw(_NULL)
    options: Raw = Raw(_NULL)
    dry_run: bool | None = None

    @property
    def new(self) -> bytes | None:
        """The object as it would be stored; `None` for deletes."""
        return _present(self.object)

    @property
    def old(self) -> bytes | None:
        """The stored object; `None` for creates."""
        return _present(self.old_object)


class _Envelope(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: Review | None = None


_decode = msgspec.json.Decoder(_Envelope).decode


def _present(value: Raw) -> bytes | None:
    data = bytes(value)
    return None if not data or data == _NULL else data


def read_review(body: bytes) -> Review:
    """Return the request of a body. Raises `InvalidReviewError` with the missing part."""
    try:
        envelope = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise InvalidReviewError(f"the body is not an AdmissionReview: {problem}") from None
    if envelope.kind != "AdmissionReview" or envelope.api_version != _API_VERSION:
        found = f"{envelope.api_version or 'no apiVersion'}, {envelope.kind or 'no kind'}"
        raise InvalidReviewError(f"expected {_API_VERSION}, AdmissionReview, not {found}")
    if envelope.request is None:
        raise InvalidReviewError("the AdmissionReview has no request")
    if not envelope.request.uid:
        raise InvalidReviewError("request.uid is empty")
    return envelope.request


class _Response(msgspec.Struct, rename="camel", omit_defaults=True):
    uid: str
    allowed: bool = msgspec.field(default=msgspec.UNSET)  # type: ignore[assignment] - `false` must be written
    status: Any = None
    patch: bytes | None = None
    patch_type: str | None = None
    warnings: Sequence[str] = ()


class _Answer(msgspec.Struct, rename="camel"):
    response: _Response
    api_version: str = _API_VERSION
    kind: str = "AdmissionReview"


def allowed(uid: str, *, patch: bytes | None = None, warnings: Sequence[str] = ()) -> bytes:
    """Return a response that allows a request, with an optional JSON patch."""
    kind = None if patch is None else "JSONPatch"
    return encode(_Answer(_Response(uid, allowed=True, patch=patch, patch_type=kind, warnings=tuple(warnings))))


def refused(review: Review, refusal: AdmissionRefusedError, warnings: Sequence[str] = ()) -> bytes:
    """Return a response that denies a request: a 4xx Status with a cause for each field."""
    message = str(refusal)
    details = StatusDetails()
    if refusal.errors:
        kind = f"{review.kind.kind}.{review.kind.group}" if review.kind.group else review.kind.kind
        message = f'{kind} "{review.name}" is invalid: {message}'
        causes = tuple(StatusCause(reason=e.reason, message=e.message, field=e.field) for e in refusal.errors)
        details = StatusDetails(name=review.name, group=review.kind.group, kind=review.kind.kind, causes=causes)
    status = Status(status="Failure", message=message, reason=refusal.reason, code=refusal.code, details=details)
    return encode(_Answer(_Response(review.uid, allowed=False, status=status, warnings=tuple(warnings))))


def failure(code: int, reason: str, message: str) -> bytes:
    """Return the body of an error response, which is a Status. The API server then applies the failure policy."""
    return encode(Status(api_version="v1", kind="Status", status="Failure", message=message, reason=reason, code=code))
