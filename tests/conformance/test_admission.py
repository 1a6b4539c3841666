"""Admission: the built-in plug-ins, and webhooks that both servers call on the loopback."""

import asyncio
import base64
import json
import re
import ssl
import tempfile
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from aiohttp import web

from steersman.pki import Authority

from .harness import Answer, Both, compare

HOOKS = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/{ns}/configmaps"


class Hooks:
    """Webhooks on the loopback. The path selects the response."""

    def __init__(self) -> None:
        self.authority = Authority.create("hooks")
        self.requests: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self.port = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.calls.append(f"{request.method} {request.path_qs} {request.content_type}")
        redirect = re.fullmatch(r"/redirect-(\d+)-(.+)", request.path)
        if redirect is not None:
            target = redirect[2].replace("+", "/") if ":+" in redirect[2] else "/" + redirect[2].replace("+", "/")
            return web.Response(status=int(redirect[1]), headers={"Location": target} if redirect[2] != "0" else {})
        if request.method != "POST":
            return web.Response(status=405, text="only POST")
        review = await request.json()
        asked = review["request"]
        if review["kind"] == "ConversionReview":
            return web.json_response({**review, "response": renamed(asked)})
        path = request.path.strip("/")
        if path == "broken":
            return web.Response(status=500, text="boom")
        if path == "missing":
            return web.Response(status=404)
        if path == "empty":
            return web.json_response({})
        if path == "other":
            return web.json_response({"apiVersion": "v1", "kind": "Foo"})
        if path == "status":
            return web.json_response({"kind": "Status", "message": "mine", "code": 400}, status=400)
        if path == "slow":
            await asyncio.sleep(3)
        self.requests.append(asked)
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        return web.json_response({**body, "response": {"uid": asked["uid"], **ANSWERS.get(path, {"allowed": True})}})


def renamed(asked: dict[str, Any]) -> dict[str, Any]:
    """The response to a conversion: v1 has `spec.size`, v2 the same as `spec.replicas`."""
    names = ("size", "replicas") if asked["desiredAPIVersion"].endswith("/v2") else ("replicas", "size")
    made: list[dict[str, Any]] = []
    for obj in asked["objects"]:
        spec = dict(obj.get("spec") or {})
        if names[0] in spec:
            spec[names[1]] = spec.pop(names[0])
        made.append({**obj, "apiVersion": asked["desiredAPIVersion"], "spec": spec})
    return {"uid": asked["uid"], "result": {"status": "Success"}, "convertedObjects": made}


def patch(*operations: dict[str, Any]) -> dict[str, Any]:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


ANSWERS: dict[str, dict[str, Any]] = {
    "warn": {"allowed": True, "warnings": ["careful", "very"]},
    "deny": {"allowed": False},
    "deny-message": {"allowed": False, "status": {"message": "no way", "code": 409, "reason": "Conflict"}},
    "deny-reason": {"allowed": False, "status": {"reason": "Because", "details": {"name": "x"}}},
    "deny-success": {"allowed": False, "status": {"message": "m", "code": 200, "status": "Success"}},
    "patch": patch({"op": "add", "path": "/data", "value": {"by": "hook"}}),
    "patch-label": patch({"op": "add", "path": "/metadata/labels", "value": {"by": "hook"}}),
    "patch-name": patch({"op": "replace", "path": "/metadata/name", "value": "Bad Name"}),
    "patch-missing": patch({"op": "remove", "path": "/nope"}),
    "patch-untyped": {"allowed": True, "patch": "W10="},
    "patch-undecodable": {"allowed": True, "patch": "ew==", "patchType": "JSONPatch"},
    "patch-foo": {**patch({"op": "add", "path": "/data", "value": {}}), "patchType": "Foo"},
    "patch-type": patch({"op": "add", "path": "/data", "value": 5}),
}


