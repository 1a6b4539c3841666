"""Media types, both ways: accepted types, and the types and forms of responses. Both servers alike."""

import json
from typing import Any

import pytest
import yaml

from steersman_cluster.protobuf import MEDIA_TYPE, decode, encode

from .harness import Answer, Both, compare
from .steps import CONFIG_MAPS, DEPLOYMENTS, PODS, config_map, deployment, play, pod

MAP = f"{CONFIG_MAPS}/web"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIALS = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
IGNORED = ("columnDefinitions.*.description", "metadata.managedFields", "items.*.metadata.managedFields")

ACCEPTS = [
    "", "*/*", "application/*", "application/json", "application/json;q=0.5", "application/json; charset=utf-8",
    "APPLICATION/JSON", "text/html", "text/html,*/*", "text/html, application/json", "application/yaml", "text/yaml",
    "application/x-yaml", "application/json;as=Table", "application/json;as=Table;v=v1",
    "application/json;as=Nope;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io", "application/json;as=Table;v=v2;g=meta.k8s.io",
    "application/json;as=Table;v=v1;g=example.com", TABLE, PARTIAL, PARTIALS, f"{TABLE},application/json",
    f"{PARTIAL},application/json", "application/json;as=Table;v=v2;g=meta.k8s.io,application/json",
    "application/json;stream=watch",
    "application/cbor", "application/cbor,application/json", "nonsense", "application/json;;", ";", ",",
    "application/json,",
    "application/yaml;q=0.1,application/json;q=0.9", "application/json;q=0.1,application/yaml;q=0.9", "image/png;q=1",
]  # fmt: skip


def plain(answer: Answer) -> Answer:
    """The answer with its body as an object, whatever its media type."""
    body = answer.body
    if answer.content_type == "application/yaml":
        body = yaml.load(body, Loader=yaml.BaseLoader)
    return Answer(answer.code, body, answer.warnings, answer.content_type, answer.headers)


@pytest.mark.parametrize("accept", ACCEPTS)
async def test_accept(both: Both, accept: str):
    await both.each("POST", CONFIG_MAPS, config_map(data={"a": "1"}))
    for path in (MAP, CONFIG_MAPS):
        embedded, real = await both.each("GET", path, headers={"Accept": accept})
        if embedded.content_type == "application/yaml":
            assert (embedded.code, embedded.content_type) == (real.code, real.content_type)
            assert set(plain(embedded).body) == set(plain(real).body)
        else:
            compare(f"{accept} {path}", embedded, real, IGNORED)


@pytest.mark.parametrize("accept", [TABLE, PARTIAL, f"{PARTIAL},application/json", PARTIALS])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "GET missing", "DELETE all"])
async def test_answers_of_writes_have_forms(both: Both, method: str, accept: str):
    if method != "POST":
        await both.each("POST", CONFIG_MAPS, config_map())
    verb, _, more = method.partition(" ")
    path = CONFIG_MAPS if method in ("POST", "DELETE all") else f"{CONFIG_MAPS}/nope" if more == "missing" else MAP
    body = config_map() if verb in ("POST", "PUT") else None
    await both.same(verb, path, body, headers={"Accept": accept}, ignore=("columnDefinitions.*.description",))


CONTENT_TYPES = [
    "application/json", "application/json; charset=utf-8", "APPLICATION/JSON", "application/yaml", "text/plain",
    "application/xml",
    "application/merge-patch+json", "application/vnd.kubernetes.protobuf", "application/cbor", "text/yaml", "*/*",
    "nonsense",
]  # fmt: skip


@pytest.mark.parametrize("kind", CONTENT_TYPES)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_content_types(both: Both, method: str, kind: str):
    await both.each("POST", CONFIG_MAPS, config_map())
    path = CONFIG_MAPS if method == "POST" else MAP
    body: Any = {"POST": config_map("b"), "PUT": config_map(), "PATCH": {"data": {"a": "1"}}, "DELETE": {}}[method]
    ignore = ("message",) if "protobuf" in kind else ()
    await both.same(method, path, json.dumps(body), content_type=kind, ignore=ignore)


YAMLS = [
    "metadata:\n  name: web\ndata:\n  a: '1'\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: b}\n",
    "metadata:\n  name: web\ndata:\n  a: 1\n",
    "metadata:\n  name: web\ndata:\n  1: a\n  true: b\n",
    "metadata:\n  name: web\n  labels:\n    a: yes\n",
    "metadata:\n  name: web\n  annotations: {d: 2020-01-01}\n",
    "metadata:\n  name: web\nunknown: 1\n",
    "---\nmetadata:\n  name: web\n",
    '{"metadata": {"name": "web"}}',
    "metadata: &m\n  name: web\n",
    "kind: Secret\nmetadata:\n  name: web\n",
    "metadata:\n  name: web\ndata: |\n  text\n",
    "- a\n- b\n",
    "5",
    "null",
]


@pytest.mark.parametrize("text", YAMLS, ids=range(len(YAMLS)))
async def test_bodies_of_yaml(both: Both, text: str):
    await both.same("POST", CONFIG_MAPS, text, content_type="application/yaml")


