"""Reflector, shell, informer and store together, against a server that misbehaves on virtual time."""

import asyncio
import itertools
import json
import logging

import pytest
from cache_fakeserver import FakeServer, api_error, cached, change_names, content, line, status, truth, widget_view

from steersman.cache import SyncTimeoutError, UndecodableError
from steersman.client.errors import ConnectError, ConnectionLostError
from steersman.models import ALL_NAMESPACES, Key, Model, ObjectMeta, Resource
from steersman.testing import virtual_time

WIDGET = widget_view()
A = Key("default", "a")


async def settle(seconds=1.0):
    await asyncio.sleep(seconds)


@virtual_time
async def test_a_fail_over_to_a_lagging_server_does_not_take_the_store_back():
    """W1: with a lagging server behind the load balancer the store keeps its content until the server catches up."""
    server = FakeServer()
    server.put("a", size=1)
    async with cached(server) as (cache, informer, changes):
        await cache.wait_synced(5)
        server.put("a", size=2)
        server.put("b", size=1)
        await settle()
        server.lag = 2
        server.break_streams(api_error(410, "Expired"))
        await settle(5)
        assert cache.get(WIDGET, A)["spec"]["size"] == 2
        assert change_names(changes) == ["add a", "update a", "add b"]
        server.lag = 0
        await settle(60)
        assert content(informer) == truth(server)
        assert change_names(changes) == ["add a", "update a", "add b"]
        assert not any("rv='0'" in request for request in server.log)


@pytest.mark.parametrize("watch_list", [True, False])
def test_the_new_content_is_swapped_in_one_step(watch_list):
    """W2: readers see the old content until the new one is whole."""

    @virtual_time
    async def run():
        server = FakeServer(watch_list=watch_list, page=2)
        for name in "abcde":
            server.put(name)
        server.chop = 50
        sizes = []
        async with cached(server) as (cache, informer, changes):
            informer.add_handler(lambda _change: sizes.append(len(informer)))
            await cache.wait_synced(5)
            assert len(informer) == 5
            assert set(sizes) == {5}
            assert all(c.initial for c in changes)
            assert [r.split()[0] for r in server.log].count("list") == (0 if watch_list else 3)

    run()


@virtual_time
async def test_a_refusal_of_watch_list_is_remembered_for_all_kinds_of_the_server():
    """W2: the second informer of the same server does not try WatchList again."""
    server = FakeServer(watch_list=False)
    async with cached(server) as (cache, _, _):
        await cache.wait_synced(5)
        assert sum("initial=True" in r for r in server.log) == 1
        cache.informer(WIDGET, namespace="other")
        await cache.wait_synced(5)
        assert sum("initial=True" in r for r in server.log) == 1


@virtual_time
async def test_an_event_in_the_middle_of_the_initial_ones_is_not_lost():
    """W2: whatever follows the closing bookmark in the same bytes is an ordinary event."""
    server = FakeServer()
    server.put("a", size=1)
    async with cached(server, start=False) as (cache, _, changes):
        await cache.start()
        await asyncio.sleep(0.005)
        late = server.put("b", size=1)
        server.put("b", size=2)
        await cache.wait_synced(5)
        await settle()
        assert change_names(changes)[-1] in ("add b", "update b")
        assert cache.get(WIDGET, Key("default", "b"))["spec"]["size"] == 2
        assert late["metadata"]["uid"] == cache.get(WIDGET, Key("default", "b")).metadata.uid


@virtual_time
async def test_a_dropped_stream_resumes_from_the_last_event():
    """W3: no list after a drop, and nothing twice."""
    server = FakeServer()
    server.put("a")
    async with cached(server) as (cache, informer, changes):
        await cache.wait_synced(5)
        server.put("a")
        await settle()
        server.break_streams(ConnectionLostError("reset"))
        await settle(0.1)
        server.put("b")
        await settle(5)
        assert server.log[1:] == ["watch rv='102' initial=False"]
        assert change_names(changes) == ["add a", "update a", "add b"]
        assert content(informer) == truth(server)


