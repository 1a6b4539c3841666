"""The servers' own documents: versions, health, discovery, OpenAPI, and unknown paths."""

import asyncio
import json
import re
from typing import Any

import pytest

from .harness import Answer, Both, Server, compare
from .swagger import VERBS, shape, swagger

AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
NOT_OURS = frozenset(("internal.apiserver.k8s.io", "metrics.k8s.io"))


def header(answer: Answer, name: str) -> str:
    return next((value for known, value in answer.headers.items() if known.lower() == name), "")


def json_of(answer: Answer) -> Any:
    return json.loads(answer.body) if isinstance(answer.body, str) else answer.body


async def groups(server: Server) -> dict[str, Any]:
    answer = await server.ask("GET", "/apis")
    return {group["name"]: group for group in answer["groups"] if not group["name"].endswith("example.com")}


async def test_the_same_groups_are_served(both: Both):
    embedded, real = await asyncio.gather(*(groups(server) for server in both.servers))
    assert embedded == real


async def test_every_group_and_version_has_the_same_resources(both: Both):
    found = await groups(both.real)
    paths = ["/api/v1", *(f"/apis/{v['groupVersion']}" for group in found.values() for v in group["versions"])]
    differences: list[str] = []
    for path in paths:
        try:
            # Hashes of storage versions are a server's own; componentstatuses has none.
            await both.same("GET", path, ignore=("resources.*.storageVersionHash",))
        except AssertionError as error:
            differences.append(str(error))
    assert not differences, "\n\n".join(differences)


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_aggregated_discovery_is_the_same(both: Both, path: str):
    answers = await both.each("GET", path, headers={"Accept": AGGREGATED})
    bodies: list[Any] = []
    for answer in answers:
        body = answer.body if isinstance(answer.body, dict) else json.loads(answer.body)
        body["items"] = [item for item in body["items"] if not item["metadata"].get("name", "").endswith("example.com")]
        bodies.append(body)
        assert header(answer, "etag")
    compare(path, Answer(answers[0].code, bodies[0]), Answer(answers[1].code, bodies[1]))
    assert answers[0].headers["Content-Type"] == answers[1].headers["Content-Type"]


@pytest.mark.parametrize(
    "accept",
    [
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList,application/json",
        "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "text/html",
        "*/*",
    ],
)
async def test_other_forms_of_discovery(both: Both, accept: str):
    embedded, real = await both.each("GET", "/apis", headers={"Accept": accept})
    assert embedded.code == real.code
    if embedded.code == 200:
        assert embedded["kind"] == real["kind"]
        assert embedded.headers["Content-Type"] == real.headers["Content-Type"]


async def test_versions(both: Both):
    await both.same("GET", "/version", ignore=("gitCommit", "goVersion", "buildDate", "platform", "gitTreeState"))
    await both.same("GET", "/version/", ignore=("gitCommit", "goVersion", "buildDate", "platform", "gitTreeState"))
    await both.same("GET", "/api", ignore=("serverAddressByClientCIDRs.*.serverAddress",))


@pytest.mark.parametrize(
    "path",
    [
        "/healthz", "/livez", "/readyz", "/healthz/ping", "/livez/ping", "/readyz/ping", "/healthz/nope",
        "/healthz/etcd",
        "/readyz/etcd", "/nope", "/api/v2", "/apis/nope", "/apis/nope/v1", "/apis/apps/v9", "/apis/apps/v1/nope",
        "/api/v1/nope", "/api/v1/nope/x", "/api/v1/namespaces/{ns}/nope", "/api/v1/namespaces/{ns}/nope/x",
        "/apis/apps", "/apis/apps/", "/apis/", "/apis/apps/v1/", "/api/v1/namespaces/{ns}/pods/",
        "/api//v1/namespaces", "//api/v1", "/api/v1/namespaces/{ns}/nodes", "/api/v1/configmaps/a",
        "/api/v1/namespaces/{ns}/configmaps/a/status", "/api/v1/namespaces/{ns}/configmaps/a/b/c",
        "/apis/example.com/v1/foos",
        "/api/v1/namespaces/{ns}/configmaps/a%2Fb", "/openapi/v3/api/v9", "/openapi/v3/nope", "/openapi/nope",
        "/api/v1/watch/namespaces/{ns}/nope", "/metrics/nope", "/logs", "/ui", "/swagger.json",
    ],
)  # fmt: skip
async def test_paths(both: Both, path: str):
    await both.same("GET", path)


