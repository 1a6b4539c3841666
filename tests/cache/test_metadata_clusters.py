"""Metadata-only informers on an API server: the embedded one, and with `--cluster=real` a kube-apiserver."""

import contextlib
import json
import random

import pytest
from cache_clusters import until

from steersman import Context, Operator, PartialObjectMetadata, Watch
from steersman.cache import Cache, NotCachedError, RawListWatch
from steersman.client import Client
from steersman.k8s import ConfigMap, Secret
from steersman.models import ALL_NAMESPACES, Key, dynamic, metadata_of

METADATA = metadata_of(ConfigMap)


@contextlib.asynccontextmanager
async def caching(cluster, *kinds, watch_list=True, **declaration):
    """A synced cache of the kinds in the test's namespace, and its client."""
    async with Client(cluster.config) as client:
        cache = Cache(client, rng=random.Random(1))
        cache._server.watch_list = watch_list
        for kind in kinds:
            cache.informer(kind, namespace=cluster.namespace, **declaration)
        await cache.start()
        await cache.wait_synced(30)
        try:
            yield client, cache
        finally:
            await cache.close()


def config_map(name, namespace, **data):
    metadata = {"name": name, "namespace": namespace, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {k: str(v) for k, v in data.items()}}


@pytest.mark.parametrize("watch_list", [True, False])
async def test_an_informer_gets_metadata_and_widens(cluster, watch_list):
    """W11: with initial events and in pages, in lists and in watches; bookmarks are understood in either form."""
    here = cluster.namespace
    async with caching(cluster, METADATA, watch_list=watch_list, labels="app") as (client, cache):
        (informer,) = cache.informers
        heard, whole = [], []
        informer.add_handler(heard.append)
        await client.create(config_map("a", here, x=1))
        await client.create(config_map("b", here, x=2))
        assert await cache.read_barrier(METADATA)
        for name in "ab":
            found = cache.get(METADATA, Key(here, name))
            assert (found.api_version, found.kind, found.metadata.labels) == ("v1", "ConfigMap", {"app": name})
            body = json.loads(informer.get(Key(here, name)).raw())
            assert body.keys() == {"apiVersion", "kind", "metadata"}
            assert "managedFields" not in body["metadata"]
        with pytest.raises(NotCachedError, match="only the metadata"):
            cache.get(ConfigMap, Key(here, "a"))

        cache.informer(ConfigMap, namespace=here, labels="app").add_handler(whole.append)
        await client.create(config_map("c", here, x=3))
        await cache.wait_synced(30)
        assert await cache.read_barrier(ConfigMap)
        assert {c.metadata.name: c.data["x"] for c in cache.list(ConfigMap, namespace=ALL_NAMESPACES)} == {
            "a": "1",
            "b": "2",
            "c": "3",
        }
        assert [f"{c.type} {c.key.name}" for c in heard] == ["add a", "add b", "add c"]
        assert sorted(f"{c.type} {c.key.name}" for c in whole) == ["add a", "add b", "add c"]
        await client.delete(ConfigMap, "a", namespace=here)
        await until(lambda: heard[-1].type == whole[-1].type == "delete")
        assert cache.get(METADATA, Key(here, "b")).kind == "ConfigMap"
        assert len(informer) == 2


async def test_what_was_there_comes_as_metadata_in_either_way(cluster):
    """W2: the first content, in initial events or in pages of one."""
    here = cluster.namespace
    async with Client(cluster.config) as client:
        for n in range(3):
            await client.create(config_map(f"m{n}", here, x=n))
        source = RawListWatch(client.raw, METADATA, namespace=here, labels="app")
        pages, token = [], ""
        while not pages or token:
            pages.append(json.loads(await source.list_page(limit=1, continue_=token, resource_version="", match="")))
            token = pages[-1]["metadata"].get("continue", "")
        assert [p["kind"] for p in pages] == ["PartialObjectMetadataList"] * 3
        assert {i["kind"] for p in pages for i in p["items"]} == {"PartialObjectMetadata"}
    for watch_list in (True, False):
        async with caching(cluster, METADATA, watch_list=watch_list, labels="app") as (_, cache):
            assert sorted(o.metadata.name for o in cache.list(METADATA, namespace=ALL_NAMESPACES)) == ["m0", "m1", "m2"]
            assert {o.kind for o in cache.list(METADATA, namespace=ALL_NAMESPACES)} == {"ConfigMap"}
            assert not any(e.whole for e in cache.informers[0].entries())


async def test_a_kind_that_is_not_served_is_waited_for(cluster):
    """W10: a 404 is a 404 in every form."""
    nobody = metadata_of(dynamic("nobody.example.com/v1", "Nothing"))
    async with Client(cluster.config) as client:
        cache = Cache(client, rng=random.Random(1))
        informer = cache.informer(nobody)
        await cache.start()
        await until(lambda: informer.parked)
        assert "not served" in informer.problem
        await cache.close()


def of_the_team(secret: Secret) -> str | None:
    return secret.metadata.name if "team" in secret.data else None


def to_maps(secret: PartialObjectMetadata, ctx: Context) -> list[Key]:
    maps = ctx.list(METADATA, namespace=secret.metadata.namespace)
    return [Key(m.metadata.namespace, m.metadata.name) for m in maps]


def test_an_operator_of_metadata_runs_with_the_roles_of_any_other(cluster, operator):
    """W11: kinds of which it reads metadata are listed as metadata; kinds with an index by content as whole objects."""
    app = Operator("metadata-only")
    app.index("team", Secret, of_the_team)
    secrets = metadata_of(Secret)
    seen: dict[str, tuple[str, list[str]]] = {}
    whole: dict[str, bool] = {}

    @app.controller(kind=METADATA, watches=[Watch(secrets, to=to_maps)])
    async def reconcile(config: PartialObjectMetadata, ctx: Context) -> None:
        found = ctx.list(secrets, namespace=config.metadata.namespace, index=("team", "s"))
        seen[config.metadata.name] = (config.kind, [s.metadata.name for s in found])
        whole.update({i.info.kind: i.whole for i in ctx._reader._cache.informers})

    running = operator(app)
    base = f"/api/v1/namespaces/{cluster.namespace}"
    cluster.call("POST", f"{base}/configmaps", config_map("a", cluster.namespace, x=1))
    running.wait_idle()
    assert seen["a"] == ("ConfigMap", [])
    cluster.call("POST", f"{base}/secrets", {"metadata": {"name": "s"}, "stringData": {"team": "red"}})
    running.wait_idle()
    assert seen["a"] == ("ConfigMap", ["s"])
    assert whole == {"ConfigMap": False, "Secret": True}
