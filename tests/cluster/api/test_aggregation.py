"""Aggregated API servers: a real HTTPS server behind an APIService, and what clients of this server see of it."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from aiohttp import web

from steersman.pki import Authority, as_file
from steersman_cluster.api.discovery.aggregated_openapi import document_place
from steersman_cluster.api.requests.messages import Params, Request
from steersman_cluster.cluster import DevCluster, Options
from steersman_cluster.strategy import User

from .direct import Headers

SERVICE = ("apps", "wardle")
NAME = f"{SERVICE[1]}.{SERVICE[0]}.svc"
GROUP = "wardle.example.com"
USER = User("jane doe", groups=("system:masters", "developers"), extra={"example.com/team": ("a",)})
RESOURCES = [
    {"name": "flunders", "singularName": "flunder", "namespaced": True, "kind": "Flunder", "verbs": ["get", "list"]},
    {"name": "flunders/status", "singularName": "", "namespaced": True, "kind": "Flunder", "verbs": ["get"]},
]


class Wardle:
    """An aggregated API server whose responses repeat the request; it trusts only the certificate of the cluster."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        self.requests: list[web.Request] = []
        self.healthy = True
        self.documents: dict[str, Any] = {}

    async def answer(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        if not self.healthy:
            return web.Response(status=500)
        if request.path == f"/apis/{GROUP}/v1":
            listed = {"kind": "APIResourceList", "groupVersion": f"{GROUP}/v1", "resources": RESOURCES}
            return web.json_response(listed)
        if request.path in self.documents:
            return web.json_response(self.documents[request.path])
        said = {"method": request.method, "path": request.path_qs, "body": await request.text()}
        return web.json_response(said, status=201 if request.method == "POST" else 200)

    @asynccontextmanager
    async def served(self, trusted: str) -> AsyncIterator[int]:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=trusted)
        context.verify_mode = ssl.CERT_REQUIRED
        pair = self.authority.serving(NAME, [NAME])
        with as_file(pair.cert_pem + pair.key_pem) as path:
            context.load_cert_chain(path)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        try:
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()