@pytest.fixture
async def hooks() -> AsyncIterator[Hooks]:
    made = Hooks()
    pair = made.authority.serving("webhook", ["localhost", "127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(pair.cert_pem + pair.key_pem)
        file.flush()
        context.load_cert_chain(file.name)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    made.port = runner.addresses[0][1]
    yield made
    # The servers keep their connections open; a TLS farewell would outlive the test's loop.
    for connection in runner.server.connections if runner.server is not None else ():
        if connection.transport is not None:
            connection.transport.abort()
    await runner.cleanup()
    await asyncio.sleep(0)


class Registered:
    """Registers webhooks for the test's namespace on both servers, and waits until they are called."""

    def __init__(self, both: Both, hooks: Hooks) -> None:
        self.both = both
        self.hooks = hooks
        self._paths: list[str] = []

    def hook(self, path: str, **more: Any) -> dict[str, Any]:
        bundle = base64.b64encode(self.hooks.authority.cert_pem).decode()
        return {
            "name": f"{path}.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": f"https://127.0.0.1:{self.hooks.port}/{path}", "caBundle": bundle},
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
            "timeoutSeconds": 1,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.both.namespace}},
            **more,
        }

    async def register(self, kind: str, *webhooks: dict[str, Any]) -> None:
        resource = f"{HOOKS}/{kind}webhookconfigurations"
        name = f"{kind}-{self.both.namespace}"
        # The last one tells when the real server's informer knows of the configuration.
        probe = self.hook(
            "probe",
            rules=[{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"]}],
        )
        body = {"metadata": {"name": name}, "webhooks": [*webhooks, probe]}
        await self.both.each("POST", resource, body)
        self._paths.append(f"{resource}/{name}")
        secret = {"metadata": {"generateName": "probe-"}}
        for server in self.both.servers:
            async with asyncio.timeout(90):
                while not self.hooks.requests:
                    await server.ask("POST", f"/api/v1/namespaces/{self.both.namespace}/secrets?dryRun=All", secret)
                    await asyncio.sleep(0.01)
            self.hooks.requests.clear()
        self.hooks.calls.clear()

    async def close(self) -> None:
        for path in self._paths:
            await self.both.each("DELETE", path)


@pytest.fixture
async def registered(both: Both, hooks: Hooks) -> AsyncIterator[Registered]:
    made = Registered(both, hooks)
    yield made
    await made.close()


@pytest.mark.parametrize(
    "path",
    [
        "allow",
        "warn",
        "deny",
        "deny-message",
        "deny-reason",
        "deny-success",
        "broken",
        "missing",
        "empty",
        "other",
        "status",
        "slow",
        "patch",
    ],
)
async def test_validating_answers_have_the_same_effect(both: Both, registered: Registered, path: str):
    await registered.register("validating", registered.hook(path))
    await both.same("POST", MAPS, {"metadata": {"name": "c"}})


@pytest.mark.parametrize(
    "path",
    [
        "warn",
        "deny-message",
        "broken",
        "patch",
        "patch-label",
        "patch-name",
        "patch-missing",
        "patch-untyped",
        "patch-undecodable",
        "patch-foo",
        "patch-type",
    ],
)
async def test_mutating_answers_have_the_same_effect(both: Both, registered: Registered, path: str):
    await registered.register("mutating", registered.hook(path))
    await both.same("POST", MAPS, {"metadata": {"name": "c"}})


@pytest.mark.parametrize(
    "path",
    ["/deny-message", "//deny-message", "/deny-message/", "/a/../deny-message", "/%64eny-message", "/a%2Fb", "", "/"],
)
async def test_the_path_of_an_address_is_cleaned(both: Both, registered: Registered, path: str):
    hook = registered.hook("x")
    hook["clientConfig"]["url"] = f"https://127.0.0.1:{registered.hooks.port}{path}"
    await registered.register("validating", hook)
    await called_alike(both, registered)


@pytest.mark.parametrize("path", ["/deny-message", "/deny-message/", "/"])
async def test_the_path_of_a_service_is_cleaned(both: Both, registered: Registered, path: str):
    service = {"name": "nope", "namespace": "default", "path": path}
    await registered.register("validating", registered.hook("x", clientConfig={"service": service}))
    await called_alike(both, registered)


@pytest.mark.parametrize(
    "path",
    [
        *(f"redirect-{code}-deny-message" for code in (301, 302, 303, 307, 308, 300, 304)),
        "redirect-307-0",
        "redirect-307-redirect-307-deny-message",
        "redirect-307-redirect-308-redirect-307-redirect-302-deny-message",
        "redirect-307-+127.0.0.1:1+x",
        "redirect-307-+[+x",
        "redirect-302-+127.0.0.1:1+x",
        "redirect-307-ftp:++localhost+x",
        "redirect-307-" * 12 + "deny-message",
    ],
)
async def test_redirects_are_followed_alike(both: Both, registered: Registered, path: str):
    await registered.register("validating", registered.hook("x", clientConfig=registered.hook(path)["clientConfig"]))
    await called_alike(both, registered)


async def called_alike(both: Both, registered: Registered) -> None:
    """Demand that both servers call webhooks in the same way for a write, and answer it alike."""
    calls: list[Answer] = []
    answers: list[Answer] = []
    for server in both.servers:
        answers.append(await server.ask("POST", MAPS.format(ns=both.namespace), {"metadata": {"name": "c"}}))
        calls.append(Answer(200, list(registered.hooks.calls)))
        registered.hooks.calls.clear()
    compare("calls of the webhook", *calls)
    compare("the answer", *answers)


@pytest.mark.parametrize("path", ["broken", "empty", "slow"])
async def test_failures_may_be_ignored(both: Both, registered: Registered, path: str):
    await registered.register("validating", registered.hook(path, failurePolicy="Ignore"))
    answer = await both.same("POST", MAPS, {"metadata": {"name": "c"}})
    assert answer.code == 201


@pytest.mark.parametrize(
    "config", [{"url": "https://127.0.0.1:1/x"}, {"service": {"name": "nope", "namespace": "default", "path": "/x"}}]
)
async def test_a_webhook_that_cannot_be_reached_is_told_alike(
    both: Both, registered: Registered, config: dict[str, Any]
):
    await registered.register("validating", registered.hook("x", clientConfig=config))
    answer = await both.same("POST", MAPS, {"metadata": {"name": "c"}})
    assert answer.code == 500


async def test_an_unknown_authority_is_told_alike(both: Both, registered: Registered):
    hook = registered.hook("allow")
    hook["clientConfig"]["caBundle"] = base64.b64encode(Authority.create("other").cert_pem).decode()
    await registered.register("validating", hook)
    await both.same("POST", MAPS, {"metadata": {"name": "c"}})


@pytest.mark.parametrize("kind", ["validating", "mutating"])
async def test_webhooks_are_asked_the_same(both: Both, registered: Registered, kind: str):
    await registered.register(kind, registered.hook("allow"))
    steps: list[tuple[str, str, Any]] = [
        ("POST", f"{MAPS}?fieldManager=fm", {"metadata": {"name": "c", "labels": {"a": "b"}}, "data": {"a": "b"}}),
        ("PUT", f"{MAPS}/c", {"metadata": {"name": "c"}, "data": {"a": "c"}}),
        ("POST", f"{MAPS}?dryRun=All", {"metadata": {"generateName": "c-"}}),
        ("DELETE", f"{MAPS}/c", None),
    ]
    assert len(await asked_the_same(both, registered, steps)) == len(steps)


PODS = "/api/v1/namespaces/{ns}/pods"
SERVICES = "/api/v1/namespaces/{ns}/services"
CONNECTIONS = [
    ("GET", f"{PODS}/web/exec?command=ls&command=-l&stdout=1&container=a", None),
    ("POST", f"{PODS}/web/exec?command=ls&stdin=1&tty=true&stderr=false", None),
    ("GET", f"{PODS}/web/attach?stdout=true&stderr=true", None),
    ("POST", f"{PODS}/web/portforward", None),
    ("POST", f"{PODS}/web/portforward?ports=80&ports=81", None),
    ("GET", f"{PODS}/web/proxy", None),
    ("POST", f"{PODS}/web:80/proxy/a/b?c=d", None),
    ("GET", f"{SERVICES}/web/proxy/x", None),
]


async def test_webhooks_are_asked_of_connections(both: Both, registered: Registered):
    await both.each("POST", PODS, {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "a", "image": "i"}]}})
    resources = ["pods/*", "services/*"]
    rule = {"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": resources}
    await registered.register("validating", registered.hook("allow", rules=[rule]))
    asked = await asked_the_same(both, registered, CONNECTIONS)
    assert [request["kind"]["kind"] for request in asked[:2]] == ["PodExecOptions"] * 2
    assert len(asked) == len(CONNECTIONS)


