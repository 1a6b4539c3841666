"""The store: order, revisions, history, and the events of watches."""

import pytest

from steersman_cluster.objects import Object
from steersman_cluster.storage import CompactedError, Event, Storage

PODS = ("", "pods")
MAPS = ("", "configmaps")


def pod(name: str, **fields: object) -> Object:
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "a"}, **fields}


def put(storage: Storage, name: str, namespace: str = "a", **fields: object) -> int:
    return storage.put(PODS, namespace, name, pod(name, **fields)).revision


def names(storage: Storage, revision: int | None = None, namespace: str = "") -> list[str]:
    items = storage.items(PODS, namespace) if revision is None else storage.items_at(PODS, namespace, revision)
    return [item.name for item in items]


def test_a_write_puts_its_revision_into_the_object():
    storage = Storage()
    item = storage.put(PODS, "a", "web", pod("web"))
    assert item.object()["metadata"]["resourceVersion"] == str(item.revision) == str(storage.revision)


def test_one_revision_counts_the_writes_of_all_collections():
    storage = Storage()
    first = put(storage, "web")
    second = storage.put(MAPS, "a", "web", pod("web")).revision
    deleted = storage.delete(PODS, "a", "web")
    assert deleted is not None
    assert (second, deleted.revision) == (first + 1, first + 2)


def test_a_list_is_ordered_by_namespace_and_name_however_it_came():
    storage = Storage()
    for namespace, name in (("b", "x"), ("a", "z"), ("ab", "m"), ("a", "c"), ("a-b", "a")):
        put(storage, name, namespace)
    found = [(item.namespace, item.name) for item in storage.items(PODS)]
    assert found == sorted(found)
    assert names(storage, namespace="a") == ["c", "z"]


def test_the_last_state_of_a_deleted_object_has_the_revision_of_its_end():
    storage = Storage()
    put(storage, "web", spec={"a": 1})
    last = storage.delete(PODS, "a", "web")
    assert last is not None
    assert last.object()["spec"] == {"a": 1}
    assert last.object()["metadata"]["resourceVersion"] == str(storage.revision)
    assert storage.get(PODS, "a", "web") is None


def test_deleting_nothing_changes_nothing():
    storage = Storage()
    before = storage.revision
    assert storage.delete(PODS, "a", "web") is None
    assert storage.revision == before


def test_the_past_can_be_listed_while_it_is_remembered():
    storage = Storage()
    first = put(storage, "one")
    second = put(storage, "two")
    storage.delete(PODS, "a", "one")
    assert names(storage, first) == ["one"]
    assert names(storage, second) == ["one", "two"]
    assert names(storage, storage.revision) == ["two"]


def test_the_window_is_bounded_by_events():
    storage = Storage(window=2)
    first = put(storage, "one")
    for _ in range(3):
        put(storage, "two")
    with pytest.raises(CompactedError) as compacted:
        storage.items_at(PODS, "", first)
    assert compacted.value.oldest == storage.revision - 2
    assert len(list(storage.since(PODS, storage.revision - 2))) == 2


def test_the_window_is_bounded_by_bytes_so_that_large_objects_do_not_fill_the_memory():
    storage = Storage(window_bytes=1000)
    first = put(storage, "one")
    for _ in range(10):
        put(storage, "large", data="x" * 300)
    with pytest.raises(CompactedError):
        storage.since(PODS, first)
    assert 1 <= len(list(storage.since(PODS, storage.compacted))) <= 3


def test_what_other_collections_do_leaves_the_list_of_a_quiet_one_readable():
    storage = Storage(window=2)
    quiet = put(storage, "one")
    for _ in range(5):
        storage.put(MAPS, "a", "busy", pod("busy"))
    assert names(storage, quiet) == ["one"]


def test_events_since_a_revision_are_those_of_the_collection_in_order():
    storage = Storage()
    start = put(storage, "one")
    storage.put(MAPS, "a", "map", pod("map"))
    put(storage, "one")
    storage.delete(PODS, "a", "one")
    events = list(storage.since(PODS, start))
    assert [event.type for event in events] == ["MODIFIED", "DELETED"]
    assert [event.item.revision for event in events] == sorted(event.item.revision for event in events)


def test_compaction_forgets_the_past_and_keeps_the_present():
    storage = Storage()
    first = put(storage, "one")
    put(storage, "two")
    storage.compact()
    with pytest.raises(CompactedError):
        storage.items_at(PODS, "", first)
    assert names(storage) == ["one", "two"]
    assert [event.item.name for event in storage.since(PODS, first)] == ["two"]  # from the watch cache
    assert list(storage.since(PODS, storage.revision)) == []


def test_a_watcher_is_told_before_the_write_returns_and_no_longer_once_it_left():
    storage = Storage()
    told: list[Event] = []
    leave = storage.watch(PODS, told.append)
    put(storage, "one")
    storage.put(MAPS, "a", "map", pod("map"))
    assert [(event.type, event.item.name) for event in told] == [("ADDED", "one")]
    leave()
    put(storage, "one")
    assert len(told) == 1


def test_a_watcher_may_leave_while_it_is_told():
    storage = Storage()
    told: list[str] = []
    leave = storage.watch(PODS, lambda event: (told.append("first"), leave()))
    storage.watch(PODS, lambda event: told.append("second"))
    put(storage, "one")
    put(storage, "two")
    assert told == ["first", "second", "second"]


def test_what_a_listener_writes_is_told_after_what_it_heard():
    storage = Storage()
    told: list[Event] = []

    def finish(event: Event) -> None:
        if event.type == "ADDED":
            put(storage, event.item.name, status="accepted")
            storage.delete(PODS, "a", event.item.name)

    storage.on_change(finish)
    storage.watch(PODS, told.append)
    first = put(storage, "web")
    assert [(event.type, event.item.revision) for event in told] == [
        ("ADDED", first),
        ("MODIFIED", first + 1),
        ("DELETED", first + 2),
    ]


def test_a_listener_may_answer_every_event_with_a_write_for_as_long_as_it_likes():
    storage = Storage()
    for number in range(2000):
        put(storage, f"pod-{number}")

    def next_one(event: Event) -> None:
        for item in storage.items(PODS)[:1]:
            storage.delete(PODS, item.namespace, item.name)

    storage.on_change(next_one)
    storage.delete(PODS, "a", "pod-0")
    assert storage.count(PODS) == 0


def test_a_listener_that_fails_keeps_nobody_from_being_told():
    storage = Storage()
    told: list[str] = []

    def fail(event: Event) -> None:
        if event.item.name == "one":
            put(storage, "two")
            raise ValueError("no use for it")

    storage.on_change(fail)
    storage.watch(PODS, lambda event: told.append(event.item.name))
    with pytest.raises(ValueError, match="no use for it"):
        put(storage, "one")
    assert told == ["one", "two"]
    put(storage, "three")
    assert told == ["one", "two", "three"]


def test_labels_are_read_from_the_bytes():
    storage = Storage()
    item = storage.put(PODS, "a", "web", {"metadata": {"name": "web", "labels": {"app": "web"}}})
    bare = storage.put(PODS, "a", "bare", {"metadata": {"name": "bare"}})
    assert item.labels == {"app": "web"}
    assert bare.labels == {}


def test_what_a_reader_does_to_its_copy_stays_with_it():
    storage = Storage()
    item = storage.put(PODS, "a", "web", pod("web", spec={"a": 1}))
    item.object()["spec"]["a"] = 2
    assert item.object()["spec"]["a"] == 1
