"""RBAC: decisions, messages, and privilege escalation prevention."""

import asyncio
from typing import Any

import pytest

from .harness import Answer, Both, Server

RBAC = "/apis/rbac.authorization.k8s.io/v1"
HERE = f"{RBAC}/namespaces/{{ns}}"
REVIEWS = "/apis/authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"


def acting(user: str, **more: str) -> dict[str, str]:
    return {"Impersonate-User": user, **{f"Impersonate-{key.title()}": value for key, value in more.items()}}


def rule(verbs: str, resources: str, group: str = "", **more: Any) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split(), **more}


def role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules)}


def binding(name: str, target: str, *users: str, kind: str = "Role") -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": target},
        "subjects": [{"kind": "User", "apiGroup": GROUP, "name": user} for user in users],
    }


async def grant(both: Both, user: str, *rules: dict[str, Any]) -> None:
    """Give rights in the test's namespace, and wait until the real server's cache knows."""
    await both.each("POST", f"{HERE}/roles", role(f"for-{user}", *rules))
    await both.each("POST", f"{HERE}/rolebindings", binding(f"for-{user}", f"for-{user}", user))
    first = rules[0]
    asked = {
        "namespace": both.namespace,
        "verb": first["verbs"][0],
        "group": first["apiGroups"][0],
        "resource": first["resources"][0],
        "name": (first.get("resourceNames") or [""])[0],
    }
    for server in both.servers:
        await granted(server, user, asked)


async def granted(server: Server, user: str, asked: dict[str, Any]) -> None:
    body = {"spec": {"user": user, "resourceAttributes": asked}}
    async with asyncio.timeout(90):
        while True:
            answer: Answer = await server.ask("POST", f"{REVIEWS}/subjectaccessreviews", body)
            if answer["status"]["allowed"]:
                return
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/namespaces/{ns}/configmaps"),
        ("GET", "/api/v1/configmaps"),
        ("GET", "/api/v1/namespaces/{ns}/configmaps?watch=1"),
        ("GET", "/api/v1/namespaces/{ns}/pods/p"),
        ("GET", "/api/v1/namespaces/{ns}/pods/p/log"),
        ("GET", "/apis/apps/v1/namespaces/{ns}/deployments/d/scale"),
        ("GET", "/api/v1/namespaces/{ns}"),
        ("GET", "/api/v1/nodes/n"),
        ("DELETE", "/api/v1/namespaces/{ns}/configmaps"),
        ("DELETE", "/api/v1/namespaces/{ns}/configmaps/c"),
        ("POST", "/api/v1/namespaces/{ns}/configmaps"),
        ("POST", "/api/v1/namespaces"),
        ("PUT", "/apis/apps/v1/namespaces/{ns}/deployments/d/status"),
        ("GET", "/apis/nothing.example.com/v1/things"),
        ("GET", "/metrics"),
        ("GET", "/nothing/here"),
        ("POST", "/nothing/here"),
    ],
)
async def test_a_user_without_rights_is_told_what_was_refused(both: Both, method: str, path: str):
    answer = await both.same(method, path, {} if method in ("POST", "PUT") else None, headers=acting("jane"))
    assert answer.code == 403


@pytest.mark.parametrize("path", ["/api", "/apis", "/apis/apps/v1", "/version", "/healthz", "/livez", "/readyz"])
async def test_every_user_may_discover(both: Both, path: str):
    embedded, real = await both.each("GET", path, headers=acting("jane"))
    assert (embedded.code, real.code) == (200, 200)


@pytest.mark.parametrize(
    "asked",
    [
        {"verb": "list", "resource": "pods"},
        {"verb": "create", "resource": "selfsubjectaccessreviews", "group": "authorization.k8s.io"},
        {"verb": "get", "resource": "pods", "subresource": "log", "namespace": "default", "name": "p"},
        {"verb": "*", "resource": "*", "group": "*"},
    ],
)
async def test_access_reviews_answer_alike(both: Both, asked: dict[str, str]):
    await both.same("POST", f"{REVIEWS}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": asked}})
    headers = acting("jane")
    body = {"spec": {"resourceAttributes": asked}}
    await both.same("POST", f"{REVIEWS}/selfsubjectaccessreviews", body, headers=headers)
    for user in ({"user": "jane"}, {"groups": ["system:masters"]}, {"user": "x", "groups": ["system:authenticated"]}):
        body = {"spec": {**user, "resourceAttributes": asked}}
        await both.same("POST", f"{REVIEWS}/subjectaccessreviews", body)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"path": "/", "verb": "get"}},
        {"resourceAttributes": {"verb": "get", "fieldSelector": {}}},
        {"resourceAttributes": {"verb": "get", "labelSelector": {"requirements": [{"key": "a b", "operator": "In"}]}}},
        {"nonResourceAttributes": {"path": "/api", "verb": "get"}, "user": "jane", "groups": ["system:authenticated"]},
    ],
)
async def test_bad_access_reviews_are_refused_alike(both: Both, spec: dict[str, Any]):
    await both.same("POST", f"{REVIEWS}/subjectaccessreviews", {"spec": spec})
    own = {key: value for key, value in spec.items() if key not in ("user", "groups")}
    await both.same("POST", f"{REVIEWS}/selfsubjectaccessreviews", {"spec": own})