async def test_webhooks_refuse_connections(both: Both, registered: Registered):
    await both.each("POST", PODS, {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "a", "image": "i"}]}})
    rule = {"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/exec"]}
    await registered.register("validating", registered.hook("deny-message", rules=[rule]))
    await both.same("GET", f"{PODS}/web/exec?command=ls&stdout=1")


async def asked_the_same(both: Both, registered: Registered, steps: Sequence[tuple[str, str, Any]]) -> list[Any]:
    """Check that webhooks receive the same requests from both servers; return these requests."""
    seen: list[list[Any]] = []
    created = steps[0][1].partition("?")[0].replace("{ns}", both.namespace) if steps[0][0] == "POST" else ""
    for server in both.servers:
        for method, path, body in steps:
            media = "application/merge-patch+json" if method == "PATCH" else "application/json"
            await server.ask(method, path.replace("{ns}", both.namespace), body, content_type=media)
            if created:
                # A list waits until the server's cache has the write. With an older cache, a server asks twice.
                await server.ask("GET", created)
        for request in registered.hooks.requests:
            # The administrators have different names and credentials.
            request["userInfo"] = request["userInfo"]["groups"]
            if request["object"] and "generateName" in request["object"].get("metadata", ()):
                request.pop("name", None)
        seen.append(list(registered.hooks.requests))
        registered.hooks.requests.clear()
    compare("what webhooks are asked", Answer(200, seen[0]), Answer(200, seen[1]))
    return seen[0]


