"""The objects by which clients in a cluster find the API server."""

import asyncio
import json

from .direct import Direct

SERVICE = "/api/v1/namespaces/default/services/kubernetes"
ENDPOINTS = "/api/v1/namespaces/default/endpoints/kubernetes"
SLICE = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
RANGE = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes"


async def read(direct, path):
    answer = await direct.ask("GET", path)
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


async def test_the_endpoints_of_the_api_server_have_its_address():
    direct = Direct()
    direct.api.kubernetes.publish("0.0.0.0", 7443)
    ports = [{"name": "https", "port": 7443, "protocol": "TCP"}]
    endpoints = await read(direct, ENDPOINTS)
    assert endpoints["subsets"] == [{"addresses": [{"ip": "127.0.0.1"}], "ports": ports}]
    assert endpoints["metadata"]["labels"] == {"endpointslice.kubernetes.io/skip-mirror": "true"}
    found = await read(direct, SLICE)
    assert found["addressType"] == "IPv4"
    assert found["endpoints"] == [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}]
    assert found["ports"] == ports
    assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "kubernetes"
    assert (await read(direct, SERVICE))["spec"]["ports"][0]["targetPort"] == 7443


async def test_an_unchanged_address_writes_nothing():
    direct = Direct()
    direct.api.kubernetes.publish("127.0.0.1", 7443)
    before = [(await read(direct, path))["metadata"]["resourceVersion"] for path in (SERVICE, ENDPOINTS, SLICE)]
    direct.api.kubernetes.publish("localhost", 7443)
    after = [(await read(direct, path))["metadata"]["resourceVersion"] for path in (SERVICE, ENDPOINTS, SLICE)]
    assert before == after


async def test_deleted_objects_are_restored():
    direct = Direct()
    for path in (SERVICE, ENDPOINTS, SLICE):
        before = (await read(direct, path))["metadata"]["uid"]
        assert (await direct.ask("DELETE", path)).status == 200
        await asyncio.sleep(0)
        assert (await read(direct, path))["metadata"]["uid"] != before


async def test_the_range_of_services_is_an_object_that_is_ready():
    found = await read(Direct(), RANGE)
    (condition,) = found["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Ready", "True")
    service = await read(Direct(), SERVICE)
    assert found["spec"]["cidrs"] == ["10.0.0.0/16"]
    assert service["spec"]["clusterIP"] == "10.0.0.1"