@virtual_time
async def test_bookmarks_keep_the_position_fresh_while_nothing_happens():
    """W3: an hour of silence for this kind, a compaction of the rest, and still no list."""
    server = FakeServer()
    server.put("a")
    async with cached(server) as (cache, _, _):
        await cache.wait_synced(5)
        for _ in range(60):
            await asyncio.sleep(60)
            server.version += 1000
            for stream in server.streams:
                stream.version = server.version
            await asyncio.sleep(120)
            server.compact(server.version - 2000)
        assert sum("initial=True" in r for r in server.log) == 1


@pytest.mark.parametrize("how", ["status", "event"])
def test_410_on_a_watch_ends_in_one_fresh_list(how):
    """W4: as an HTTP status and as an ERROR event in the stream."""

    @virtual_time
    async def run():
        server = FakeServer()
        server.put("a")
        async with cached(server) as (cache, informer, changes):
            await cache.wait_synced(5)
            if how == "event":
                server.say(line("ERROR", status(410, "Expired", "too old resource version")))
                await settle(0.001)
            else:
                server.break_streams(ConnectionLostError("reset"))
                server.put("b")
                server.compact()
            await settle(3)
            await asyncio.sleep(600)
            assert sum("initial=True" in r for r in server.log) == 2
            assert content(informer) == truth(server)
            assert len(changes) == len(truth(server))

    run()


@virtual_time
async def test_410_on_a_continue_token_starts_the_list_afresh():
    """W4: the tokens expire while the pages are read."""
    server = FakeServer(watch_list=False, page=2)
    for name in "abcdef":
        server.put(name)
    async with cached(server) as (cache, informer, _):
        await asyncio.sleep(0.025)
        server.tokens.clear()
        await cache.wait_synced(5)
        assert [r for r in server.log if "first" in r] == ["list rv='' first"] * 2
        assert content(informer) == truth(server)


@pytest.mark.parametrize("watch_list", [True, False])
def test_a_relist_deletes_what_vanished_and_tells_a_recreated_object_apart(watch_list):
    """W5: deletes with the last known state; a new uid under the same name is a delete and an add."""

    @virtual_time
    async def run():
        server = FakeServer(watch_list=watch_list)
        for name in ("kept", "changed", "gone", "again"):
            server.put(name, size=1)
        async with cached(server) as (cache, informer, changes):
            await cache.wait_synced(5)
            was = {e.key.name: e for e in informer.entries()}
            changes.clear()
            server.break_streams(ConnectionLostError("reset"))
            server.delete("gone")
            server.delete("again")
            server.put("again", size=2)
            server.put("changed", size=2)
            server.compact()
            await settle(10)
            assert sorted(change_names(changes)) == ["add again", "delete again", "delete gone", "update changed"]
            words = change_names(changes)
            assert words.index("delete again") < words.index("add again")
            deleted = next(c for c in changes if c.type == "delete" and c.key.name == "gone")
            assert deleted.old == was["gone"]
            assert deleted.old.object(WIDGET)["spec"] == {"size": 1}
            update = next(c for c in changes if c.type == "update")
            assert (update.old.object(WIDGET)["spec"]["size"], update.new.object(WIDGET)["spec"]["size"]) == (1, 2)
            assert not any(c.initial for c in changes)
            assert content(informer) == truth(server)

    run()


@virtual_time
async def test_delete_and_add_under_one_name_in_the_stream_are_two_changes():
    """W5: also when the delete event itself was lost."""
    server = FakeServer()
    server.put("a")
    async with cached(server) as (cache, informer, changes):
        await cache.wait_synced(5)
        server.delete("a")
        server.put("a")
        server.history = [h for h in server.history if h[1] != "DELETED"]
        await settle()
        assert change_names(changes) == ["add a", "delete a", "add a"]
        assert changes[1].old.uid == changes[0].new.uid != changes[2].new.uid
        assert content(informer) == truth(server)


