"""Reviews as an API server sends them."""

import json

import pytest

from steersman.models import view_of
from steersman.webhook.admission import Admission, AdmissionRoute, Hook
from steersman.webhook.http_messages import WebhookRequest


def review(obj=None, *, old=None, operation="CREATE", uid="705ab4f5", **fields):
    source = obj or old or {}
    metadata = source.get("metadata", {})
    group, _, version = source.get("apiVersion", "v1").rpartition("/")
    request = {
        "uid": uid,
        "kind": {"group": group, "version": version, "kind": source.get("kind", "")},
        "resource": {"group": group, "version": version, "resource": source.get("kind", "").lower() + "s"},
        "operation": operation,
        "name": metadata.get("name", ""),
        "namespace": metadata.get("namespace", ""),
        "userInfo": {"username": "jane", "groups": ["dev"]},
        "object": obj,
        "oldObject": old,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        **fields,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


class RouteCaller:
    """One webhook that is route_of directly, without a server."""

    def __init__(self, kind, function, purpose, **options):
        async def call(obj, admission):
            returned = function(obj, admission)
            return await returned if hasattr(returned, "__await__") else returned

        view = view_of(kind)
        self.route = AdmissionRoute(Hook("the-hook", purpose, "/hook", view, call, "app.py:1: hook"), **options)

    async def __call__(self, body, query="timeout=10s"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = await self.route(WebhookRequest("POST", "/hook", query, {}, data))
        return answer.status, json.loads(answer.body)

    async def decides(self, body):
        code, answer = await self(body)
        assert code == 200, answer
        assert answer["kind"] == "AdmissionReview"
        assert answer["apiVersion"] == "admission.k8s.io/v1"
        return answer["response"]


@pytest.fixture
def route_of():
    return RouteCaller


__all__ = ["Admission", "RouteCaller", "review"]
