"""A local run changes `spec.conversion` of a CRD for its duration, and restores the value and its field manager."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from steersman.cli.installation.apply_set import ApplySet
from steersman.client import Client
from steersman.client.config import load_config
from steersman.manifests import crds
from steersman.models import Model, Resource
from steersman.operator import Operator
from steersman.pki import Authority
from steersman.webhook.registration import Registration

both = pytest.mark.parametrize("server", ["embedded", pytest.param("real", marks=pytest.mark.realcluster)])
pytestmark = both

GROUP = "owned.steersman.dev"
NAME = f"pipes.{GROUP}"
PATH = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{NAME}"


class PipeSpec(Model):
    length: int = 0


class Pipe(Resource, group=GROUP, version="v2"):
    spec: PipeSpec = PipeSpec()


class PipeV1(Resource, group=GROUP, version="v1", kind="Pipe", storage=False):
    spec: PipeSpec = PipeSpec()


def pipes():
    app = Operator("pipes")

    @app.converter
    def up(old: PipeV1) -> Pipe:
        return Pipe(metadata=old.metadata, spec=old.spec)

    @app.converter
    def down(new: Pipe) -> PipeV1:
        return PipeV1(metadata=new.metadata, spec=new.spec)

    return app


@pytest.fixture
def definition(cluster):
    """The CRD as `deploy` applies it; it is removed after the test."""
    (crd,) = crds(pipes())
    yield crd
    cluster.delete("crd", NAME)
    cluster.wait("crd", NAME, "deleted")


@pytest.fixture(scope="module")
def certificate():
    return Authority.create("tests").cert_pem


def without_conversion(crd):
    return {**crd, "spec": {key: value for key, value in crd["spec"].items() if key != "conversion"}}


@asynccontextmanager
async def connected(cluster):
    async with Client(load_config(cluster.kubeconfig)) as client:
        yield client


async def applied(client, crd, **options):
    """As `install` and `deploy` apply it; raises for a conflict."""
    return [done async for done in ApplySet(client, "", "", **options).apply_loosely([crd])]


async def read(client):
    return json.loads((await client.raw.request("GET", PATH)).body)


def owners(crd):
    """The field managers of the parts of `spec.conversion`."""
    found = {}
    for entry in crd["metadata"]["managedFields"]:
        conversion = entry["fieldsV1"].get("f:spec", {}).get("f:conversion")
        if conversion is not None:
            found[entry["manager"], entry["operation"], entry.get("subresource", "")] = conversion
    return found


def run_of(client, certificate, port=9443):
    return Registration(client, pipes(), f"https://127.0.0.1:{port}", certificate)


def test_deploy_after_install_and_a_local_run_meets_no_conflict(server, cluster, definition, certificate):
    async def road():
        async with connected(cluster) as client:
            await applied(client, without_conversion(definition))
            local = run_of(client, certificate)
            await local.add()
            assert (await read(client))["spec"]["conversion"]["strategy"] == "Webhook"
            await local.remove()
            after = await read(client)
            assert after["spec"]["conversion"] == {"strategy": "None"}
            assert owners(after) == {}
            await applied(client, definition)
            return await read(client)

    deployed = asyncio.run(road())
    assert deployed["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["name"] == "pipes-webhook"
    assert list(owners(deployed)) == [("steersman", "Apply", "")]


def test_a_local_run_beside_a_deployed_operator_gives_back_value_and_owners(server, cluster, definition, certificate):
    async def road():
        async with connected(cluster) as client:
            await applied(client, definition)
            before = await read(client)
            local = run_of(client, certificate)
            await local.add()
            assert "url" in (await read(client))["spec"]["conversion"]["webhook"]["clientConfig"]
            await local.remove()
            after = await read(client)
            assert after["spec"]["conversion"] == before["spec"]["conversion"]
            assert owners(after) == owners(before)
            assert after["metadata"].get("annotations") == before["metadata"].get("annotations")
            return await applied(client, definition)

    assert [done.action for done in asyncio.run(road())] == ["unchanged"]


def test_deploy_takes_over_from_a_run_that_was_killed(server, cluster, definition, certificate):
    async def road():
        async with connected(cluster) as client:
            await applied(client, without_conversion(definition))
            await run_of(client, certificate, port=1).add()  # and no remove
            checked = await applied(client, definition, dry_run=True)
            await applied(client, definition)
            return checked, await read(client)

    checked, deployed = asyncio.run(road())
    assert "local run" in checked[0].note
    assert "url" not in deployed["spec"]["conversion"]["webhook"]["clientConfig"]
    assert list(owners(deployed)) == [("steersman", "Apply", "")]


def test_the_next_run_gives_back_what_a_killed_run_found(server, cluster, definition, certificate):
    async def road():
        async with connected(cluster) as client:
            await applied(client, definition)
            before = await read(client)
            await run_of(client, certificate, port=1).add()  # and no remove
            local = run_of(client, certificate)
            await local.add()
            await local.remove()
            return before, await read(client)

    before, after = asyncio.run(road())
    assert after["spec"]["conversion"] == before["spec"]["conversion"]
    assert owners(after) == owners(before)


def test_a_run_that_ends_leaves_the_conversion_of_another_run(server, cluster, definition, certificate):
    async def road():
        async with connected(cluster) as client:
            await applied(client, definition)
            before = await read(client)
            with_listener = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
            async with with_listener:
                port = with_listener.sockets[0].getsockname()[1]
                first, second = run_of(client, certificate, port), run_of(client, certificate, port=2)
                await first.add()
                await second.add()
                await second.remove()
                between = await read(client)
                await first.remove()
            return port, before, between, await read(client)

    port, before, between, after = asyncio.run(road())
    assert between["spec"]["conversion"]["webhook"]["clientConfig"]["url"] == f"https://127.0.0.1:{port}/convert"
    assert after["spec"]["conversion"] == before["spec"]["conversion"]
    assert owners(after) == owners(before)
