"""Services and their endpoints on both servers."""

import pytest

from tests.cluster.kinds import cases

from .harness import Both
from .kinds import play, sequences


@pytest.mark.parametrize("requests", sequences([*cases.SERVICES]))
async def test_services_behave_alike(both: Both, requests: list[cases.Case]):
    await play(both, requests)


async def test_endpoints_are_deleted_with_their_service(both: Both) -> None:
    services, endpoints = (f"/api/v1/namespaces/{{ns}}/{plural}" for plural in ("services", "endpoints"))
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    await both.each("POST", services, service)
    for name in ("web", "other"):
        await both.same("POST", endpoints, {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name}})
    await both.each("DELETE", f"{services}/web?dryRun=All")
    assert (await both.same("GET", f"{endpoints}/web")).code == 200
    await both.each("DELETE", f"{services}/web")
    assert (await both.same("GET", f"{endpoints}/web")).code == 404
    assert (await both.same("GET", f"{endpoints}/other")).code == 200