@virtual_time
async def test_refused_connections_back_off_with_jitter_and_without_a_relist():
    """W6: the attempts spread out from 0.8 s to 30 s; then the watch goes on where it was."""
    server = FakeServer()
    server.put("a")
    loop = asyncio.get_running_loop()
    async with cached(server) as (cache, informer, _):
        await cache.wait_synced(5)
        times = []

        class Noting(list):
            def __bool__(self):
                times.append(loop.time())
                return True

            def pop(self, _at=0):
                return ConnectError("connection refused")

        server.refuse_watches = Noting()
        server.break_streams(ConnectionLostError("the server went away"))
        await asyncio.sleep(300)
        waits = [b - a for a, b in itertools.pairwise(times)]
        for wait, base in zip(waits, (1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0), strict=False):
            assert base <= wait <= base * 1.5 + 0.1
        assert "connection refused" in informer.problem
        server.refuse_watches = []
        server.put("b")
        await asyncio.sleep(60)
        assert informer.problem == ""
        assert sum("initial=True" in r for r in server.log) == 1
        assert content(informer) == truth(server)


@virtual_time
async def test_retry_after_is_honoured():
    """W6: 429 with Retry-After waits at least that long."""
    server = FakeServer()
    async with cached(server) as (cache, _, _):
        await cache.wait_synced(5)
        server.refuse_watches = [api_error(429, "TooManyRequests", retry_after=20)]
        server.break_streams(None)
        await asyncio.sleep(19)
        requests = len(server.log)
        await asyncio.sleep(15)
        assert len(server.log) == requests + 1
        assert sum("initial=True" in r for r in server.log) == 1


@virtual_time
async def test_half_open_tcp_is_found_out_within_a_minute():
    """W7: a stream with neither event nor bookmark is dead after the server's timeout and some slack."""
    server = FakeServer()
    server.put("a")
    async with cached(server) as (cache, informer, _):
        await cache.wait_synced(5)
        server.silence()
        server.put("b")
        await asyncio.sleep(60)
        assert content(informer) == truth(server)
        assert server.log[1:] == ["watch rv='101' initial=False"]


@virtual_time
async def test_a_quiet_but_living_server_is_not_taken_for_dead():
    """W7: bookmarks are life enough."""
    server = FakeServer()
    async with cached(server) as (cache, informer, _):
        await cache.wait_synced(5)
        await asyncio.sleep(3600)
        assert informer.problem == ""
        assert sum("initial=True" in r for r in server.log) == 1
        assert len(server.log) <= 3600 / 40 + 2


@pytest.mark.parametrize("chop", [1, 7, 64 * 1024])
def test_only_newlines_split_the_stream(chop):
    """W8: U+0085, U+2028 and carriage returns inside strings are ordinary characters, wherever chunks end."""

    @virtual_time
    async def run():
        nasty = "a\u0085b\u2028c\u2029d\x0b\x0c\r\x1c end"
        server = FakeServer()
        server.put("a", text=nasty)
        server.chop = chop
        async with cached(server) as (cache, _, _):
            await cache.wait_synced(60)
            server.put("a", text=nasty * 2)
            await settle()
            assert cache.get(WIDGET, A)["spec"]["text"] == nasty * 2

    run()


@virtual_time
async def test_an_object_of_three_megabytes_is_an_object():
    """W8: one line may be 3 MB, in many chunks."""
    server = FakeServer()
    server.put("a", text="x" * 3_000_000)
    server.chop = 16 * 1024
    async with cached(server) as (cache, informer, _):
        await cache.wait_synced(60)
        server.put("a", text="y" * 3_000_000)
        await settle()
        assert cache.get(WIDGET, A)["spec"]["text"] == "y" * 3_000_000
        assert informer.get(A).size > 3_000_000


class Spec(Model):
    size: int


class Widget(Resource, group="widgets.example.com", version="v1"):
    spec: Spec


@virtual_time
async def test_an_object_that_does_not_fit_its_type_stops_nothing(capsys):
    """W9: counted, logged once per version with the path, listed and deleted by key, and read as an error."""
    server = FakeServer()
    server.put("good", size=1)
    server.put("bad", size="many")
    async with cached(server) as (cache, informer, changes):
        await cache.wait_synced(5)
        bad = Key("default", "bad")
        for _ in range(3):
            with pytest.raises(UndecodableError) as caught:
                cache.get(Widget, bad)
        assert (caught.value.key, caught.value.path) == (bad, "$.spec.size")
        assert "Widget default/bad" in str(caught.value)
        assert [w.metadata.name for w in cache.list(Widget, namespace=ALL_NAMESPACES)] == ["good"]
        assert {e.key.name for e in informer.entries()} == {"good", "bad"}
        assert cache.get(WIDGET, bad)["spec"]["size"] == "many", "another view reads it"
        assert [u.key for u in informer.undecodables] == [bad]
        logged = capsys.readouterr().out
        assert logged.count("object_undecodable") == 1
        assert "$.spec.size" in logged
        server.put("bad", size=2)
        await settle()
        assert cache.get(Widget, bad).spec.size == 2
        server.put("bad", size=None)
        await settle()
        with pytest.raises(UndecodableError):
            cache.get(Widget, bad)
        server.delete("bad")
        await settle()
        assert informer.undecodables == ()
        assert change_names(changes)[-1] == "delete bad"


