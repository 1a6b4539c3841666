"""AdmissionReview v1: the question that a webhook is asked, and whether its answer is one. Pure functions."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any, cast

from steersman_cluster.admission.matching import Equivalent
from steersman_cluster.admission.write import Write
from steersman_cluster.auth.reviews import user_info
from steersman_cluster.errors import APIError
from steersman_cluster.json_access import get_object, get_strings
from steersman_cluster.objects import Object

__all__ = ["Answer", "InvalidReviewError", "denied", "question", "read_review"]

_VERSION = "admission.k8s.io/v1"


class InvalidReviewError(Exception):
    """A response that is not a valid AdmissionReview; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The response of a webhook."""

    allowed: bool
    patch: bytes = b""
    patch_type: str = ""
    status: Object | None = None
    warnings: tuple[str, ...] = ()
    audit_annotations: dict[str, str] = field(default_factory=dict[str, str])


def question(uid: str, write: Write, seen: Equivalent, obj: Object | None, old: Object | None) -> Object:
    """Return the AdmissionReview of a write; `obj` and `old` are in the version of the webhook's rule (`seen`)."""
    request: Object = {
        "uid": uid,
        "kind": _kind(write, seen),
        "resource": {"group": seen.group, "version": seen.version, "resource": seen.resource},
        "requestKind": write.request_kind,
        "requestResource": {"group": write.group, "version": write.version, "resource": write.resource},
    }
    if write.subresource:
        request["subResource"] = request["requestSubResource"] = write.subresource
    if name := write.name or (get_object(write.obj, "metadata").get("name") if write.obj is not None else ""):
        request["name"] = name
    if write.effective_namespace:
        request["namespace"] = write.effective_namespace
    request.update(
        operation=write.operation,
        userInfo=user_info(write.user),
        object=obj,
        oldObject=old,
        dryRun=write.dry_run,
        options=write.options,
    )
    return {"kind": "AdmissionReview", "apiVersion": _VERSION, "request": request}


def _kind(write: Write, seen: Equivalent) -> Object:
    if (seen.group, seen.version) == (write.group, write.version):
        return write.request_kind
    group, _, version = seen.api_version.rpartition("/")
    return {"group": group, "version": version, "kind": seen.kind}


def read_review(body: Any, uid: str, *, mutating: bool) -> Answer:
    """Check a webhook's answer as the API server does. Raises `InvalidReviewError` with its words."""
    review = cast(Object, body) if isinstance(body, dict) else {}
    if not isinstance(review.get("response"), dict):
        raise InvalidReviewError("webhook response was absent")
    response = get_object(review, "response")
    if response.get("uid") != uid:
        raise InvalidReviewError(
            f"expected response.uid={json.dumps(uid)}, got {json.dumps(response.get('uid') or '')}"
        )
    group, _, version = (review.get("apiVersion") or "").rpartition("/")
    if (review.get("apiVersion"), review.get("kind")) != (_VERSION, "AdmissionReview"):
        wanted = "admission.k8s.io/v1, Kind=AdmissionReview"
        raise InvalidReviewError(
            f"expected webhook response of {wanted}, got {group}/{version}, Kind={review.get('kind')}"
        )
    patch, kind = response.get("patch") or "", response.get("patchType")
    if not mutating:
        if patch:
            raise InvalidReviewError("validating webhook may not return response.patch")
        if kind is not None:
            raise InvalidReviewError("validating webhook may not return response.patchType")
    elif patch and kind is None:
        raise InvalidReviewError("webhook returned response.patch but not response.patchType")
    elif not patch and kind is not None:
        raise InvalidReviewError("webhook returned response.patchType but not response.patch")
    elif kind == "":
        raise InvalidReviewError('webhook returned invalid response.patchType of ""')
    return Answer(
        allowed=response.get("allowed") is True,
        patch=_decoded(patch),
        patch_type=kind or "",
        status=cast(Object, response["status"]) if isinstance(response.get("status"), dict) else None,
        warnings=tuple(get_strings(response, "warnings")),
        audit_annotations={key: str(value) for key, value in get_object(response, "auditAnnotations").items()},
    )


def _decoded(patch: str) -> bytes:
    try:
        return base64.b64decode(patch, validate=True)
    except ValueError:
        raise InvalidReviewError("webhook returned a response.patch that is no base64") from None


def denied(webhook: str, status: Object | None) -> APIError:
    """The refusal of a webhook, with the status that it gave: its code, reason, message and details."""
    given = dict(status or {})
    code = given.get("code")
    code = code if isinstance(code, int) and code >= 400 else 400
    reason = given.get("reason") or ""
    said = f"admission webhook {json.dumps(webhook)} denied the request"
    if explanation := given.get("message") or reason:
        message = f"{said}: {explanation}"
    else:
        message = f"{said} without explanation"
    details = given.get("details")
    return APIError(code, reason, message, cast(Object, details) if isinstance(details, dict) else None)
