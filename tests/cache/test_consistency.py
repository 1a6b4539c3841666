"""Read your own writes: what waits, for what, and for how long."""

import asyncio
import itertools
from typing import NamedTuple

from cache_fakeserver import FakeServer, cached, widget_view
from hypothesis import given
from hypothesis import strategies as st

from steersman.cache.consistency import OwnWrites
from steersman.cache.outstanding import OutstandingVersions
from steersman.cache.versions import at_least, older
from steersman.client.hooks import WriteOutcome
from steersman.models import Key
from steersman.testing import virtual_time

WIDGET = widget_view()
A = Key("default", "a")


class Writer:
    """Writes to the fake server as a client would, telling the cache's observer."""

    def __init__(self, cache, server):
        self.observer, self.server = cache._observer, server

    def write(self, name, answer_lost=False, **spec):
        [ended] = self.observer.before_write(WIDGET.info, Key("default", name), "apply")
        obj = self.server.put(name, **spec)
        meta = obj["metadata"]
        ended(None if answer_lost else WriteOutcome(meta["uid"], meta["resourceVersion"]))
        return meta

    def delete(self, name):
        [ended] = self.observer.before_write(WIDGET.info, Key("default", name), "delete")
        uid = self.server.objects["default", name]["metadata"]["uid"]
        self.server.delete(name)
        ended(WriteOutcome(uid, "", deleted=True))


@virtual_time
async def test_a_read_after_a_write_is_never_older_than_the_write():
    """C2: the barrier holds until the watch has brought the write."""
    server = FakeServer()
    server.put("a", size=1)
    async with cached(server) as (cache, _, _):
        await cache.wait_synced(5)
        writer = Writer(cache, server)
        assert not cache.outstanding(WIDGET)
        writer.write("a", size=2)
        assert cache.get(WIDGET, A)["spec"]["size"] == 1, "without the barrier the read is older"
        assert cache.outstanding(WIDGET, A)
        assert cache.outstanding(WIDGET), "a list of the kind is held back too"
        assert not cache.outstanding(WIDGET, Key("default", "b")), "other objects are not"
        assert await cache.read_barrier(WIDGET, A)
        assert cache.get(WIDGET, A)["spec"]["size"] == 2
        assert not cache.outstanding(WIDGET)


@virtual_time
async def test_a_create_is_waited_for_by_key_and_a_delete_counts():
    """C2: create, then delete, then create again under the same name."""
    server = FakeServer()
    async with cached(server) as (cache, _, _):
        await cache.wait_synced(5)
        writer = Writer(cache, server)
        writer.write("a", size=1)
        assert await cache.read_barrier(WIDGET, A)
        assert cache.get(WIDGET, A) is not None
        writer.delete("a")
        assert cache.get(WIDGET, A) is not None
        assert await cache.read_barrier(WIDGET)
        assert cache.get(WIDGET, A) is None
        again = writer.write("a", size=2)
        assert await cache.read_barrier(WIDGET, A)
        assert cache.get(WIDGET, A).metadata.uid == again["uid"]


@virtual_time
async def test_a_delete_right_after_a_create_does_not_show_the_object_later():
    """C2: the object is not there yet when its delete returns, and must not come up afterwards."""
    server = FakeServer()
    async with cached(server) as (cache, _, changes):
        await cache.wait_synced(5)
        writer = Writer(cache, server)
        writer.write("a", size=1)
        writer.delete("a")
        assert cache.outstanding(WIDGET, A)
        assert await cache.read_barrier(WIDGET, A)
        assert cache.get(WIDGET, A) is None
        await asyncio.sleep(5)
        assert cache.get(WIDGET, A) is None
        assert [c.type for c in changes] == ["add", "delete"]


@virtual_time
async def test_a_wait_is_bounded_and_holds_back_nobody_afterwards():
    """C2: a watch that hangs delays one reader, once, and is logged."""
    server = FakeServer()
    async with cached(server) as (cache, _, _):
        await cache.wait_synced(5)
        server.silence()
        Writer(cache, server).write("a", size=1)
        loop = asyncio.get_running_loop()
        before = loop.time()
        assert await cache.read_barrier(WIDGET, A, timeout=2.0) is False
        assert 2.0 <= loop.time() - before < 2.1
        assert not cache.outstanding(WIDGET)


@virtual_time
async def test_a_write_that_changed_nothing_holds_back_nobody():
    """C2: an apply without effect returns the version that is already cached."""
    server = FakeServer()
    meta = server.put("a", size=1)["metadata"]
    async with cached(server) as (cache, _, _):
        await cache.wait_synced(5)
        [ended] = cache._observer.before_write(WIDGET.info, A, "apply")
        ended(WriteOutcome(meta["uid"], meta["resourceVersion"]))
        assert not cache.outstanding(WIDGET)


@virtual_time
async def test_a_write_whose_answer_was_lost_holds_back_nobody():
    """C2: its version is not known before the next event."""
    server = FakeServer()
    async with cached(server) as (cache, informer, _):
        await cache.wait_synced(5)
        Writer(cache, server).write("a", answer_lost=True)
        assert not cache.outstanding(WIDGET)
        assert not informer.writes.active


