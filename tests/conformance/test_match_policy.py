"""`matchPolicy: Equivalent`: rules of one version that match requests in another, on both servers."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest

from .crd_cases import obj
from .harness import Both
from .test_admission import ANSWERS as ANSWERS
from .test_admission import HOOKS, Hooks, Registered, asked_the_same, hooks, patch, registered  # noqa: F401 - fixtures
from .test_crds import PATH, named
from .test_custom_resources import serve

ANSWERS["patch-replicas"] = patch({"op": "replace", "path": "/spec/replicas", "value": 7})
NUMBER = {"type": "integer"}
AUTOSCALER = {
    "metadata": {"name": "a"},
    "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
}
EVENT = {
    "metadata": {"name": "e"},
    "involvedObject": {"kind": "Pod", "name": "p"},
    "reason": "R",
    "message": "m",
    "type": "Normal",
    "firstTimestamp": "2026-01-01T00:00:00Z",
    "lastTimestamp": "2026-01-01T00:00:00Z",
    "count": 1,
}


def rules(group: str, version: str, *resources: str) -> list[dict[str, Any]]:
    return [{"operations": ["*"], "apiGroups": [group], "apiVersions": [version], "resources": list(resources)}]


class Kinds:
    """A kind of two versions on both servers: `spec.size` in v1, `spec.replicas` in v2 when a webhook converts."""

    def __init__(self, both: Both, hooks: Hooks) -> None:  # noqa: F811
        self.both = both
        self._hooks = hooks
        self._made: list[str] = []

    async def serve(self, plural: str, strategy: str) -> str:
        made = named(plural, obj({"size": NUMBER, "replicas": NUMBER}))
        (first,) = made["spec"]["versions"]
        first["subresources"] = {"status": {}, "scale": {
            "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas",
        }}  # fmt: skip
        second = {**first, "name": "v2", "storage": False}
        second["subresources"] = {"status": {}, "scale": {
            "specReplicasPath": ".spec.replicas" if strategy == "Webhook" else ".spec.size",
            "statusReplicasPath": ".status.replicas",
        }}  # fmt: skip
        made["spec"]["versions"] = [first, second]
        if strategy == "Webhook":
            bundle = base64.b64encode(self._hooks.authority.cert_pem).decode()
            client = {"url": f"https://127.0.0.1:{self._hooks.port}/convert", "caBundle": bundle}
            made["spec"]["conversion"] = {
                "strategy": "Webhook",
                "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
            }
        self._made.append(f"{PATH}/{made['metadata']['name']}")
        path = await serve(self.both, made)
        for server in self.both.servers:
            async with asyncio.timeout(30):
                while (await server.ask("GET", self.of(path, "v2"))).code != 200:  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.05)
        return path

    def of(self, path: str, version: str) -> str:
        return path.replace("/v1/", f"/{version}/").replace("{ns}", self.both.namespace)

    async def close(self) -> None:
        for path in self._made:
            await self.both.each("DELETE", path)


@pytest.fixture
async def kinds(both: Both, hooks: Hooks) -> AsyncIterator[Kinds]:  # noqa: F811
    made = Kinds(both, hooks)
    yield made
    await made.close()


@pytest.mark.parametrize("policy", ["Equivalent", "Exact"])
@pytest.mark.parametrize("strategy", ["None", "Webhook"])
@pytest.mark.parametrize("kind", ["validating", "mutating"])
async def test_webhooks_see_requests_in_the_version_of_their_rule(
    both: Both,
    kinds: Kinds,
    registered: Registered,  # noqa: F811
    kind: str,
    strategy: str,
    policy: str,
) -> None:
    plural = f"match{kind}{strategy}{policy}".lower()
    path = await kinds.serve(plural, strategy)
    wanted = rules("example.com", "v1", plural, f"{plural}/status", f"{plural}/scale")
    await registered.register(kind, registered.hook("allow", rules=wanted, matchPolicy=policy))
    field = "replicas" if strategy == "Webhook" else "size"
    body = {"apiVersion": "example.com/v2", "kind": plural.capitalize(), "metadata": {"name": "x"}, "spec": {field: 2}}
    second = kinds.of(path, "v2")
    seen = await asked_the_same(
        both,
        registered,
        [
            ("POST", second, body),
            ("PATCH", f"{second}/x", {"spec": {field: 3}}),
            ("PATCH", f"{second}/x/status", {"metadata": {"labels": {"a": "b"}}}),
            ("PATCH", f"{second}/x/scale", {"spec": {"replicas": 4}}),
            ("DELETE", f"{second}/x", None),
            ("POST", kinds.of(path, "v1"), {**body, "apiVersion": "example.com/v1", "spec": {"size": 2}}),
        ],
    )
    assert len(seen) == (6 if policy == "Equivalent" else 1)


async def test_a_patch_in_the_version_of_the_rule_reaches_the_version_of_the_request(
    both: Both,
    kinds: Kinds,
    registered: Registered,  # noqa: F811
) -> None:
    path = await kinds.serve("matchpatches", "Webhook")
    await registered.register(
        "mutating", registered.hook("patch-replicas", rules=rules("example.com", "v2", "matchpatches"))
    )
    await both.same(
        "POST",
        kinds.of(path, "v1"),
        {"apiVersion": "example.com/v1", "kind": "Matchpatches", "metadata": {"name": "x"}, "spec": {"size": 2}},
    )


@pytest.mark.parametrize(
    ("group", "version", "resource", "path", "body"),
    [
        ("autoscaling", "v1", "horizontalpodautoscalers", "/apis/autoscaling/v2", AUTOSCALER),
        ("autoscaling", "v2", "horizontalpodautoscalers", "/apis/autoscaling/v1", AUTOSCALER),
        ("events.k8s.io", "v1", "events", "/api/v1", EVENT),
    ],
)
async def test_webhooks_see_built_in_kinds_in_the_group_of_their_rule(
    both: Both,
    registered: Registered,  # noqa: F811
    group: str,
    version: str,
    resource: str,
    path: str,
    body: dict[str, Any],
) -> None:
    await registered.register("validating", registered.hook("allow", rules=rules(group, version, resource)))
    place = f"{path}/namespaces/{both.namespace}/{resource}"
    involved = {**body.get("involvedObject", {}), "namespace": both.namespace}
    sent = {**body, "involvedObject": involved} if "involvedObject" in body else body
    seen = await asked_the_same(
        both, registered, [("POST", place, sent), ("DELETE", f"{place}/{body['metadata']['name']}", None)]
    )
    assert len(seen) == 2


@pytest.mark.parametrize("policy", ["Equivalent", "Exact"])
@pytest.mark.parametrize("strategy", ["None", "Webhook"])
async def test_policies_see_requests_in_the_version_of_their_rule(
    both: Both, kinds: Kinds, strategy: str, policy: str
) -> None:
    plural = f"judge{strategy}{policy}".lower()
    path = await kinds.serve(plural, strategy)
    name = f"{plural}-{both.namespace}"
    expression = "object.apiVersion == 'example.com/v1' && has(object.spec.size) && object.spec.size < 5"
    constraints = {
        "matchPolicy": policy,
        "resourceRules": [{**rules("example.com", "v1", plural)[0], "operations": ["CREATE", "UPDATE"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": both.namespace}},
    }
    spec = {"matchConstraints": constraints, "validations": [{"expression": expression, "message": "too large"}]}
    await both.each("POST", f"{HOOKS}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec})
    binding = {"policyName": name, "validationActions": ["Deny"]}
    await both.each("POST", f"{HOOKS}/validatingadmissionpolicybindings", {"metadata": {"name": name}, "spec": binding})
    kind = plural.capitalize()
    first, second = kinds.of(path, "v1"), kinds.of(path, "v2")
    large = {"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "x"}, "spec": {"size": 9}}
    field = "replicas" if strategy == "Webhook" else "size"
    try:
        for server in both.servers:
            async with asyncio.timeout(60):
                while (await server.ask("POST", f"{first}?dryRun=All", large)).code == 201:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
        for size in (2, 9):
            body = {**large, "apiVersion": "example.com/v2", "spec": {field: size}}
            await both.same("POST", f"{second}?dryRun=All", body)
    finally:
        await both.each("DELETE", f"{HOOKS}/validatingadmissionpolicybindings/{name}")
        await both.each("DELETE", f"{HOOKS}/validatingadmissionpolicies/{name}")