async def test_health_may_be_verbose(both: Both):
    for path in ("/livez?verbose", "/readyz?verbose=1"):
        embedded, real = await both.each("GET", path)
        assert embedded.code == real.code == 200
        assert embedded.body.splitlines()[0] == real.body.splitlines()[0] == "[+]ping ok"
        assert embedded.body.splitlines()[-1] == real.body.splitlines()[-1]


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "PUT", "POST", "PATCH", "DELETE"])
async def test_odd_methods(both: Both, method: str):
    paths = [
        "/api/v1/namespaces/{ns}/configmaps", "/api/v1/namespaces/{ns}/configmaps/a", "/api/v1/nope", "/apis/nope/v1/x",
        "/apis/apps/v9/deployments", "/apis/apps", "/version", "/healthz", "/nope", "/api", "/api/v1", "/apis/apps/v1",
        "/api/v1/namespaces/{ns}/configmaps/a/b/c", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "/api/v1/namespaces/{ns}", "/api/v1/namespaces/{ns}/pods/x/log", "/api/v1/configmaps",
        "/api/v1/namespaces/{ns}/nodes",
        "/apis/example.com/v1/foos",
    ]  # fmt: skip
    body = "[]" if method == "PATCH" else "{}" if method in ("PUT", "POST") else None
    kind = "application/json-patch+json" if method == "PATCH" else "application/json"
    differences: list[str] = []
    for path in paths:
        if method == "DELETE" and path == "/api/v1/namespaces/{ns}":
            continue
        try:
            await both.same(method, path, body, content_type=kind)
        except AssertionError as error:
            differences.append(str(error))
    assert not differences, "\n\n".join(differences)


async def test_openapi_has_the_same_documents(both: Both):
    embedded, real = await both.each("GET", "/openapi/v3")
    mine = {path for path in json_of(embedded)["paths"] if "example.com" not in path}
    theirs = {path for path in json_of(real)["paths"] if "example.com" not in path}
    # The index of the real server also lists documents of paths that are no API groups.
    assert {p for p in mine if p.startswith("api")} == {p for p in theirs if re.match(r"apis?(/|$)", p)} & mine
    assert {p for p in theirs if p.startswith("apis/") and p.count("/") == 2} <= mine


@pytest.mark.parametrize("where", ["api/v1", "apis/apps/v1", "apis/rbac.authorization.k8s.io/v1"])
async def test_openapi_documents_describe_the_same(both: Both, where: str):
    embedded, real = await both.each("GET", f"/openapi/v3/{where}")
    assert set(embedded["paths"]) == set(real["paths"])
    mine, theirs = embedded["components"]["schemas"], real["components"]["schemas"]
    assert set(theirs) <= set(mine)
    for name, schema in theirs.items():
        assert set(mine[name].get("properties", {})) == set(schema.get("properties", {})), name


async def test_openapi_documents_are_cached_by_their_hash(both: Both):
    for server in both.servers:
        index = await server.ask("GET", "/openapi/v3")
        link = json_of(index)["paths"]["apis/apps/v1"]["serverRelativeURL"]
        answer = await server.ask("GET", link)
        assert header(answer, "cache-control") == "public, immutable", server.name
        again = await server.ask("GET", "/openapi/v3/apis/apps/v1", headers={"If-None-Match": header(answer, "etag")})
        assert again.code == 304, server.name


async def test_the_second_version_of_openapi_knows_every_kind(both: Both):
    embedded, real = await both.each("GET", "/openapi/v2")
    theirs = {name for name in real["definitions"] if name.startswith("io.k8s.api.") and "alpha" not in name}
    assert theirs <= set(embedded["definitions"])
    paths = {
        path for path in real["paths"] if path.startswith(("/api/v1/", "/apis/apps/v1/")) and "/watch/" not in path
    }
    assert paths <= set(embedded["paths"])


OPENAPI_ACCEPTS = [
    "", "*/*", "application/*", "application/json", "application/json; charset=utf-8", "text/html", "application/yaml",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v3@v1.0+protobuf", "application/vnd.kubernetes.protobuf",
    "application/json;q=0.1,application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf;q=0.1, application/json",
    "text/html,application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
]  # fmt: skip