@virtual_time
async def test_even_metadata_of_unexpected_types_stops_nothing():
    """W9: where the metadata itself does not fit, the key is still known."""
    server = FakeServer()
    odd = {"metadata": {"name": "odd", "namespace": "default", "generation": "three", "ownerReferences": {"a": 1}}}
    server.put_raw(odd)
    async with cached(server) as (cache, informer, changes):
        await cache.wait_synced(5)
        entry = informer.get(Key("default", "odd"))
        assert entry.generation == 0
        with pytest.raises(UndecodableError):
            entry.metadata()
        server.delete("odd")
        await settle()
        assert change_names(changes) == ["add odd", "delete odd"]


@virtual_time
async def test_bytes_that_are_no_json_are_listed_around():
    """W9: a malformed line neither stops the reflector nor loses the events around it."""
    server = FakeServer()
    server.put("a")
    async with cached(server) as (cache, informer, changes):
        await cache.wait_synced(5)
        server.say(b'{"type":"MODIFIED","object":{"metadata":{"na\n')
        server.put("b")
        await asyncio.sleep(30)
        assert content(informer) == truth(server)
        assert change_names(changes) == ["add a", "add b"]


@virtual_time
async def test_a_bookmark_has_neither_name_nor_creation_time():
    """W3: a bookmark with a null creationTimestamp and no name moves the position and touches nothing else."""
    server = FakeServer()
    async with cached(server) as (cache, informer, changes):
        await cache.wait_synced(5)
        server.say(server.bookmark(4711))
        await settle()
        assert informer.version == "4711"
        assert (len(informer), changes) == (0, [])


@virtual_time
async def test_a_missing_definition_parks_the_watch_until_it_is_there(capsys):
    """W10: one clear line, no crash, and a start by itself."""
    server = FakeServer()
    server.served = False
    async with cached(server) as (cache, informer, changes):
        with pytest.raises(SyncTimeoutError, match=r"Widget\.widgets\.example\.com: the kind is not served yet"):
            await cache.wait_synced(100)
        assert informer.parked
        assert capsys.readouterr().out.count("kind_not_served") == 1
        server.served = True
        server.put("a")
        await cache.wait_synced(50)
        assert not informer.parked
        assert change_names(changes) == ["add a"]


@virtual_time
async def test_a_removed_definition_empties_the_store_with_deletes():
    """W10: and when it returns, so do its new objects."""
    server = FakeServer()
    server.put("a")
    server.put("b")
    async with cached(server) as (cache, informer, changes):
        await cache.wait_synced(5)
        server.served = False
        server.break_streams(None)
        await asyncio.sleep(10)
        assert sorted(change_names(changes)) == ["add a", "add b", "delete a", "delete b"]
        assert len(informer) == 0
        assert informer.parked
        server.served = True
        server.objects.clear()
        server.put("c")
        await asyncio.sleep(60)
        assert content(informer) == truth(server)


@virtual_time
async def test_one_404_of_a_starting_server_empties_nothing():
    """W10: the second look finds the kind again."""
    server = FakeServer()
    server.put("a")
    async with cached(server) as (cache, informer, changes):
        await cache.wait_synced(5)
        server.refuse_watches = [api_error(404, "NotFound")]
        server.break_streams(None)
        await asyncio.sleep(10)
        assert change_names(changes) == ["add a"]
        assert content(informer) == truth(server)