@virtual_time
async def test_many_readers_wait_for_their_own_writes_and_cancelled_ones_leave_nothing():
    """C2: each reader goes on when its object has arrived."""
    server = FakeServer()
    async with cached(server) as (cache, informer, _):
        await cache.wait_synced(5)
        writer = Writer(cache, server)
        for name in "abc":
            writer.write(name)
        readers = [asyncio.create_task(cache.read_barrier(WIDGET, Key("default", n))) for n in "abc"]
        impatient = asyncio.create_task(cache.read_barrier(WIDGET))
        await asyncio.sleep(0)
        impatient.cancel()
        assert await asyncio.gather(*readers) == [True] * 3
        assert not informer.writes.awaited
        assert not informer.writes.active


@virtual_time
async def test_an_informer_of_another_namespace_is_not_waited_for():
    """C2: what cannot show the write need not have seen it."""
    server = FakeServer()
    async with cached(server, namespace="elsewhere") as (cache, informer, _):
        await cache.wait_synced(5)
        assert cache._observer.before_write(WIDGET.info, A, "apply") == []
        assert not informer.writes.active


@virtual_time
async def test_an_informer_says_which_versions_it_has_seen():
    """C2: an own write is seen once its version, or a later one, has come in."""
    server = FakeServer()
    async with cached(server) as (cache, informer, _):
        await cache.wait_synced(5)
        meta = Writer(cache, server).write("a", size=1)
        server.put("a", size=2)
        await asyncio.sleep(1)
        assert informer.seen(A, meta["resourceVersion"])
        assert not informer.seen(A, "999999")


class Opaque:
    """A watched kind whose versions cannot be compared."""

    def __init__(self):
        self.version, self.entries = "", {}

    def get(self, key):
        return self.entries.get(key)


class Known(NamedTuple):
    """An entry, as far as own writes look at it."""

    uid: str
    resource_version: str = "1"


def test_versions_without_an_order_are_recognised_when_they_come_by():
    """C2: also where the event overtakes the response, and where a later version is all that is left."""
    for overtakes in (True, False):
        watched = Opaque()
        writes = OwnWrites(watched)
        ended = writes.begin(A)
        if overtakes:
            writes.event_received(A, "v-x")
            writes.advance()
        ended(WriteOutcome("u", "v-x"))
        assert writes.unseen(A) is not overtakes
        if not overtakes:
            writes.event_received(A, "v-x")
            writes.advance()
        assert not writes.unseen(A)
        assert not writes.active


def test_versions_compare_as_numbers_where_they_are_numbers():
    """W1: KEP-5504; 9 is older than 10, and words are only equal or not."""
    numbers = ["9", "10", "100"]
    for (i, a), (j, b) in itertools.product(enumerate(numbers), repeat=2):
        assert older(a, b) is (i < j)
        assert at_least(a, b) is (i >= j)
    assert not older("a", "b")
    assert at_least("a", "a")
    assert not at_least("b", "a")


class Counting:
    """A watched kind that counts how often it is asked: the work that own writes cause."""

    def __init__(self):
        self._version, self.asked = "100", 0

    @property
    def version(self):
        self.asked += 1
        return self._version

    @version.setter
    def version(self, version):
        self._version = version

    def get(self, key):
        self.asked += 1


TRIM_AFTER_OBJECTS = 10_000


def outstanding(many=TRIM_AFTER_OBJECTS):
    """Writes to as many objects, none of which the watch has brought."""
    watched = Counting()
    writes = OwnWrites(watched)
    for i in range(many):
        writes.begin(Key("default", f"w{i}"))(WriteOutcome(f"uid-{i}", str(1000 + i)))
    watched.asked = 0
    return watched, writes


def test_with_ten_thousand_writes_outstanding_each_event_looks_at_its_own():
    """C2: a watch that lags behind costs what a prompt one costs."""
    watched, writes = outstanding()
    for i in range(TRIM_AFTER_OBJECTS):
        key = Key("default", f"w{i}")
        assert writes.unseen(key)
        assert writes.unseen()
        writes.event_received(key, str(1000 + i))
        watched.version = str(1000 + i)
        writes.advance()
        assert not writes.unseen(key)
    assert watched.asked <= 4 * TRIM_AFTER_OBJECTS
    assert not writes.unseen()
    assert not writes.active


def test_events_of_others_cost_nothing_while_writes_are_outstanding():
    """C2: nor do many writes to one object, and an abandoned wait leaves no entry."""
    watched, writes = outstanding()
    for i in range(TRIM_AFTER_OBJECTS):
        writes.event_received(Key("default", "another"), str(200 + i % 700))
        watched.version = str(200 + i % 700)
        writes.advance()
    assert watched.asked <= 4 * TRIM_AFTER_OBJECTS
    for i in range(TRIM_AFTER_OBJECTS):
        writes.begin(A)(WriteOutcome("uid-a", str(20_000 + i)))
    watched.asked = 0
    for i in range(TRIM_AFTER_OBJECTS):
        writes.event_received(A, str(20_000 + i))
        watched.version = str(20_000 + i)
        writes.advance()
    assert watched.asked <= 2 * TRIM_AFTER_OBJECTS
    assert not writes.active
    assert not writes._plain._newest


