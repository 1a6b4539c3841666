"""ServiceAccount tokens: given out, reviewed, used, and ended."""

import base64
import json
import ssl
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from .harness import Both, normalise

TOKEN = "/api/v1/namespaces/{ns}/serviceaccounts/default/token"
REVIEW = "/apis/authentication.k8s.io/v1/tokenreviews"


@dataclass(frozen=True)
class Bare:
    """A server for clients without credentials."""

    url: str
    ca: ssl.SSLContext


def bare_servers(both: Both) -> list[Bare]:
    """Both servers without the administrator's certificate."""
    made: list[Bare] = []
    for server in both.servers:
        connector = server.session.connector
        assert isinstance(connector, aiohttp.TCPConnector)
        given = connector._ssl
        assert isinstance(given, ssl.SSLContext)
        authorities = "".join(ssl.DER_cert_to_PEM_cert(der) for der in given.get_ca_certs(binary_form=True))
        made.append(Bare(server.url, ssl.create_default_context(cadata=authorities)))
    return made


async def ask_bare(
    url: str, ca: ssl.SSLContext, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url + path, json=body, headers=headers, ssl=ca) as answer,
    ):
        text = await answer.text()
        return answer.status, normalise(json.loads(text)) if answer.content_type == "application/json" else text


async def same_bare(both: Both, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    path = path.replace("{ns}", both.namespace)
    answers = [
        await ask_bare(server.url, server.ca, method, path, body, headers=headers) for server in bare_servers(both)
    ]
    assert answers[0] == answers[1]
    return answers[0]


def claims(token: str) -> dict[str, Any]:
    body = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))


@pytest.mark.parametrize("spec", [{}, {"expirationSeconds": 700}, {"audiences": ["a", "b"]}])
async def test_a_token_is_given(both: Both, spec: dict[str, Any]):
    await both.same("POST", TOKEN, {"spec": spec}, ignore=["status.token"])
    made = [claims(answer["status"]["token"]) for answer in await both.each("POST", TOKEN, {"spec": spec})]
    for item in made:
        item["lifetime"] = item.pop("exp") - item["iat"]
        for field in ("iat", "nbf", "jti"):
            item.pop(field)
    assert normalise(made[0]) == normalise(made[1])


@pytest.mark.parametrize(
    "body",
    [
        {"spec": {"expirationSeconds": 10}},
        {"spec": {"expirationSeconds": 2**33}},
        {"metadata": {"name": "other"}},
        {"metadata": {"namespace": "other"}},
        {"metadata": {"uid": "other"}},
        {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "nope"}}},
        {"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "nope"}}},
        {"spec": {"boundObjectRef": {"kind": "Node", "apiVersion": "v1", "name": "nope"}}},
        {"spec": {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "nope"}}},
        {"kind": "Foo", "apiVersion": "v1"},
    ],
)
async def test_a_token_is_refused_alike(both: Both, body: dict[str, Any]):
    answer = await both.same("POST", TOKEN, body)
    assert answer.code >= 400


async def test_no_token_for_an_account_that_is_not_there(both: Both):
    await both.same("POST", "/api/v1/namespaces/{ns}/serviceaccounts/nope/token", {})
    await both.same("GET", TOKEN)


async def test_a_token_bound_to_a_pod_needs_its_account_and_uid(both: Both):
    await both.each("POST", "/api/v1/namespaces/{ns}/serviceaccounts", {"metadata": {"name": "other"}})
    for name in ("default", "other"):
        spec = {"serviceAccountName": name, "containers": [{"name": "a", "image": "a"}]}
        await both.each("POST", "/api/v1/namespaces/{ns}/pods", {"metadata": {"name": f"of-{name}"}, "spec": spec})
    for name, more in (("of-default", {}), ("of-other", {}), ("of-default", {"uid": "x"})):
        bound = {"kind": "Pod", "apiVersion": "v1", "name": name, **more}
        await both.same("POST", TOKEN, {"spec": {"boundObjectRef": bound}}, ignore=["status.token"])


async def test_a_token_says_who_one_is(both: Both):
    made = await both.each("POST", TOKEN, {})
    answers = [
        await ask_bare(
            server.url,
            server.ca,
            "POST",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            {},
            headers={"Authorization": f"Bearer {answer['status']['token']}"},
        )
        for server, answer in zip(bare_servers(both), made, strict=True)
    ]
    assert answers[0] == answers[1]
    assert answers[0][1]["status"]["userInfo"]["username"] == f"system:serviceaccount:{both.namespace}:default"


@pytest.mark.parametrize(
    ("spec", "review"),
    [
        ({}, {}),
        ({"audiences": ["a", "b"]}, {"audiences": ["b", "c"]}),
        ({"audiences": ["a"]}, {}),
        ({}, {"audiences": ["x"]}),
    ],
)
async def test_a_token_review_tells_whom_a_token_stands_for(both: Both, spec: dict[str, Any], review: dict[str, Any]):
    made = await both.each("POST", TOKEN, {"spec": spec})
    answers = [
        await server.ask("POST", REVIEW, {"spec": {"token": answer["status"]["token"], **review}})
        for server, answer in zip(both.servers, made, strict=True)
    ]
    statuses = [normalise(answer["status"]) for answer in answers]
    assert statuses[0] == statuses[1]


@pytest.mark.parametrize("spec", [{"token": "bad"}, {"token": "a.b.c"}, {}, {"token": ""}])
async def test_bad_tokens_are_reviewed_alike(both: Both, spec: dict[str, Any]):
    await both.same("POST", REVIEW, {"spec": spec})


@pytest.mark.parametrize("path", ["/healthz", "/version", "/api", "/apis/apps/v1", "/api/v1/pods", "/metrics", "/"])
@pytest.mark.parametrize("header", ["", "Bearer bad", "Bearer", "Basic YTpi"])
async def test_who_shows_nothing_is_anonymous_and_who_shows_nonsense_is_nobody(both: Both, path: str, header: str):
    headers = {"Authorization": header} if header else {}
    if path == "/version":  # says when and with what a server was built
        answers = [
            (await ask_bare(server.url, server.ca, "GET", path, headers=headers))[0] for server in bare_servers(both)
        ]
        assert answers[0] == answers[1]
        return
    code, _ = await same_bare(both, "GET", path, **headers)
    assert code in (200, 401, 403)


async def test_the_issuer_tells_its_keys(both: Both):
    for answer in await both.each("GET", "/.well-known/openid-configuration"):
        assert answer["issuer"] == "https://kubernetes.default.svc.cluster.local"
        assert answer["id_token_signing_alg_values_supported"] == ["ES256"]
    embedded, real = await both.each("GET", "/openid/v1/jwks", headers={"Accept": "*/*"})
    assert embedded.content_type == real.content_type == "application/jwk-set+json"
    for body in (embedded.body, real.body):
        keys = json.loads(body)["keys"] if isinstance(body, str) else body["keys"]
        assert [sorted(key) for key in keys] == [["alg", "crv", "kid", "kty", "use", "x", "y"]]