@virtual_time
async def test_all_views_of_a_kind_share_one_store():
    """W11: typed, dynamic and metadata-only views, declared in any order, are one watch."""
    from steersman.models import metadata_of

    server = FakeServer()
    server.put("a", size=1, labels={"app": "x"})
    async with cached(server) as (cache, informer, _):
        assert cache.informer(Widget) is informer
        assert cache.informer(metadata_of(Widget)) is informer
        assert cache.informer(Widget, namespace="default") is not informer
        assert cache.informer(Widget, labels="app=x") is cache.informer(Widget, labels="app=x")
        await cache.wait_synced(5)
        assert len([r for r in server.log if "initial=True" in r]) == 3
        assert cache.get(Widget, A).spec.size == 1
        assert isinstance(cache.get(Widget, A).metadata, ObjectMeta)
        assert cache.get(metadata_of(Widget), A).metadata.labels == {"app": "x"}
        assert cache.get(WIDGET, A)["spec"] == {"size": 1}


@virtual_time
async def test_synced_means_that_the_handlers_have_run():
    """C3: and in a big collection too, where they run in slices."""
    server = FakeServer()
    for n in range(2500):
        server.objects["default", f"w{n}"] = {
            "apiVersion": "widgets.example.com/v1", "kind": "Widget",
            "metadata": {"name": f"w{n}", "namespace": "default", "uid": f"u{n}", "resourceVersion": str(n + 1)},
        }  # fmt: skip
    heard = []
    async with cached(server) as (cache, informer, changes):

        def late(change):
            heard.append(change.key.name)

        def joins_in_the_middle(change):
            if change.key.name == "w5":
                informer.add_handler(late)

        informer.add_handler(joins_in_the_middle)
        await cache.wait_synced(5)
        assert len(changes) == 2500
        assert sorted(heard) == sorted(f"w{n}" for n in range(2500))


@virtual_time
async def test_a_handler_that_fails_harms_nobody(capsys):
    """R1: the exception is logged and counted; other handlers and later events are not touched."""
    server = FakeServer()
    server.put("a")
    async with cached(server) as (cache, informer, changes):
        informer.add_handler(lambda _change: 1 / 0)
        after = []
        informer.add_handler(after.append)
        await cache.wait_synced(5)
        server.put("b")
        await settle()
        assert change_names(changes) == change_names(after) == ["add a", "add b"]
        assert "ZeroDivisionError" in capsys.readouterr().out


@virtual_time
async def test_a_handler_added_later_hears_what_is_there():
    server = FakeServer()
    server.put("a")
    async with cached(server) as (cache, informer, _):
        await cache.wait_synced(5)
        late = []
        informer.add_handler(late.append)
        assert [(c.type, c.initial) for c in late] == [("add", True)]
        informer.remove_handler(late.append)


@virtual_time
async def test_a_forbidden_kind_says_so_and_waits_for_the_right():
    server = FakeServer()
    server.refusals = [api_error(403, "Forbidden", "widgets is forbidden: User cannot list")] * 3
    async with cached(server) as (cache, informer, _):
        await settle(0.5)
        assert "forbidden" in informer.problem
        await cache.wait_synced(60)
        assert informer.problem == ""


@virtual_time
async def test_closing_stops_all_tasks_and_reads_go_on():
    server = FakeServer()
    server.put("a")
    async with cached(server) as (cache, _, _):
        await cache.wait_synced(5)
        await cache.close()
        await cache.close()
        assert cache.get(WIDGET, A) is not None
        assert server.streams == []


def test_the_server_of_these_tests_speaks_json():
    assert json.loads(line("ADDED", {"a": "\u0085"}))["object"] == {"a": "\u0085"}
    assert logging.getLogger() is not None


@virtual_time
async def test_a_stream_that_waits_for_more_holds_nothing_of_what_came():
    """Many idle streams would keep megabytes of their last chunks alive."""
    server = FakeServer()
    for name in "abc":
        server.put(name, text="x" * 1000)
    async with cached(server) as (cache, informer, _):
        await cache.wait_synced(5)
        await settle()
        waiting, held = cache._tasks[informer].get_coro(), []
        while hasattr(waiting, "cr_frame"):
            for value in waiting.cr_frame.f_locals.values():
                held += value if isinstance(value, list) else [value]
            waiting = waiting.cr_await
        assert held
        assert not [value for value in held if isinstance(value, bytes)]
