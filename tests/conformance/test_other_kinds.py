"""Webhooks, networking, nodes and the rarer kinds on both servers."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.cluster.kinds import cases

from .harness import Both
from .kinds import play, sequences
from .steps import PODS

HOOKS = "/apis/admissionregistration.k8s.io/v1"


@pytest.fixture
async def unhooked(both: Both) -> AsyncIterator[None]:
    """Deletes the webhooks of a test, which have no server, and waits until the API server does not call them."""
    yield
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        await both.each("DELETE", f"{HOOKS}/{kind}")
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    async with asyncio.timeout(90):
        while any(answer.code == 500 for answer in await both.each("POST", f"{PODS}?dryRun=All", body)):  # noqa: ASYNC110
            await asyncio.sleep(0.1)


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("requests", sequences([*cases.HOOK_CASES, *cases.NETWORK, *cases.REST]))
async def test_rarer_kinds_behave_alike(both: Both, requests: list[cases.Case]):
    await play(both, requests)


@pytest.mark.parametrize(
    "name",
    [
        "1.2.3.4", "01.2.3.4", "1.2.3", "2001:db8::1", "2001:DB8::1", "2001:db8:0::1", "::", "::ffff:1.2.3.4",
        "2001-db8--1", "fe80::1%25eth0", "1::2:0:0:3", "1:0:2:3:4:5:6:7", "web",
    ],
)  # fmt: skip
async def test_addresses_are_named_by_their_canonical_form(both: Both, name: str):
    parent = {"resource": "services", "namespace": "default", "name": "web"}
    path = "/apis/networking.k8s.io/v1/ipaddresses"
    answer = await both.same("POST", path, {"metadata": {"name": name}, "spec": {"parentRef": parent}})
    if answer.code == 201:
        await both.same("GET", f"{path}/{name}")
        await both.each("DELETE", f"{path}/{name}")


async def test_the_components_of_the_control_plane_have_a_status(both: Both):
    path = "/api/v1/componentstatuses"
    # The scheduler and the controller manager of the real server do not run here, hence only etcd says the same.
    await both.same("GET", f"{path}/etcd-0")
    await both.same("GET", f"{path}/nope")
    await both.same("GET", f"{path}?fieldSelector=metadata.name%3Detcd-0")
    await both.same("GET", f"{path}?labelSelector=a%3Db")
    await both.same("GET", f"{path}?watch=1")
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    await both.same("GET", f"{path}/etcd-0", headers=table, ignore=("columnDefinitions.*.description",))
    for answer in await both.each("GET", path):
        assert {item["metadata"]["name"] for item in answer["items"]} == {"controller-manager", "scheduler", "etcd-0"}
        assert answer["metadata"] == {}
