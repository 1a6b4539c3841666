"""Informers of kinds that are only searched by their metadata, and how they widen to whole objects (W11)."""

import asyncio
import json

import pytest
from cache_fakeserver import FakeServer, api_error, change_names, content, truth
from cache_forms import METADATA, WIDGET, partial, watched

from steersman.cache import NotCachedError, SyncTimeoutError, UndecodableError
from steersman.cache.metadata_store import MetadataStore
from steersman.cache.wire import parse_event, parse_object
from steersman.client.hooks import WriteOutcome
from steersman.models import ALL_NAMESPACES, Dynamic, Key, PartialObjectMetadata
from steersman.testing import virtual_time

A, B = Key("default", "a"), Key("default", "b")


def with_objects(*names, **options):
    server = FakeServer(**options)
    for name in names:
        server.put(name, size=1)
    return server


def body(entry):
    return json.loads(entry.raw())


# Only metadata.


@pytest.mark.parametrize("watch_list", [True, False])
@virtual_time
async def test_only_metadata_is_asked_for_and_kept(watch_list):
    """W11: under the object's own kind, whether it came in a list or in a watch."""
    server = with_objects("a", watch_list=watch_list)
    async with watched(server) as (_, forms, cache, informer, changes):
        server.put("b", labels={"app": "web"}, size=2)
        server.put("a", size=3)
        await asyncio.sleep(1)
        assert forms.asked == ["metadata"]
        assert change_names(changes) == ["add a", "add b", "update a"]
        assert content(informer) == truth(server)
        for key in (A, B):
            found = cache.get(METADATA, key)
            assert isinstance(found, PartialObjectMetadata)
            assert (found.api_version, found.kind, found.metadata.name) == (*WIDGET_NAMES, key.name)
            assert body(informer.get(key)).keys() == {"apiVersion", "kind", "metadata"}
            assert "managedFields" not in body(informer.get(key))["metadata"]
            assert not informer.get(key).whole
        assert [o.metadata.name for o in cache.list(METADATA, namespace=ALL_NAMESPACES, labels="app=web")] == ["b"]


WIDGET_NAMES = (WIDGET.info.api_version, WIDGET.info.kind)


@virtual_time
async def test_what_is_not_there_is_never_read_as_empty():
    """W11: a read of the whole object is refused, whether the object is there or not, and says what to do."""
    async with watched(with_objects("a")) as (_, _, cache, informer, changes):
        for key in (A, B):
            with pytest.raises(
                NotCachedError, match=r"only the metadata of .*Widget .*is cached: declare .*owns=.*wait_synced"
            ):
                cache.get(WIDGET, key)
        with pytest.raises(NotCachedError, match="only the metadata"):
            cache.list(WIDGET, namespace="default")
        with pytest.raises(NotCachedError, match="only the metadata of Widget default/a is cached"):
            changes[0].new.object(WIDGET)
        with pytest.raises(NotCachedError, match="only the metadata of Widget default/a is cached"):
            changes[0].new.object_once(WIDGET)
        assert changes[0].new.object_once(METADATA).kind == "Widget"
        assert not cache.caches(WIDGET, namespace=ALL_NAMESPACES)
        assert cache.caches(METADATA, namespace=ALL_NAMESPACES)
        with pytest.raises(ValueError, match="only metadata is cached"):
            informer.declare_index("size", lambda o: str(o["spec"]["size"]), WIDGET)


