"""The cache on a real kube-apiserver: what no fake can promise."""

import asyncio
import contextlib
import json
import random

import pytest
from cache_clusters import until

from steersman.cache import Cache, SyncTimeoutError
from steersman.client import Client
from steersman.client.config import load_config
from steersman.models import Dynamic, Key, dynamic
from steersman.testing import ControlPlane

pytestmark = pytest.mark.realcluster

CONFIG_MAP = dynamic("v1", "ConfigMap")


@pytest.fixture(scope="module")
def plane():
    from steersman.testing import available

    if (reason := available()) is not None:
        pytest.skip(reason)
    with ControlPlane.start(controller_manager=False, scheduler=False) as plane:
        yield plane


@contextlib.asynccontextmanager
async def watching(plane, kind, **declaration):
    async with Client(load_config(plane.kubeconfig)) as client:
        cache = Cache(client, rng=random.Random(1))
        informer = cache.informer(kind, **declaration)
        changes = []
        informer.add_handler(changes.append)
        await cache.start()
        try:
            yield client, cache, informer, changes
        finally:
            await cache.close()


def config_map(name, namespace, **data):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {k: str(v) for k, v in data.items()},
    }


def definition(plural, kind):
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.cache.example.com"},
        "spec": {
            "group": "cache.example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                        }
                    },
                }
            ],
        },
    }


async def kubectl(plane, *arguments, **options):
    return await asyncio.to_thread(plane.kubectl, *arguments, **options)


async def apply(plane, *objects):
    text = "\n---\n".join(json.dumps(o) for o in objects)
    await kubectl(plane, "apply", "--server-side", "-f", "-", input=text)


def fresh_namespace(plane, name):
    plane.create_namespace(name)
    return name


async def test_a_watch_list_syncs_and_follows_every_change(plane):
    """W2: on a real server, with bookmarks, U+0085, and no managedFields kept (C4)."""
    space = await asyncio.to_thread(fresh_namespace, plane, "follows")
    await apply(plane, *(config_map(f"c{n}", space, value=n) for n in range(30) if n != 7))
    async with Client(load_config(plane.kubeconfig)) as writer:  # an apply is read as YAML, which folds line ends
        await writer.create(Dynamic(config_map("c7", space, value="a\u0085b\u20287")))
    async with watching(plane, CONFIG_MAP, namespace=space) as (_, cache, informer, changes):
        await cache.wait_synced(20)
        assert len(informer) == 30
        assert {c.type for c in changes} == {"add"}
        cached = cache.get(CONFIG_MAP, Key(space, "c7"))
        assert cached["data"]["value"] == "a\u0085b\u20287"
        assert cached.kind == "ConfigMap"
        assert "managedFields" not in cached["metadata"]
        changes.clear()
        await kubectl(plane, "patch", "configmap", "c7", "-n", space, "--type=merge", "-p", '{"data":{"value":"new"}}')
        await kubectl(plane, "delete", "configmap", "c8", "-n", space)
        await apply(plane, config_map("late", space, value="x" * 600_000))
        await until(lambda: len(changes) == 3)
        assert [f"{c.type} {c.key.name}" for c in changes] == ["update c7", "delete c8", "add late"]
        assert informer.get(Key(space, "late")).size > 600_000
        assert informer.problem == ""


async def test_paged_lists_give_the_same_content(plane):
    """W2: the fall-back, page by page, on a real server."""
    space = await asyncio.to_thread(fresh_namespace, plane, "pages")
    for part in range(3):
        await apply(plane, *(config_map(f"c{part}-{n:03}", space, value=n) for n in range(220)))
    async with Client(load_config(plane.kubeconfig)) as client:
        cache = Cache(client, rng=random.Random(1))
        cache._server.watch_list = False
        informer = cache.informer(CONFIG_MAP, namespace=space)
        await cache.start()
        try:
            await cache.wait_synced(20)
            assert len(informer) == 660
            assert cache.get(CONFIG_MAP, Key(space, "c2-219")).kind == "ConfigMap"
            await apply(plane, config_map("more", space))
            await until(lambda: informer.get(Key(space, "more")) is not None)
        finally:
            await cache.close()


async def test_a_definition_comes_goes_and_comes_back(plane):
    """W10: parked while the CRD is missing, started by itself, emptied with deletes, started again."""
    gadget = dynamic("cache.example.com/v1", "Gadget")
    space = await asyncio.to_thread(fresh_namespace, plane, "definitions")

    def of(name):
        return {
            "apiVersion": "cache.example.com/v1",
            "kind": "Gadget",
            "metadata": {"name": name, "namespace": space},
            "spec": {"size": 1},
        }

    async with watching(plane, gadget) as (_, cache, informer, changes):
        with pytest.raises(SyncTimeoutError, match="the kind is not served yet"):
            await cache.wait_synced(2)
        assert informer.parked
        await apply(plane, definition("gadgets", "Gadget"))
        await kubectl(plane, "wait", "--for=condition=Established", "crd/gadgets.cache.example.com")
        await apply(plane, of("one"), of("two"))
        await cache.wait_synced(40)
        await until(lambda: len(informer) == 2)
        await kubectl(plane, "delete", "crd", "gadgets.cache.example.com", "--timeout=30s")
        await until(lambda: len(informer) == 0, 70)
        await until(lambda: informer.parked, 90)
        assert sorted(c.key.name for c in changes if c.type == "delete") == ["one", "two"]
        await apply(plane, definition("gadgets", "Gadget"))
        await kubectl(plane, "wait", "--for=condition=Established", "crd/gadgets.cache.example.com")
        await apply(plane, of("three"))
        await until(lambda: informer.get(Key(space, "three")) is not None, 60)
        assert not informer.parked


async def test_own_writes_are_read_back(plane):
    """C2: through the real client, a hundred times, never an older read."""
    space = await asyncio.to_thread(fresh_namespace, plane, "own-writes")
    async with watching(plane, CONFIG_MAP, namespace=space) as (client, cache, informer, _):
        await cache.wait_synced(20)
        key = Key(space, "mine")
        held = 0
        for n in range(100):
            await client.apply(config_map("mine", space, value=n))
            held += cache.outstanding(CONFIG_MAP, key)
            assert await cache.read_barrier(CONFIG_MAP, key)
            assert cache.get(CONFIG_MAP, key)["data"]["value"] == str(n)
        await client.delete(CONFIG_MAP, "mine", namespace=space)
        assert await cache.read_barrier(CONFIG_MAP, key)
        assert cache.get(CONFIG_MAP, key) is None
        assert not informer.writes.active


async def test_a_restarted_server_costs_no_change(plane):
    """W3: the watch resumes, and handlers receive no wrong events."""
    space = await asyncio.to_thread(fresh_namespace, plane, "restarts")
    await apply(plane, *(config_map(f"c{n}", space) for n in range(5)))
    async with watching(plane, CONFIG_MAP, namespace=space) as (_, cache, informer, changes):
        await cache.wait_synced(20)
        changes.clear()
        await asyncio.to_thread(plane.kill_apiserver)
        await until(lambda: bool(informer.problem))
        await asyncio.to_thread(plane.start_apiserver)
        await apply(plane, config_map("c1", space, value="after"))
        await kubectl(plane, "delete", "configmap", "c2", "-n", space)
        await until(lambda: len(changes) == 2, 45)
        assert [f"{c.type} {c.key.name}" for c in changes] == ["update c1", "delete c2"]
        await until(lambda: informer.problem == "")