class Place:
    """A cluster in front of an aggregated server, asked as a user in several groups."""

    def __init__(self, cluster: DevCluster, wardle: Wardle) -> None:
        self.cluster, self.wardle = cluster, wardle

    async def send(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        found = Headers({"content-type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}})
        data = b"" if body is None else json.dumps(body).encode()
        path, _, query = path.partition("?")
        request = Request(method, path, Params(parse_qsl(query)), found, data, USER, query=query)
        response = await self.cluster.server.handle(request)
        chunks = [response.body] if response.stream is None else [chunk async for chunk in response.stream]
        text = b"".join(chunks)
        return response.status, json.loads(text) if response.content_type.startswith("application/json") else text

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        status, answer = await self.send(method, path, body, **headers)
        assert status < 300, answer
        return answer

    async def until(self, path: str, holds: Callable[[Any], bool]) -> Any:
        async with asyncio.timeout(30):
            while True:
                if holds(found := await self.ask("GET", path)):
                    return found
                await asyncio.sleep(0.02)

    async def register(self, **fields: Any) -> None:
        bundle = base64.b64encode(self.wardle.authority.cert_pem).decode()
        service = {"namespace": SERVICE[0], "name": SERVICE[1]}
        spec = {"group": GROUP, "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1, "service": service}
        body = {"metadata": {"name": f"v1.{GROUP}"}, "spec": {**spec, "caBundle": bundle, **fields}}
        await self.ask("POST", SERVICES, body)


SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


def available(service: Any) -> dict[str, Any]:
    conditions = service.get("status", {}).get("conditions") or [{}]
    return conditions[0]


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    options = Options(controllers=False, nodes=0)
    async with DevCluster.start(options) as cluster:
        place = Place(cluster, Wardle(Authority.create("wardle")))
        trusted = (await place.ask("GET", CONFIG_MAP))["data"]["requestheader-client-ca-file"]
        async with place.wardle.served(trusted) as port:
            cluster.server.admission.caller.services[SERVICE] = ("127.0.0.1", port)
            yield place


async def test_requests_to_an_aggregated_group_are_forwarded_with_the_user(place: Place) -> None:
    await place.register()
    path = f"/apis/{GROUP}/v1/namespaces/default/flunders"
    answer = await place.ask("POST", f"{path}?dryRun=All", {"kind": "Flunder"})
    assert (answer["method"], answer["path"]) == ("POST", f"{path}?dryRun=All")
    assert json.loads(answer["body"]) == {"kind": "Flunder"}
    request = next(r for r in place.wardle.requests if r.method == "POST")
    assert request.headers["X-Remote-User"] == "jane doe"
    assert request.headers.getall("X-Remote-Group") == ["system:masters", "developers"]
    assert request.headers["X-Remote-Extra-example.com%2Fteam"] == "a"
    assert "Authorization" not in request.headers
    subject = dict(part[0] for part in request.transport.get_extra_info("peercert")["subject"])  # type: ignore[union-attr]
    assert subject["commonName"] == "front-proxy-client"


async def test_a_client_cannot_choose_the_user_that_is_forwarded(place: Place) -> None:
    await place.register()
    headers = {"x_remote_user": "root", "x_remote_group": "wheel", "x_remote_extra_a": "b"}
    await place.ask("GET", f"/apis/{GROUP}/v1/flunders", authorization="Bearer secret", **headers)
    request = next(r for r in place.wardle.requests if r.path.endswith("flunders"))
    assert request.headers.getall("X-Remote-User") == ["jane doe"]
    assert "wheel" not in request.headers.getall("X-Remote-Group")
    assert "X-Remote-Extra-A" not in request.headers
    assert "Authorization" not in request.headers


async def test_an_available_server_is_part_of_the_discovery(place: Place) -> None:
    await place.register()
    service = await place.until(f"{SERVICES}/v1.{GROUP}", lambda s: available(s).get("status") == "True")
    assert available(service)["message"] == "all checks passed"
    assert GROUP in [group["name"] for group in (await place.ask("GET", "/apis"))["groups"]]
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    groups = (await place.ask("GET", "/apis", accept=accept))["items"]
    (version,) = next(group["versions"] for group in groups if group["metadata"]["name"] == GROUP)
    (resource,) = version["resources"]
    assert (resource["resource"], resource["scope"], resource["verbs"]) == ("flunders", "Namespaced", ["get", "list"])
    assert [one["subresource"] for one in resource["subresources"]] == ["status"]


async def test_a_server_that_fails_its_check_is_unavailable_and_leaves_the_discovery(place: Place) -> None:
    place.wardle.healthy = False
    await place.register()
    service = await place.until(f"{SERVICES}/v1.{GROUP}", lambda s: available(s).get("status") == "False")
    assert available(service)["reason"] == "FailedDiscoveryCheck"
    assert GROUP not in [group["name"] for group in (await place.ask("GET", "/apis"))["groups"]]
    place.wardle.healthy = True
    await place.until(f"{SERVICES}/v1.{GROUP}", lambda s: available(s).get("status") == "True")


async def test_a_server_with_a_certificate_of_another_authority_is_not_trusted(place: Place) -> None:
    other = Authority.create("other").cert_pem
    await place.register(caBundle=base64.b64encode(other).decode())
    status, refusal = await place.send("GET", f"/apis/{GROUP}/v1/flunders")
    assert (status, refusal["reason"]) == (503, "ServiceUnavailable")
    assert refusal["message"].startswith("error trying to reach service: ")
    assert place.wardle.requests == []


async def test_a_service_without_endpoints_is_unavailable(place: Place) -> None:
    await place.register(service={"namespace": "apps", "name": "missing"})
    status, refusal = await place.send("GET", f"/apis/{GROUP}/v1/flunders")
    assert (status, refusal["message"]) == (503, 'error trying to reach service: service "missing" not found')


async def test_a_deleted_apiservice_ends_the_forwarding(place: Place) -> None:
    await place.register()
    await place.until(f"{SERVICES}/v1.{GROUP}", lambda s: available(s).get("status") == "True")
    await place.ask("DELETE", f"{SERVICES}/v1.{GROUP}")
    assert (await place.send("GET", f"/apis/{GROUP}/v1/flunders"))[0] == 404
    assert GROUP not in [group["name"] for group in (await place.ask("GET", "/apis"))["groups"]]


async def test_users_are_named_with_a_certificate_of_an_authority_of_its_own(place: Place) -> None:
    data = (await place.ask("GET", CONFIG_MAP))["data"]
    assert data["client-ca-file"] == place.cluster.authority.cert_pem.decode()
    assert data["requestheader-client-ca-file"] != data["client-ca-file"]


async def test_the_authority_of_the_front_proxy_outlives_a_restart(tmp_path: Path) -> None:
    found: list[str] = []
    for _ in range(2):
        async with DevCluster.start(Options(controllers=False, nodes=0, data=tmp_path)) as cluster:
            place = Place(cluster, Wardle(Authority.create("wardle")))
            found.append((await place.ask("GET", CONFIG_MAP))["data"]["requestheader-client-ca-file"])
    assert found[0] == found[1]


def flunder_document() -> dict[str, Any]:
    flunder = {"type": "object", "description": "A flunder.", "properties": {"kind": {"type": "string"}}}
    reference = {"schema": {"$ref": "#/components/schemas/com.example.wardle.v1.Flunder"}}
    get = {"responses": {"200": {"description": "OK", "content": {"application/json": reference}}}}
    status = {"type": "object", "description": "Another status."}
    return {
        "openapi": "3.0.0",
        "paths": {f"/apis/{GROUP}/v1/namespaces/{{namespace}}/flunders/{{name}}": {"get": get}},
        "components": {
            "schemas": {"com.example.wardle.v1.Flunder": flunder, "io.k8s.apimachinery.pkg.apis.meta.v1.Status": status}
        },
    }


async def test_the_documents_of_an_aggregated_server_are_merged_into_openapi(place: Place) -> None:
    where, query = f"/openapi/v3/apis/{GROUP}/v1", "?hash=AB"
    document = flunder_document()
    place.wardle.documents = {
        "/openapi/v3": {"paths": {f"apis/{GROUP}/v1": {"serverRelativeURL": f"{where}{query}"}}},
        where: document,
    }
    await place.register()
    index = await place.until("/openapi/v3", lambda found: f"apis/{GROUP}/v1" in found["paths"])
    address = index["paths"][f"apis/{GROUP}/v1"]["serverRelativeURL"]
    assert await place.ask("GET", address) == document
    second = await place.ask("GET", "/openapi/v2")
    assert second["definitions"]["com.example.wardle.v1.Flunder"]["description"] == "A flunder."
    path = f"/apis/{GROUP}/v1/namespaces/{{namespace}}/flunders/{{name}}"
    schema = second["paths"][path]["get"]["responses"]["200"]["schema"]
    assert schema == {"$ref": "#/definitions/com.example.wardle.v1.Flunder"}
    name = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
    assert second["definitions"][name]["description"] != "Another status."
    assert second["definitions"][f"{name}_v2"]["description"] == "Another status."
    place.wardle.healthy = False
    await place.ask("DELETE", f"{SERVICES}/v1.{GROUP}")
    await place.until("/openapi/v3", lambda found: f"apis/{GROUP}/v1" not in found["paths"])
    assert "com.example.wardle.v1.Flunder" not in (await place.ask("GET", "/openapi/v2"))["definitions"]


@pytest.mark.parametrize(
    "document",
    [
        [],
        {"paths": []},
        {"paths": {"/a": 1}},
        {"paths": {}, "components": {"schemas": {"a": 1}}},
        {"paths": {"/a": {"get": {"responses": 7}}}},
        {"paths": {"/a": {"get": {"parameters": [3]}}}},
    ],
)
async def test_an_invalid_document_of_an_aggregated_server_does_not_break_openapi(place: Place, document: Any) -> None:
    where = f"/openapi/v3/apis/{GROUP}/v1"
    index = {"paths": {f"apis/{GROUP}/v1": {"serverRelativeURL": where}}}
    place.wardle.documents = {"/openapi/v3": index, where: document}
    await place.register()
    await place.until(SERVICES + f"/v1.{GROUP}", lambda found: available(found).get("status") == "True")
    await place.until("/apis", lambda found: any(group["name"] == GROUP for group in found["groups"]))
    second = await place.ask("GET", "/openapi/v2")
    assert "io.k8s.api.core.v1.Pod" in second["definitions"]
    assert "/a" not in second["paths"]


@pytest.mark.parametrize("address", ["https://elsewhere.example/openapi/v3/a", "/apis/secret", "//host/openapi/v3/a"])
def test_a_document_is_fetched_from_the_paths_of_documents_only(address: str) -> None:
    index = json.dumps({"paths": {"apis/g/v1": {"serverRelativeURL": address}}}).encode()
    with pytest.raises(ValueError, match="outside of /openapi/v3/"):
        document_place(index, "g", "v1")
