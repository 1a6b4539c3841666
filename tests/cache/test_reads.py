"""Reads of the cache: the informer, the selection, and the errors."""

import pytest
from cache_fakeserver import FakeServer, cached, widget_view

from steersman.cache import Cache, NotCachedError
from steersman.cache.informer import Scope
from steersman.models import ALL_NAMESPACES, Key, dynamic
from steersman.telemetry.registry import REGISTRY
from steersman.testing import virtual_time

WIDGET = widget_view()


class Filtering:
    """The part of a server that an informer's scope selects, filled by the test."""

    def __init__(self):
        self.servers = {}

    def __call__(self, _info, scope):
        return self.servers.setdefault(scope, FakeServer())


def names(objects):
    return sorted(o.metadata.name for o in objects)


@virtual_time
async def test_a_kind_that_nobody_declared_is_not_watched():
    """C6: the read fails with a hint, and sends no request."""
    server = FakeServer()
    async with cached(server) as (cache, _, _):
        await cache.wait_synced(5)
        other = dynamic("v1", "Secret")
        requests = len(server.log)
        with pytest.raises(NotCachedError, match=r"v1 Secret .*is not cached: declare it \(owns=.*or read it through"):
            cache.get(other, Key("default", "a"))
        with pytest.raises(NotCachedError, match="v1 Secret in namespace x is not cached"):
            cache.list(other, namespace="x")
        assert not cache.caches(other, namespace=ALL_NAMESPACES)
        assert cache.caches(WIDGET, namespace=ALL_NAMESPACES)
        assert len(server.log) == requests
        assert len(cache.informers) == 1
        assert not cache.outstanding(other)
        assert await cache.read_barrier(other)


@virtual_time
async def test_lists_select_by_namespace_labels_owner_and_index():
    """C5: and by any combination of them."""
    server = FakeServer()
    owner = [{"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "o1", "controller": True}]
    server.put("a", "x", labels={"app": "web"}, ownerReferences=owner, colour="red")
    server.put("b", "x", labels={"app": "db"}, colour="red")
    server.put("c", "y", labels={"app": "web"}, colour="blue")
    async with cached(server, indexes={"colour": lambda o: o["spec"]["colour"]}) as (cache, _, _):
        await cache.wait_synced(5)
        assert names(cache.list(WIDGET, namespace=ALL_NAMESPACES)) == ["a", "b", "c"]
        with pytest.raises(ValueError, match="ALL_NAMESPACES"):
            cache.list(WIDGET)
        with pytest.raises(ValueError, match="ALL_NAMESPACES"):
            cache.list(WIDGET, namespace="")
        assert names(cache.list(WIDGET, namespace="x")) == ["a", "b"]
        assert names(cache.list(WIDGET, namespace=ALL_NAMESPACES, labels="app=web")) == ["a", "c"]
        assert names(cache.list(WIDGET, namespace=ALL_NAMESPACES, labels="app in (web,db),app!=db")) == ["a", "c"]
        assert names(cache.list(WIDGET, namespace=ALL_NAMESPACES, owner="o1")) == ["a"]
        assert names(cache.list(WIDGET, owner="o1", namespace="y")) == []
        assert names(cache.list(WIDGET, namespace=ALL_NAMESPACES, index=("colour", "red"))) == ["a", "b"]
        assert names(
            cache.list(WIDGET, namespace=ALL_NAMESPACES, index=("colour", "red"), owner="o1", labels="app=web")
        ) == ["a"]
        with pytest.raises(KeyError, match="shape"):
            cache.list(WIDGET, namespace=ALL_NAMESPACES, index=("shape", "round"))


@virtual_time
async def test_several_namespaces_are_read_as_one():
    """C6: informers of single namespaces answer for theirs, and together for a list of the kind."""
    sources = Filtering()
    cache = Cache(None, sources=sources)
    cache.informer(WIDGET, namespace="x")
    cache.informer(WIDGET, namespace="y")
    for space in ("x", "y"):
        sources(None, Scope(space)).put(f"in-{space}", space)
    await cache.start()
    await cache.wait_synced(5)
    assert names(cache.list(WIDGET, namespace=ALL_NAMESPACES)) == ["in-x", "in-y"]
    assert names(cache.list(WIDGET, namespace="y")) == ["in-y"]
    assert cache.get(WIDGET, Key("x", "in-x")) is not None
    with pytest.raises(NotCachedError):
        cache.get(WIDGET, Key("z", "a"))
    await cache.close()


@virtual_time
async def test_an_informer_declared_after_the_start_runs_at_once():
    """W11: and the same declaration later is the same informer."""
    sources = Filtering()
    cache = Cache(None, sources=sources)
    await cache.start()
    informer = cache.informer(WIDGET, labels="app=web")
    sources(None, Scope(None, "app=web")).put("a", labels={"app": "web"})
    await cache.wait_synced(5)
    assert cache.informer(WIDGET, labels="app=web") is informer
    assert names(cache.list(WIDGET, namespace=ALL_NAMESPACES, labels="app=web")) == ["a"]
    with pytest.raises(ValueError, match="another transform"):
        cache.informer(WIDGET, labels="app=web", transform=bytes)
    await cache.close()


@virtual_time
async def test_informers_are_measured_and_closed_ones_are_not():
    server = FakeServer()
    server.put("a")
    labels = {"kind": "Widget.widgets.example.com", "scope": "namespace=measured"}

    def value(name):
        return REGISTRY.get_sample_value(f"steersman_informer_{name}", labels)

    async with cached(server, namespace="measured") as (cache, _, _):
        await cache.wait_synced(5)
        assert value("objects") == 1
        assert value("stored_bytes") > 50
        assert value("relists_total") == 1
        assert value("lag_seconds") < 5
        assert value("last_event_timestamp_seconds") > 1e9
    assert value("objects") is None
    assert value("relists_total") == 1


def test_a_cache_needs_something_to_watch():
    with pytest.raises(TypeError, match="needs a client"):
        Cache(None)


@virtual_time
async def test_what_answers_a_read_is_found_anew_when_informers_come_and_go():
    """C6: a wider informer takes over as soon as it is declared, and gives back when it is dropped."""
    sources = Filtering()
    cache = Cache(None, sources=sources)
    cache.informer(WIDGET, namespace="x")
    sources(None, Scope("x")).put("narrow", "x")
    await cache.start()
    await cache.wait_synced(5)
    assert names(cache.list(WIDGET, namespace=ALL_NAMESPACES)) == ["narrow"]
    wide = cache.informer(WIDGET)
    sources(None, Scope()).put("wide", "x")
    await cache.wait_synced(5)
    assert names(cache.list(WIDGET, namespace=ALL_NAMESPACES)) == ["wide"]
    assert cache.get(WIDGET, Key("z", "a")) is None
    cache.drop(wide)
    assert names(cache.list(WIDGET, namespace=ALL_NAMESPACES)) == ["narrow"]
    with pytest.raises(NotCachedError):
        cache.get(WIDGET, Key("z", "a"))
    await cache.close()


@virtual_time
async def test_reading_many_namespaces_remembers_no_more_than_it_should():
    server = FakeServer()
    async with cached(server) as (cache, _, _):
        await cache.wait_synced(5)
        for i in range(3000):
            assert cache.get(WIDGET, Key(f"n{i}", "a")) is None
        assert len(cache._informers_by_read) <= 1024
