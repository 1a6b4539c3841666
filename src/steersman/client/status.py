"""`Status`: how the API server says what went wrong, as a model; and the reading of answers that are no Status.

Follows `k8s.io/apimachinery/pkg/apis/meta/v1`. Proxies and load balancers answer with HTML, text or nothing; from
those a Status is made up that says so, so that nobody above has to look at bodies.
"""

from __future__ import annotations

import re

from steersman.models import DecodeError, ListMeta, Model, decode, replace

__all__ = ["Status", "StatusCause", "StatusDetails", "status_from_body"]


class StatusCause(Model, omit_empty=True):
    """One reason among several; `field` is a path in the object that was sent (`spec.replicas`)."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Model, omit_empty=True):
    """Which object a Status is about, and why in detail."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(Model, omit_empty=True):
    """The API server's answer where there is no object to answer with."""

    api_version: str = ""
    kind: str = ""
    metadata: ListMeta = ListMeta()
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails = StatusDetails()
    code: int = 0


_TITLE = re.compile(r"<title>\s*(.*?)\s*</title>", re.IGNORECASE | re.DOTALL)
_LONGEST = 300


def status_from_body(code: int, body: bytes, content_type: str = "") -> Status:
    """The Status of a refused request; where the body is none, one that quotes the start of what came instead.

    The quotation is limited to 300 characters and to bodies that are not JSON, because JSON may be an object.
    """
    start = body.lstrip()[:1]
    if start == b"{":
        try:
            status = decode(Status, body)
        except DecodeError:
            status = Status()
        if status.kind == "Status":
            return status if status.code else replace(status, code=code)
        return Status(kind="Status", status="Failure", code=code, message="the answer is JSON, but not a Status")
    return Status(kind="Status", status="Failure", code=code, message=_quote(body, content_type))


def _quote(body: bytes, content_type: str) -> str:
    text = body[:4096].decode("utf-8", "replace").strip()
    if not text:
        return "the answer has no body"
    if "html" in content_type or text[:1] == "<":
        title = _TITLE.search(text)
        said = f"titled {_short(title[1])!r}" if title else "without a title"
        return f"the answer is a web page {said}, not an answer of the API server: is a proxy in between?"
    return _short(text)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
