"""History expires by time: lists of the past and watches of Events after five minutes, other watches by freshness."""

import pytest

from steersman_cluster.objects import Object
from steersman_cluster.storage import CompactedError, Storage
from steersman_cluster.storage.history import (
    COMPACTION_INTERVAL_SECONDS,
    EVENT_FRESH_SECONDS,
    MIN_WATCH_EVENTS,
    WatchHistory,
)

MAPS = ("", "configmaps")
PODS = ("", "pods")
EVENTS = ("", "events")


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds

    def passes(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def storage(clock: Clock) -> Storage:
    return Storage(now=clock)


def put(storage: Storage, resource: tuple[str, str], name: str) -> int:
    obj: Object = {"metadata": {"name": name, "namespace": "a"}}
    return storage.put(resource, "a", name, obj).revision


def test_a_list_of_the_past_is_served_for_five_minutes_and_expires_within_ten(storage: Storage, clock: Clock):
    first = put(storage, MAPS, "one")
    put(storage, MAPS, "two")
    clock.passes(COMPACTION_INTERVAL_SECONDS)
    put(storage, MAPS, "three")
    assert [item.name for item in storage.items_at(MAPS, "", first)] == ["one"]
    clock.passes(COMPACTION_INTERVAL_SECONDS)
    with pytest.raises(CompactedError):
        storage.items_at(MAPS, "", first)


def test_a_revision_expires_for_collections_without_a_write_since_too(storage: Storage, clock: Clock):
    quiet = put(storage, MAPS, "quiet")
    put(storage, PODS, "busy")
    clock.passes(2 * COMPACTION_INTERVAL_SECONDS)
    with pytest.raises(CompactedError):
        storage.items_at(MAPS, "", quiet)


def test_the_present_revision_never_expires(storage: Storage, clock: Clock):
    latest = put(storage, MAPS, "one")
    clock.passes(100 * COMPACTION_INTERVAL_SECONDS)
    assert [item.name for item in storage.items_at(MAPS, "", latest)] == ["one"]
    assert list(storage.since(EVENTS, latest)) == []


def test_a_compaction_goes_up_to_what_was_written_when_the_interval_before_ended(storage: Storage, clock: Clock):
    put(storage, MAPS, "one")
    clock.passes(COMPACTION_INTERVAL_SECONDS)
    at_the_first_tick = storage.revision
    later = put(storage, MAPS, "two")
    put(storage, MAPS, "three")
    clock.passes(COMPACTION_INTERVAL_SECONDS)
    assert storage.compacted == at_the_first_tick
    assert [item.name for item in storage.items_at(MAPS, "", later)] == ["one", "two"]
    clock.passes(COMPACTION_INTERVAL_SECONDS)
    assert storage.compacted == storage.revision


def test_watches_of_events_expire_with_the_compaction_as_they_are_not_cached(storage: Storage, clock: Clock):
    first = put(storage, EVENTS, "one")
    put(storage, EVENTS, "two")
    clock.passes(COMPACTION_INTERVAL_SECONDS)
    assert [event.item.name for event in storage.since(EVENTS, first)] == ["two"]
    clock.passes(COMPACTION_INTERVAL_SECONDS)
    with pytest.raises(CompactedError):
        storage.since(EVENTS, first)


def test_watches_of_a_quiet_kind_go_on_from_long_ago(storage: Storage, clock: Clock):
    first = put(storage, MAPS, "one")
    put(storage, MAPS, "two")
    clock.passes(100 * COMPACTION_INTERVAL_SECONDS)
    assert [event.item.name for event in storage.since(MAPS, first)] == ["two"]


def test_watches_of_a_busy_kind_expire_when_their_revision_is_no_longer_fresh(storage: Storage, clock: Clock):
    first = put(storage, MAPS, "old")
    put(storage, MAPS, "old")
    clock.passes(EVENT_FRESH_SECONDS)
    for _ in range(MIN_WATCH_EVENTS):
        put(storage, MAPS, "new")
    with pytest.raises(CompactedError) as compacted:
        storage.since(MAPS, first)
    oldest = compacted.value.oldest
    assert len(list(storage.since(MAPS, oldest))) == MIN_WATCH_EVENTS
    assert list(storage.since(PODS, first)) == []


def test_a_burst_of_fresh_events_is_remembered_as_a_whole():
    history = WatchHistory(beginning=1)
    for revision in range(2, 2 + 50 * MIN_WATCH_EVENTS):
        history.add(revision, 0.0)
    assert history.forgotten == 1


def test_the_history_of_a_burst_shrinks_when_its_events_are_no_longer_fresh():
    history = WatchHistory(beginning=0)
    for revision in range(1, 16 * MIN_WATCH_EVENTS + 1):
        history.add(revision, 0.0)
    last = 17 * MIN_WATCH_EVENTS + 1
    for revision in range(16 * MIN_WATCH_EVENTS + 1, last + 1):
        history.add(revision, EVENT_FRESH_SECONDS + 2.0 * revision)
    assert last - history.forgotten == MIN_WATCH_EVENTS


def test_the_history_of_watches_is_bounded_however_fresh_its_events_are():
    history = WatchHistory(beginning=0, limit=2 * MIN_WATCH_EVENTS)
    for revision in range(1, 5 * MIN_WATCH_EVENTS + 1):
        history.add(revision, 0.0)
    assert history.forgotten == 3 * MIN_WATCH_EVENTS
