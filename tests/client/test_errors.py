"""The tree of errors: which answer becomes which error, and what its message says."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.client import errors
from steersman.client.errors import api_error, error_from_status
from steersman.client.status import Status


def body(code: int, reason: str = "", message: str = "said", **details: object) -> bytes:
    return json.dumps(
        {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message, "details": details}
    ).encode()


@pytest.mark.parametrize(
    ("code", "refusal"),
    [
        *((code, True) for code in (400, 402, 403, 405, 406, 413, 415, 418, 422)),
        *((code, False) for code in (401, 404, 408, 409, 410, 429, 500, 503, 504)),
    ],
)
def test_a_refusal_is_what_the_api_server_would_deny_again(code, refusal):
    assert api_error(code, body(code), request="POST /x").is_refusal is refusal


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", errors.BadRequest),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (405, "MethodNotAllowed", errors.MethodNotAllowed),
        (406, "NotAcceptable", errors.NotAcceptable),
        (409, "Conflict", errors.Conflict),
        (409, "AlreadyExists", errors.AlreadyExists),
        (410, "Expired", errors.Expired),
        (410, "Gone", errors.Expired),
        (413, "RequestEntityTooLarge", errors.RequestTooLarge),
        (415, "UnsupportedMediaType", errors.UnsupportedMediaType),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.InternalError),
        (500, "ServerTimeout", errors.ServerTimeout),
        (503, "ServiceUnavailable", errors.ServiceUnavailable),
        (504, "Timeout", errors.ServerTimeout),
        (418, "", errors.ApiError),
        (502, "", errors.InternalError),
    ],
)
def test_each_answer_has_its_error(code, reason, kind):
    error = api_error(code, body(code, reason), request="GET /api/v1/pods")
    assert type(error) is kind
    assert (error.code, error.reason) == (code, reason)
    assert str(error).startswith("GET /api/v1/pods: said")
    assert isinstance(error, errors.ClientError)


def test_already_exists_is_no_conflict():
    """R2: conflicts are retried quietly, and a name that is taken would be for ever."""
    assert not issubclass(errors.AlreadyExists, errors.Conflict)


def test_causes_stand_in_the_message_unless_they_are_there_already():
    causes = [{"reason": "FieldValueInvalid", "message": "must be less than 10", "field": "spec.size"}]
    error = api_error(422, body(422, "Invalid", "HelloApp is invalid", causes=causes), request="PATCH /x")
    assert "; spec.size: must be less than 10" in str(error)
    error = api_error(422, body(422, "Invalid", "spec.size: must be less than 10", causes=causes), request="PATCH /x")
    assert str(error).count("spec.size") == 1


def test_retry_after_comes_from_the_header_or_from_the_status():
    assert api_error(429, body(429, retryAfterSeconds=3), request="").retry_after == 3
    assert api_error(429, body(429, retryAfterSeconds=3), request="", retry_after=9.0).retry_after == 9
    assert api_error(429, body(429), request="").retry_after is None


@pytest.mark.parametrize(
    ("data", "kind", "said"),
    [
        (b"", "", "the response has no body"),
        (b"404 page not found\n", "text/plain", "404 page not found"),
        (b"<html><head><title>502 Bad\n Gateway</title></head>", "text/html", "web page titled '502 Bad Gateway'"),
        (b"<html>", "text/html", "web page without a title"),
        (b'{"kind":"Secret","data":{"password":"aHVudGVyMg=="}}', "application/json", "JSON, but not a Status"),
        (b"[1,2]", "application/json", "[1,2]"),
        (b'{"kind":"Sta', "application/json", "JSON, but not a Status"),
        (b"\xff\xfe\x00", "", "\ufffd"),
        (b"x" * 5000, "text/plain", "xxx…"),
    ],
)
def test_answers_that_are_no_status_are_told_in_short(data, kind, said):
    error = api_error(502, data, request="GET /x", content_type=kind)
    assert said in str(error)
    assert error.code == 502
    assert "aHVudGVyMg" not in str(error) + repr(error.status)
    assert len(str(error)) < 600


@given(st.binary(max_size=300), st.sampled_from([400, 404, 429, 500, 503]))
def test_no_body_breaks_the_making_of_an_error(data, code):
    error = api_error(code, data, request="GET /x")
    assert isinstance(error, errors.ApiError)


def test_a_kind_that_is_not_served_is_told_from_an_object_that_is_missing():
    missing = api_error(404, body(404, "NotFound", 'pods "x" not found', name="x", kind="pods"), request="GET /x")
    unserved = api_error(404, b"404 page not found\n", request="GET /x", content_type="text/plain")
    assert isinstance(missing, errors.NotFound)
    assert isinstance(unserved, errors.NotFound)
    assert not missing.kind_is_missing
    assert unserved.kind_is_missing
    assert "CustomResourceDefinition" in str(unserved)


def test_errors_can_be_pickled():
    error = error_from_status(Status(code=409, reason="Conflict", message="m"), "PUT /x", 3.0)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is errors.Conflict
    assert (str(again), again.retry_after) == (str(error), 3.0)


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ('pods is forbidden: User "eve" cannot list resource "pods" in API group ""', "Role or ClusterRole"),
        ('deployments.apps "web" is forbidden: exceeded quota: small, requested: pods=3', "ResourceQuota"),
        ('pods "web" is forbidden: failed quota: small: must specify limits.cpu', "requests and limits"),
        ("unable to create new content in namespace n because it is being terminated", "is being deleted"),
        ('pods "web" is forbidden: violates PodSecurity "restricted:latest"', "security context"),
    ],
)
def test_the_hint_of_a_403_is_about_what_refused_it(message, hint):
    problem = errors.Forbidden(Status(code=403, reason="Forbidden", message=message), "POST /x")
    assert hint in str(problem)
    assert str(problem).count("Role or ClusterRole") == (hint == "Role or ClusterRole")


def test_a_webhooks_own_refusal_needs_no_hint():
    message = 'admission webhook "w" denied the request: too red'
    assert str(errors.Forbidden(Status(code=403, reason="Forbidden", message=message))).endswith("(403 Forbidden)")