@pytest.mark.parametrize("accept", OPENAPI_ACCEPTS)
async def test_the_second_version_of_openapi_is_negotiated(both: Both, accept: str):
    embedded, real = await both.each("GET", "/openapi/v2", headers={"Accept": accept})
    assert (embedded.code, embedded.content_type) == (real.code, real.content_type)
    assert bool(header(embedded, "etag")) is bool(header(real, "etag"))
    if embedded.code == 200:
        known = [(server, header(a, "etag")) for server, a in zip(both.servers, (embedded, real), strict=True)]
        for server, etag in known:
            again = await server.ask("GET", "/openapi/v2", headers={"Accept": accept, "If-None-Match": etag})
            assert again.code == 304, server.name


async def test_the_second_version_of_openapi_as_protobuf_is_what_its_json_says(both: Both):
    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    for server in both.servers:
        async with server.session.get(f"{server.url}/openapi/v2", headers={"Accept": accept}) as answer:
            packed = await answer.read()
        whole = json_of(await server.ask("GET", "/openapi/v2"))
        decoded = swagger(packed)
        assert decoded["definitions"] == {name: shape(schema) for name, schema in whole["definitions"].items()}
        assert decoded["paths"] == {
            path: {verb: operation.get("operationId") for verb, operation in item.items() if verb in VERBS}
            for path, item in whole["paths"].items()
        }


async def test_the_issuer_publishes_its_keys(both: Both):
    embedded, real = await both.each("GET", "/openid/v1/jwks", headers={"Accept": "application/jwk-set+json"})
    assert embedded.code == real.code == 200
    assert set(embedded["keys"][0]) >= {"use", "kty", "kid", "alg"}
    for answer in await both.each("GET", "/.well-known/openid-configuration"):
        assert answer["jwks_uri"].endswith("/openid/v1/jwks")


OPEN = {"x-kubernetes-preserve-unknown-fields": True}
PUBLISHED: dict[str, Any] = {
    "nothing said": {"type": "object"},
    "unknown fields": {"type": "object", **OPEN},
    "unknown fields beside known ones": {"type": "object", **OPEN, "properties": {"a": {"type": "string"}}},
    "fields": {
        "type": "object",
        "description": "Text.",
        "required": ["n", "d"],
        "properties": {
            "spec": {"type": "object", **OPEN, "properties": {"a": {"type": "string"}}},
            "i": {"x-kubernetes-int-or-string": True},
            "j": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "k": {"x-kubernetes-int-or-string": True, "anyOf": [{"pattern": "^a"}, {"minimum": 1}]},
            "n": {"type": "string", "nullable": True},
            "m": {"type": "object", "nullable": True, "properties": {"q": {"type": "string"}}},
            "d": {"type": "string", "default": "x", "maxLength": 5, "enum": ["x", "y"]},
            "o": {"type": "string", "oneOf": [{"pattern": "a"}]},
            "l": {"type": "array", "items": {"type": "integer", "format": "int32", "minimum": 1}},
            "p": {"type": "object", "additionalProperties": {"type": "string"}},
            "metadata": {"type": "object"},
        },
    },
}


@pytest.mark.parametrize("case", PUBLISHED)
async def test_schemas_of_custom_resources_are_published_alike(both: Both, case: str):
    group = f"{both.namespace}.example.com"
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": PUBLISHED[case]}}
    names = {"kind": "Thing", "plural": "things"}
    spec = {"group": group, "names": names, "scope": "Namespaced", "versions": [version]}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for answer in await both.each("POST", path, {"metadata": {"name": f"things.{group}"}, "spec": spec}):
        assert answer.code == 201, answer.body
    name = f"com.example.{both.namespace}.v1.Thing"
    try:
        second = [await published(server, "/openapi/v2", name) for server in both.servers]
        third = [await published(server, f"/openapi/v3/apis/{group}/v1", name) for server in both.servers]
    finally:
        await both.each("DELETE", f"{path}/things.{group}")
    assert second[0] == second[1]
    assert third[0] == third[1]


async def published(server: Server, path: str, name: str) -> tuple[Any, Any]:
    """The schemas of an object and of its list, as soon as the server publishes them."""
    async with asyncio.timeout(60):
        while True:
            answer = await server.ask("GET", path)
            body = json_of(answer) if answer.code == 200 else {}
            found = body.get("definitions") or body.get("components", {}).get("schemas", {})
            if name in found:
                return found[name], found[f"{name}List"]
            await asyncio.sleep(0.2)