@virtual_time
async def test_owners_labels_finalizers_and_deletion_are_metadata():
    """C5: indexes by owner and over metadata, and what an entry tells without decoding."""
    owner = [{"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "o1", "controller": True}]
    by_app = {"app": lambda o: o.metadata.labels.get("app", "")}
    async with watched(indexes=by_app) as (server, _, cache, informer, _):
        server.put("a", labels={"app": "web"}, ownerReferences=owner)
        server.put("b", labels={"app": "db"}, deletionTimestamp="2026-01-01T00:00:00Z")
        await asyncio.sleep(1)
        assert [e.key for e in informer.owned_by("o1")] == [A]
        assert informer.get(A).controller.name == "o"
        assert informer.get(B).deleting
        assert [o.metadata.name for o in cache.list(METADATA, namespace=ALL_NAMESPACES, index=("app", "db"))] == ["b"]
        assert [o.metadata.name for o in cache.list(METADATA, namespace=ALL_NAMESPACES, owner="o1")] == ["a"]
        server.delete("b")
        await asyncio.sleep(1)
        assert cache.list(METADATA, namespace=ALL_NAMESPACES, index=("app", "db")) == ()


@virtual_time
async def test_a_server_without_the_form_is_read_all_the_same():
    """W11: it sends whole objects; these are still only read by their metadata."""
    server = with_objects("a")
    async with watched(server, knows_metadata=False) as (_, _, cache, informer, changes):
        server.put("b", size=2)
        await asyncio.sleep(1)
        assert change_names(changes) == ["add a", "add b"]
        found = cache.get(METADATA, B)
        assert (found.api_version, found.kind) == WIDGET_NAMES
        with pytest.raises(NotCachedError):
            cache.get(WIDGET, B)
        cache.informer(WIDGET)
        await cache.wait_synced(5)
        assert cache.get(WIDGET, B)["spec"] == {"size": 2}
        assert change_names(changes) == ["add a", "add b"]
        assert content(informer) == truth(server)


@virtual_time
async def test_a_transform_sees_metadata_under_its_own_kind():
    """C4: and its result is stored; whole objects later."""
    seen = []

    def without_labels(data):
        obj = json.loads(data)
        seen.append((obj["kind"], "spec" in obj))
        obj["metadata"].pop("labels", None)
        return json.dumps(obj).encode()

    async with watched(transform=without_labels) as (server, _, cache, informer, _):
        server.put("a", labels={"app": "web"}, size=1)
        await asyncio.sleep(1)
        assert seen == [("Widget", False)]
        assert not cache.get(METADATA, A).metadata.labels
        assert cache.informer(WIDGET, transform=without_labels) is informer
        await cache.wait_synced(5)
        assert seen[1:] == [("Widget", True)]
        assert "labels" not in cache.get(WIDGET, A)["metadata"]
        with pytest.raises(ValueError, match="another transform"):
            cache.informer(WIDGET, transform=bytes)


@virtual_time
async def test_metadata_that_does_not_fit_is_reported():
    """W9: it keeps its key, and reading it raises `UndecodableError`."""
    async with watched() as (server, _, cache, informer, changes):
        server.put_raw({"metadata": {"name": "a", "namespace": "default", "labels": [1]}, "spec": {}})
        await asyncio.sleep(1)
        assert change_names(changes) == ["add a"]
        with pytest.raises(UndecodableError):
            cache.get(METADATA, A)
        assert [bad.key for bad in informer.undecodables] == [A]
        cache.informer(WIDGET)
        await cache.wait_synced(5)
        assert informer.undecodables == ()  # no reader has requested the whole object yet


@pytest.mark.parametrize("layout", [{"separators": (",", ":")}, {}, {"sort_keys": True}])
def test_the_kind_is_put_right_whatever_the_layout(layout):
    """W11: nothing else is touched, not even where it says the same words."""
    text = 'the "PartialObjectMetadata" of "kind":"PartialObjectMetadata"'
    store = MetadataStore(METADATA)
    meta = {"name": "a", "uid": "u", "resourceVersion": "1", "annotations": {"a": text}}
    for version, obj in enumerate((partial({"metadata": meta}), {"kind": "Widget", "metadata": meta}), 1):
        meta["resourceVersion"] = str(version)
        data = json.dumps({"type": "ADDED", "object": obj}, **layout).encode()
        (change,) = store.apply(*parse_event(data))
        kept = body(change.new)
        assert kept["kind"] == "Widget"
        assert kept.get("apiVersion", WIDGET_NAMES[0]) == WIDGET_NAMES[0]
        assert kept["metadata"] == meta
    store.begin()
    store.stage("ADDED", *parse_object(json.dumps(partial({"metadata": {**meta, "name": "b"}}), **layout).encode()))
    assert [c.type for c in store.commit()] == ["delete", "add"]
    assert body(store.get(Key("", "b")))["kind"] == "Widget"


# Widening.


@virtual_time
async def test_what_is_declared_before_the_start_is_asked_for_once():
    """W11: operators declare all their kinds first; whole objects serve the metadata views too."""
    server = with_objects("a")
    async with watched(server, start=False) as (_, forms, cache, informer, changes):
        assert cache.informer(WIDGET) is informer
        assert cache.informer(METADATA) is informer
        await cache.start()
        await cache.wait_synced(5)
        assert forms.asked == ["dynamic"]
        assert len(server.log) == 1
        assert change_names(changes) == ["add a"]
        assert changes[0].initial
        assert cache.get(WIDGET, A)["spec"] == {"size": 1}
        assert cache.get(METADATA, A).kind == "Widget"
        assert informer.get(A).whole


@pytest.mark.parametrize("watch_list", [True, False])
@virtual_time
async def test_an_informer_widens_beside_what_it_has(watch_list):
    """W11: metadata is read meanwhile, whole objects when all are listed, and unchanged objects have no events."""
    server = with_objects("a", "b", "c", watch_list=watch_list)
    async with watched(server) as (_, forms, cache, informer, changes):
        changes.clear()
        kept = informer.get(A)
        whole = []
        assert cache.informer(WIDGET) is informer
        informer.add_handler(whole.append)
        assert not informer.synced
        server.put("b", size=2)
        server.delete("c")
        server.put("d", size=1)
        assert cache.get(METADATA, A).metadata.name == "a"
        with pytest.raises(NotCachedError, match="only the metadata"):
            cache.get(WIDGET, A)
        assert whole == []
        await cache.wait_synced(5, [informer])
        assert forms.asked == ["metadata", "dynamic"]
        assert change_names(changes) == ["delete c", "update b", "add d"]
        assert not any(c.initial for c in changes)
        assert sorted(change_names(whole)) == ["add a", "add b", "add d"]
        assert all(c.initial and isinstance(c.new.object(WIDGET), Dynamic) for c in whole)
        assert {c.key.name: c.new.object(WIDGET)["spec"] for c in whole} == {n: {"size": s} for n, s in TO_SEE}
        assert content(informer) == truth(server)
        assert cache.get(METADATA, A) == kept.object(METADATA)
        assert body(kept).keys() == {"apiVersion", "kind", "metadata"}  # an entry does not change (C1)
        server.put("a", size=9)
        await asyncio.sleep(1)
        assert change_names(changes)[-1:] == change_names(whole)[-1:] == ["update a"]
        assert len(server.streams) == 1


TO_SEE = (("a", 1), ("b", 2), ("d", 1))


@virtual_time
async def test_an_informer_never_narrows_again():
    """W11: a later metadata view, and a relist, leave it with whole objects."""
    server = with_objects("a")
    async with watched(server, kind=WIDGET) as (_, forms, cache, informer, _):
        assert cache.informer(METADATA) is informer
        server.break_streams(api_error(410, "Expired"))
        await asyncio.sleep(60)
        assert forms.asked == ["dynamic"]
        assert cache.get(WIDGET, A)["spec"] == {"size": 1}


@pytest.mark.parametrize(
    ("watch_list", "after"), [(True, 0.0), (True, 0.005), (False, 0.0), (False, 0.015), (False, 0.025)]
)
@virtual_time
async def test_who_widens_while_the_first_list_runs_waits_for_whole_objects(watch_list, after):
    """C3: no metadata event was delivered yet, and none is delivered."""
    server = with_objects("a", watch_list=watch_list, page=1)
    server.put("b", size=1)
    async with watched(server, start=False) as (_, forms, cache, informer, changes):
        await cache.start()
        await asyncio.sleep(after)
        cache.informer(WIDGET)
        await cache.wait_synced(5)
        await asyncio.sleep(1)
        assert forms.asked == ["metadata", "dynamic"]
        assert change_names(changes) == ["add a", "add b"]
        assert all(c.initial and c.new.whole for c in changes)
        assert len(informer) == 2
        assert len(server.streams) == 1


@virtual_time
async def test_who_widens_while_a_list_is_told_lets_the_telling_end():
    """W5: every handler receives every object once, in its form."""
    many = [f"w{n}" for n in range(2500)]
    server = with_objects(*many)
    async with watched(server, start=False) as (_, forms, cache, informer, changes):
        whole = []

        def widen(change):
            if change.key.name == many[7]:
                cache.informer(WIDGET).add_handler(whole.append)

        informer.add_handler(widen)
        await cache.start()
        await cache.wait_synced(60)
        assert forms.asked == ["metadata", "dynamic"]
        assert sorted(change_names(changes)) == sorted(f"add {n}" for n in many)
        assert sorted(change_names(whole)) == sorted(f"add {n}" for n in many)
        assert not any(c.new.whole for c in changes)
        assert all(c.new.whole for c in whole)
        assert len(server.streams) == 1


@virtual_time
async def test_a_handler_may_widen_while_events_are_taken_in():
    """R1: the other changes of the event are delivered first."""
    server = with_objects("a")
    async with watched(server) as (_, _, cache, informer, changes):
        informer.add_handler(lambda change: cache.informer(WIDGET) if change.key.name == "b" else None)
        for name in "bcd":
            server.put(name, size=2)
        await asyncio.sleep(5)
        assert informer.synced
        assert change_names(changes) == ["add a", "add b", "add c", "add d"]
        assert cache.get(WIDGET, Key("default", "d"))["spec"] == {"size": 2}
        assert content(informer) == truth(server)


@virtual_time
async def test_indexes_survive_and_those_over_whole_objects_wait():
    """C5: an index over metadata answers throughout; one over whole objects is refused until they are there."""
    server = with_objects("a")
    server.put("b", labels={"app": "web"}, size=2)
    by_app = {"app": lambda o: o.metadata.labels.get("app", "")}
    by_size = {"size": lambda o: str(o["spec"]["size"])}
    async with watched(server, indexes=by_app) as (_, _, cache, informer, _):
        cache.informer(WIDGET, indexes=by_size)
        assert [o.metadata.name for o in cache.list(METADATA, namespace=ALL_NAMESPACES, index=("app", "web"))] == ["b"]
        with pytest.raises(NotCachedError, match="still being listed"):
            informer.indexed("size", "2")
        with pytest.raises(KeyError, match="shape"):
            informer.indexed("shape", "round")
        with pytest.raises(ValueError, match="another index named 'size'"):
            cache.informer(WIDGET, indexes={"size": str})
        with pytest.raises(ValueError, match="another index named 'app'"):
            informer.declare_index("app", str, METADATA)
        await cache.wait_synced(5)
        assert [o.metadata.name for o in cache.list(METADATA, namespace=ALL_NAMESPACES, index=("app", "web"))] == ["b"]
        assert [o["metadata"]["name"] for o in cache.list(WIDGET, namespace=ALL_NAMESPACES, index=("size", "2"))] == [
            "b"
        ]
        server.put("a", labels={"app": "web"}, size=2)
        await asyncio.sleep(1)
        assert (
            len(cache.list(METADATA, namespace=ALL_NAMESPACES, index=("app", "web")))
            == len(cache.list(WIDGET, namespace=ALL_NAMESPACES, index=("size", "2")))
            == 2
        )


@virtual_time
async def test_widening_goes_on_through_failures():
    """W6: metadata is read as it was, until the server lists again; the wait says what keeps it."""
    server = with_objects("a")
    async with watched(server) as (_, _, cache, informer, changes):
        server.refuse_watches += [api_error(503, "ServiceUnavailable", "try later")] * 3
        cache.informer(WIDGET)
        with pytest.raises(SyncTimeoutError, match=r"Widget.*cannot list: .*try later"):
            await cache.wait_synced(1)
        assert cache.get(METADATA, A).kind == "Widget"
        await cache.wait_synced(60)
        assert cache.get(WIDGET, A)["spec"] == {"size": 1}
        assert change_names(changes) == ["add a"]
        assert informer.problem == ""


@virtual_time
async def test_a_list_that_is_older_than_what_was_seen_is_refused():
    """W1: widening must not deliver older states."""
    server = with_objects("a")
    async with watched(server) as (_, _, cache, informer, changes):
        server.put("a", size=2)
        await asyncio.sleep(1)
        server.lag = 1
        cache.informer(WIDGET)
        with pytest.raises(SyncTimeoutError, match="older than the content"):
            await cache.wait_synced(2)
        server.lag = 0
        await cache.wait_synced(60)
        assert change_names(changes) == ["add a", "update a"]
        assert cache.get(WIDGET, A)["spec"] == {"size": 2}
        assert informer.synced


@virtual_time
async def test_a_kind_that_goes_while_it_widens_is_emptied():
    """W10: handlers that know its objects receive deletes; when it is served again, all receive the new ones."""
    server = with_objects("a")
    async with watched(server) as (_, _, cache, informer, changes):
        server.objects.clear()
        server.served = False
        whole = []
        cache.informer(WIDGET).add_handler(whole.append)
        await asyncio.sleep(20)
        assert change_names(changes) == ["add a", "delete a"]
        assert informer.parked
        assert len(informer) == 0
        server.served = True
        server.put("b", size=1)
        await cache.wait_synced(60)
        assert change_names(changes) == ["add a", "delete a", "add b"]
        assert change_names(whole) == ["add b"]


@pytest.mark.parametrize("end", ["drop", "close"])
@virtual_time
async def test_nothing_goes_on_after_an_end_in_the_middle(end):
    """C6: neither its old nor its next form."""
    server = with_objects("a")
    async with watched(server) as (_, _, cache, informer, _):
        cache.informer(WIDGET)
        if end == "drop":
            cache.drop(informer)
            await informer.wait_synced()
        else:
            await cache.close()
        await asyncio.sleep(5)
        assert server.streams == []
        assert len(server.log) == 1
        assert not [t for t in asyncio.all_tasks() if t.get_name().startswith("informer")]


@virtual_time
async def test_the_former_content_goes_even_where_somebody_keeps_an_entry():
    """M1: an entry keeps its own version, and not the store that it came from."""
    server = with_objects(*(f"w{n}" for n in range(100)))
    async with watched(server) as (_, _, cache, informer, _):
        before, kept = informer.store, informer.get(Key("default", "w1"))
        cache.informer(WIDGET)
        await cache.wait_synced(5)
        assert len(before) == 0
        assert kept.metadata().name == "w1"
        assert informer.store is not before


@virtual_time
async def test_own_writes_are_awaited_while_it_widens():
    """C2: no read after the barrier is older than the write, in whichever form."""
    server = with_objects("a")
    async with watched(server) as (_, _, cache, informer, _):
        ended = informer.writes.begin(A)
        cache.informer(WIDGET)
        obj = server.put("a", size=2)
        ended(WriteOutcome(obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]))
        assert cache.outstanding(METADATA, A)
        assert await cache.read_barrier(METADATA, A)
        assert cache.get(METADATA, A).metadata.resource_version == obj["metadata"]["resourceVersion"]
        assert cache.get(WIDGET, A)["spec"] == {"size": 2}


@virtual_time
async def test_what_is_only_being_collected_satisfies_no_own_write():
    """C2: a new content counts when readers see it, and not as its objects come in."""
    server = with_objects("a", "b")
    async with watched(server) as (_, _, _, informer, _):
        ended = informer.writes.begin(A)
        informer.begin()
        newer = {**server.objects["default", "b"]}
        newer["metadata"] = {**newer["metadata"], "resourceVersion": "900"}
        informer.feed([json.dumps({"type": "ADDED", "object": partial(newer)}, separators=(",", ":")).encode()])
        ended(WriteOutcome("", "500"))
        assert informer.writes.unseen(A)
        informer.discard()
        assert informer.version != "900"


@virtual_time
async def test_the_entry_of_a_kind_is_the_whole_one_where_there_is_one():
    """W11: informers of several scopes may keep the same object in different forms."""
    server = with_objects("a")
    async with watched(server, labels="app=web") as (_, _, cache, selected, _):
        assert not cache.entry(WIDGET.info.gvk, A).whole
        everything = cache.informer(WIDGET)
        assert everything is not selected
        await cache.wait_synced(5)
        assert cache.entry(WIDGET.info.gvk, A).whole
        assert cache.get(WIDGET, A)["spec"] == {"size": 1}
        assert cache.get(METADATA, A).kind == "Widget"
        cache.drop(everything)
        assert cache.get(METADATA, A).kind == "Widget"
        with pytest.raises(NotCachedError):
            cache.list(WIDGET, namespace=ALL_NAMESPACES, labels="app=web")
