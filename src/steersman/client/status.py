"""`Status`, the API server's description of an error, and its replacement for responses without one.

Follows `k8s.io/apimachinery/pkg/apis/meta/v1`. Proxies and load balancers respond with HTML, text or nothing; such a
response becomes a Status whose message describes it, so that callers need not look at bodies.
"""

from __future__ import annotations

import re

from steersman.models import DecodeError, ListMeta, Model, decode, replace

__all__ = ["Status", "StatusCause", "StatusDetails", "status_from_body"]


class StatusCause(Model, omit_empty=True):
    """One of several causes; `field` is a path in the request's object (`spec.replicas`)."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Model, omit_empty=True):
    """The object that a Status is about, and the causes."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(Model, omit_empty=True):
    """The API server's response if it does not return an object."""

    api_version: str = ""
    kind: str = ""
    metadata: ListMeta = ListMeta()
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails = StatusDetails()
    code: int = 0


_TITLE = re.compile(r"<title>\s*(.*?)\s*</title>", re.IGNORECASE | re.DOTALL)
_MAX_QUOTE_CHARACTERS = 300


def status_from_body(code: int, body: bytes, content_type: str = "") -> Status:
    """Return the Status of an error response; if the body has none, a Status that quotes the start of the body.

    The quotation has at most 300 characters and never quotes JSON, because JSON may be an object.
    """
    start = body.lstrip()[:1]
    if start == b"{":
        try:
            status = decode(Status, body)
        except DecodeError:
            status = Status()
        if status.kind == "Status":
            return status if status.code else replace(status, code=code)
        return Status(kind="Status", status="Failure", code=code, message="the response is JSON, but not a Status")
    return Status(kind="Status", status="Failure", code=code, message=_quote(body, content_type))


def _quote(body: bytes, content_type: str) -> str:
    text = body[:4096].decode("utf-8", "replace").strip()
    if not text:
        return "the response has no body"
    if "html" in content_type or text[:1] == "<":
        title = _TITLE.search(text)
        said = f"titled {_short(title[1])!r}" if title else "without a title"
        return f"the response is a web page {said}, not a response of the API server: check the proxy"
    return _short(text)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_QUOTE_CHARACTERS else text[:_MAX_QUOTE_CHARACTERS] + "…"