OBJECTS = {
    "config map": (CONFIG_MAPS, config_map(data={"a": "1", "b": ""}, labels={"x": "y"}, annotations={"n": "m"})),
    "pod": (PODS, pod(spec={"nodeSelector": {"a": "b"}, "terminationGracePeriodSeconds": 5, "hostNetwork": True})),
    "deployment": (DEPLOYMENTS, deployment(spec={"replicas": 3, "strategy": {"rollingUpdate": {"maxSurge": "25%"}}})),
    "service": (
        "/api/v1/namespaces/{ns}/services",
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
         "spec": {"clusterIP": "None", "ports": [{"port": 80, "targetPort": "http"}], "selector": {"a": "b"}}},
    ),
    "secret": (
        "/api/v1/namespaces/{ns}/secrets",
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web"}, "data": {"a": "aGVsbG8="}},
    ),
    "lease": (
        "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "web"},
         "spec": {"holderIdentity": "me", "renewTime": "2020-01-01T00:00:00.123456Z", "leaseTransitions": 0}},
    ),
    "lease of the year 1": (
        "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "web"},
         "spec": {"holderIdentity": "me", "renewTime": "0001-01-01T00:00:01.500000Z"}},
    ),
    "lease of the year 900": (
        "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "web"},
         "spec": {"holderIdentity": "me", "renewTime": "0900-02-03T04:05:06.000000Z"}},
    ),
    "role": (
        "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles",
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "web"},
         "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]},
    ),
    "disruption budget": (
        "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets",
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
         "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OBJECTS)
async def test_bodies_and_answers_of_protobuf(both: Both, name: str):
    path, obj = OBJECTS[name]
    await both.same("POST", path, encode(both._fill(obj)), content_type=MEDIA_TYPE)
    for where in (f"{path}/web", path):
        where = where.replace("{ns}", both.namespace)
        bodies: list[Answer] = []
        for server in both.servers:
            async with server.session.get(server.url + where, headers={"Accept": MEDIA_TYPE}) as answer:
                assert answer.content_type == MEDIA_TYPE, server.name
                bodies.append(Answer(answer.status, decode(await answer.read())))
        compare(where, *bodies)


async def test_a_refusal_may_be_protobuf(both: Both):
    for server in both.servers:
        path = f"{server.url}/api/v1/namespaces/{both.namespace}/configmaps/nope"
        async with server.session.get(path, headers={"Accept": MEDIA_TYPE}) as answer:
            assert (answer.status, answer.content_type) == (404, MEDIA_TYPE), server.name
            assert decode(await answer.read())["reason"] == "NotFound"


async def test_broken_protobuf_is_refused(both: Both):
    for body in (b"", b"k8s\0", b"k8s\0\xff\xff\xff", b"\x00\x01\x02", b"k8s\0" + b"\x08" * 40):
        embedded, real = await both.each("POST", CONFIG_MAPS, body, content_type=MEDIA_TYPE)
        assert embedded.code == real.code == 400, (body, embedded.body, real.body)


@pytest.mark.parametrize("query", ["pretty=true", "pretty=1", "pretty=false", "pretty=x", "pretty="])
async def test_pretty_answers_say_the_same(both: Both, query: str):
    await play(both, ("POST", f"{CONFIG_MAPS}?{query}", config_map()), ("GET", f"{MAP}?{query}"))
    await play(both, ("GET", f"{CONFIG_MAPS}?{query}"), ("GET", f"{CONFIG_MAPS}/nope?{query}"))


async def test_pretty_answers_have_lines(both: Both):
    await both.each("POST", CONFIG_MAPS, config_map())
    for server in both.servers:
        path = f"{server.url}{MAP}?pretty=true".replace("{ns}", both.namespace)
        async with server.session.get(path) as answer:
            assert (await answer.text()).startswith('{\n  "kind": "ConfigMap",\n'), server.name


async def test_browsers_get_lines_by_themselves(both: Both):
    await both.each("POST", CONFIG_MAPS, config_map())
    for agent in ("Mozilla/5.0", "curl/8.0", "Wget/1.2"):
        for server in both.servers:
            path = f"{server.url}{MAP}".replace("{ns}", both.namespace)
            async with server.session.get(path, headers={"User-Agent": agent}) as answer:
                assert (await answer.text()).startswith('{\n  "kind"'), server.name


REVIEWS = "/apis/authorization.k8s.io/v1"
WITHOUT_TABLES: dict[str, tuple[str, str, Any]] = {
    "access review": ("POST", f"{REVIEWS}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": {"verb": "get"}}}),
    "rules review": ("POST", f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}),
    "subject review": ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}),
    "token review": ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "a"}}),
    "token": ("POST", "/api/v1/namespaces/{ns}/serviceaccounts/default/token", {}),
    "eviction": ("POST", f"{PODS}/web/eviction?dryRun=All", {"metadata": {"name": "web"}}),
    "ephemeral containers": ("GET", f"{PODS}/web/ephemeralcontainers", None),
    "scale, which has one": ("GET", f"{DEPLOYMENTS}/web/scale", None),
}
VOLATILE = (
    "columnDefinitions.*.description", "metadata.managedFields", "rows.*.cells", "status", "spec", "message",
)  # fmt: skip


@pytest.mark.parametrize("accept", [TABLE, PARTIAL, PARTIALS, f"{TABLE},application/json"])
@pytest.mark.parametrize("name", WITHOUT_TABLES)
async def test_kinds_without_a_table_refuse_to_be_one(both: Both, name: str, accept: str):
    await both.each("POST", PODS, pod())
    await both.each("POST", DEPLOYMENTS, deployment())
    method, path, body = WITHOUT_TABLES[name]
    answer = await both.same(method, path, body, headers={"Accept": accept}, ignore=VOLATILE)
    if accept == TABLE:
        assert (answer.code == 200) is (name == "scale, which has one")