async def test_webhooks_are_called_in_order_and_again_when_they_wish(both: Both, registered: Registered):
    again = {"reinvocationPolicy": "IfNeeded"}
    hooks = [registered.hook("allow", **again), registered.hook("warn"), registered.hook("patch")]
    await registered.register("mutating", *hooks)
    counts: list[int] = []
    for server in both.servers:
        await server.ask("POST", MAPS.replace("{ns}", both.namespace), {"metadata": {"name": "c"}})
        counts.append(len(registered.hooks.requests))
        registered.hooks.requests.clear()
    assert counts == [4, 4]


@pytest.mark.parametrize(
    "more",
    [
        {"objectSelector": {"matchLabels": {"a": "b"}}},
        {"objectSelector": {"matchLabels": {"a": "c"}}},
        {"rules": [{"operations": ["UPDATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]},
        {"rules": [{"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]},
        {"matchConditions": [{"name": "a", "expression": "object.metadata.name == 'c'"}]},
        {"matchConditions": [{"name": "a", "expression": "object.metadata.name == 'd'"}]},
        {"matchConditions": [{"name": "a", "expression": "object.data.x == '1'"}]},
        {"matchConditions": [{"name": "a", "expression": "object.data.x == '1'"}], "failurePolicy": "Ignore"},
        {"sideEffects": "NoneOnDryRun"},
    ],
)
async def test_the_same_writes_are_denied(both: Both, registered: Registered, more: dict[str, Any]):
    await registered.register("validating", registered.hook("deny", **more))
    body = {"metadata": {"name": "c", "labels": {"a": "b"}}}
    await both.same("POST", f"{MAPS}?dryRun=All", body)
    await both.same("POST", MAPS, body)


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_system_namespaces_stay(both: Both, name: str):
    answer = await both.same("DELETE", f"/api/v1/namespaces/{name}?dryRun=All")
    assert answer.code == 403


async def test_nothing_is_created_in_a_namespace_that_is_not_there(both: Both):
    await both.same("POST", "/api/v1/namespaces/nope/configmaps", {"metadata": {"name": "c"}})


async def test_a_pod_gets_its_defaults(both: Both):
    spec = {"containers": [{"name": "a", "image": "i"}]}
    await both.same("POST", "/api/v1/namespaces/{ns}/pods", {"metadata": {"name": "p"}, "spec": spec})
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    body = {"metadata": {"name": "q"}, "spec": {**spec, "tolerations": [own]}}
    await both.same("POST", "/api/v1/namespaces/{ns}/pods", body)


@pytest.mark.parametrize(
    "more", [{"priorityClassName": "nope"}, {"priority": 5}, {"priorityClassName": "system-node-critical"}]
)
async def test_priorities_come_from_classes(both: Both, more: dict[str, Any]):
    spec = {"containers": [{"name": "a", "image": "i"}], **more}
    await both.same("POST", "/api/v1/namespaces/{ns}/pods", {"metadata": {"name": "p"}, "spec": spec})


@pytest.mark.parametrize(
    ("limit", "resources"),
    [
        ({"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m", "memory": "1Mi"}}, {}),
        ({"type": "Container", "max": {"cpu": "1"}}, {"limits": {"cpu": "1500m"}}),
        ({"type": "Container", "min": {"cpu": "1"}}, {"requests": {"cpu": "500m"}}),
        ({"type": "Pod", "max": {"memory": "1Gi"}}, {"limits": {"memory": "2Gi"}}),
        (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
            {"limits": {"cpu": "3"}, "requests": {"cpu": "1"}},
        ),
    ],
)
async def test_limit_ranges_hold(both: Both, limit: dict[str, Any], resources: dict[str, Any]):
    body = {"metadata": {"name": "limits"}, "spec": {"limits": [limit]}}
    await both.same("POST", "/api/v1/namespaces/{ns}/limitranges", body)
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "i", "resources": resources}]}}
    async with asyncio.timeout(90):
        while True:
            # The real server learns of a LimitRange a moment later.
            answer = await both.real.ask("POST", f"/api/v1/namespaces/{both.namespace}/pods?dryRun=All", pod)
            if answer.code != 201 or "annotations" in answer["metadata"]:
                break
            await asyncio.sleep(0.01)
    await both.same("POST", "/api/v1/namespaces/{ns}/pods", pod)


async def test_claims_are_protected(both: Both):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    body = {"metadata": {"name": "c"}, "spec": spec}
    await both.same("POST", "/api/v1/namespaces/{ns}/persistentvolumeclaims", body)


async def test_new_nodes_are_tainted(both: Both):
    body = {"metadata": {"name": f"node-{both.namespace}"}}
    await both.same("POST", "/api/v1/nodes", body)