async def test_local_access_reviews_are_about_their_namespace(both: Both):
    path = f"{REVIEWS}/namespaces/{{ns}}/localsubjectaccessreviews"
    for attributes in ({"namespace": "{ns}"}, {"namespace": "other"}, {}):
        spec = {"user": "jane", "resourceAttributes": {"verb": "get", "resource": "pods", **attributes}}
        await both.same("POST", path, {"spec": spec})
    await both.same("POST", path, {"spec": {"user": "a", "nonResourceAttributes": {"path": "/", "verb": "get"}}})


async def test_a_role_gives_what_it_says_in_its_namespace(both: Both):
    await grant(both, "role-user", rule("get list", "configmaps"), rule("get", "secrets", resourceNames=["one"]))
    headers = acting("role-user")
    await both.same("GET", "/api/v1/namespaces/{ns}/configmaps/nope", headers=headers)
    await both.same("GET", "/api/v1/namespaces/{ns}/secrets/one", headers=headers)
    await both.same("GET", "/api/v1/namespaces/{ns}/secrets/two", headers=headers)
    await both.same("GET", "/api/v1/namespaces/default/configmaps/nope", headers=headers)
    body = {"metadata": {"name": "c"}}
    await both.same("POST", "/api/v1/namespaces/{ns}/configmaps", body, headers=headers)


async def test_the_reason_names_the_binding(both: Both):
    await grant(both, "reason-user", rule("get", "configmaps"))
    asked = {"verb": "get", "resource": "configmaps", "namespace": "{ns}"}
    body = {"spec": {"user": "reason-user", "resourceAttributes": asked}}
    answer = await both.same("POST", f"{REVIEWS}/subjectaccessreviews", body)
    assert "RBAC: allowed by RoleBinding" in answer["status"]["reason"]


async def test_a_binding_to_a_missing_role_is_told_in_refusals(both: Both):
    await grant(both, "missing-user", rule("get", "configmaps"))
    await both.each("POST", f"{HERE}/rolebindings", binding("dangling", "nope", "missing-user"))
    real = both.real
    async with asyncio.timeout(90):
        while True:
            answer = await real.ask("GET", f"/api/v1/namespaces/{both.namespace}/pods", headers=acting("missing-user"))
            if "RBAC:" in answer["message"]:
                break
            await asyncio.sleep(0.01)
    await both.same("GET", "/api/v1/namespaces/{ns}/pods", headers=acting("missing-user"))


@pytest.mark.parametrize(
    "rules",
    [
        [rule("get", "configmaps")],
        [rule("get list", "configmaps secrets")],
        [rule("get", "configmaps", resourceNames=["b", "a"]), rule("list", "configmaps", resourceNames=["a"])],
        [rule("get list *", "* configmaps")],
        [rule("get", "deployments", "apps"), rule("get", "configmaps")],
        [],
    ],
)
async def test_nobody_writes_a_role_that_gives_more_than_they_have(both: Both, rules: list[dict[str, Any]]):
    await grant(both, "giver", rule("get", "configmaps"), rule("create update patch", "roles rolebindings", GROUP))
    headers = acting("giver")
    await both.same("POST", f"{HERE}/roles", role("given", *rules), headers=headers)
    await both.each("POST", f"{HERE}/roles", role("strong", rule("*", "*")))
    await both.same("PUT", f"{HERE}/roles/strong", role("strong", *rules), headers=headers)


async def test_nobody_binds_a_role_that_gives_more_than_they_have(both: Both):
    await grant(both, "binder", rule("get", "configmaps"), rule("create", "rolebindings", GROUP))
    headers = acting("binder")
    await both.each("POST", f"{HERE}/roles", role("weak", rule("get", "configmaps")))
    await both.each("POST", f"{HERE}/roles", role("strong", rule("*", "*")))
    for name, kind in (("weak", "Role"), ("strong", "Role"), ("cluster-admin", "ClusterRole"), ("nope", "ClusterRole")):
        if name == "weak":
            for server in both.servers:
                asked = {"namespace": both.namespace, "verb": "get", "resource": "configmaps"}
                await granted(server, "binder", asked)
        body = binding(f"bind-{name}", name, "somebody", kind=kind)
        await both.same("POST", f"{HERE}/rolebindings", body, headers=headers)


async def test_a_role_reference_cannot_change(both: Both):
    await both.each("POST", f"{HERE}/rolebindings", binding("fixed", "one", "jane"))
    await both.same("PUT", f"{HERE}/rolebindings/fixed", binding("fixed", "two", "jane"))


@pytest.mark.parametrize("name", ["cluster-admin", "system:discovery", "system:basic-user", "system:node", "edit"])
async def test_default_roles_are_there(both: Both, name: str):
    await both.same("GET", f"{RBAC}/clusterroles/{name}")


@pytest.mark.parametrize("name", ["cluster-admin", "system:discovery", "system:public-info-viewer"])
async def test_default_bindings_are_there(both: Both, name: str):
    await both.same("GET", f"{RBAC}/clusterrolebindings/{name}")