@virtual_time
async def test_ten_thousand_readers_are_each_woken_by_their_own_write():
    """C2: readers of keys and of lists; a list waits for the writes from before it, not for all that follow."""
    watched, writes = outstanding()
    readers = [asyncio.create_task(writes.wait(Key("default", f"w{i}"), 5)) for i in range(TRIM_AFTER_OBJECTS)]
    lists = [asyncio.create_task(writes.wait(None, 5)) for _ in range(TRIM_AFTER_OBJECTS)]
    await asyncio.sleep(0)
    writes.begin(A)(WriteOutcome("uid-a", "99999"))
    assert watched.asked <= 2
    for i in range(TRIM_AFTER_OBJECTS):
        assert not lists[i].done()
        watched.version = str(1000 + i)
        writes.advance()
        if i % 1000 == 0:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert readers[i].done()
            assert not readers[i + 1].done()
    assert await asyncio.gather(*readers, *lists) == [True] * 2 * TRIM_AFTER_OBJECTS
    assert writes.unseen(A)
    assert await writes.wait(A, 1) is False
    assert not writes.active
    assert not any(not waiting.done() for _, _, waiting in writes._plain._waiting)


def test_of_two_writes_that_finish_out_of_order_the_newer_is_waited_for():
    """C2: the older response may come last."""
    watched, writes = outstanding(0)
    first, second = writes.begin(A), writes.begin(A)
    second(WriteOutcome("u", "202"))
    first(WriteOutcome("u", "201"))
    watched.version = "201"
    writes.advance()
    assert writes.unseen(A)
    watched.version = "202"
    writes.advance()
    assert not writes.unseen(A)


def test_a_create_without_a_name_holds_back_its_namespace():
    """C2: with generateName the key is not known before the watch event."""
    watched, writes = outstanding(0)
    writes.begin(Key("default", ""))(WriteOutcome("u", "200"))
    assert writes.unseen(Key("default", "generated-x7k2p"))
    assert not writes.unseen(Key("elsewhere", "a"))
    watched.version = "200"
    writes.advance()
    assert not writes.unseen(Key("default", "generated-x7k2p"))


def test_a_delete_is_seen_by_its_event_or_by_a_list_without_the_object():
    """C2: whichever comes; a version that passes is not enough."""
    for relisted in (True, False):
        watched = Opaque()
        watched.version, watched.entries = "100", {A: Known("u")}
        writes = OwnWrites(watched)
        writes.begin(A, delete=True)(WriteOutcome(deleted=True))
        watched.version = "300"
        writes.advance()
        assert writes.unseen(A)
        watched.entries.clear()
        if not relisted:
            writes.event_received(A, "301")
        writes.advance(relisted=relisted)
        assert not writes.unseen(A)
        assert not writes.active


def test_writes_that_were_given_up_do_not_pile_up():
    """C2: a watch without progress keeps only the awaited writes."""

    @virtual_time
    async def run():
        _, writes = outstanding(0)
        for i in range(1000):
            writes.begin(Key("default", f"w{i}"))(WriteOutcome("u", str(1000 + i)))
            assert await writes.wait(Key("default", f"w{i}"), 1) is False
        assert len(writes._plain._waiting) < 100
        assert not writes._plain._newest
        assert not writes.active

    run()


KEYS = [Key("default", name) for name in ("", "a", "b")] + [Key("elsewhere", "a")]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("record_write"), st.sampled_from(KEYS), st.integers(1, 200)),
        st.tuples(st.just("passed"), st.none(), st.integers(0, 200)),
        st.tuples(st.just("given up"), st.one_of(st.none(), st.sampled_from(KEYS)), st.integers(1, 200)),
    )
)


@given(STEPS)
def test_what_a_read_needs_is_the_newest_of_the_writes_that_it_could_miss(steps):
    """C2: whatever comes in whichever order."""
    outstanding, writes, reached = OutstandingVersions(), [], 0

    def concerns(write, key):
        return key is None or write[0] in (key, Key(key.namespace, ""))

    for what, key, version in steps:
        if what == "record_write":
            if version > reached:
                outstanding.record_write(key, f"uid-{version}", version)
                writes.append((key, version))
        elif what == "passed":
            reached = max(reached, version)
            outstanding.passed(reached)
            writes = [w for w in writes if w[1] > reached]
        elif outstanding.needed(key):
            version = outstanding.needed(key)
            outstanding.give_up(key, version)
            writes = [w for w in writes if not concerns(w, key)]
        for key in (None, *KEYS):
            assert outstanding.needed(key) == max((w[1] for w in writes if concerns(w, key)), default=0)
