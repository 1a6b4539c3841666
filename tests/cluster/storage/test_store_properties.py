"""The store against a model that keeps everything for ever: any order of writes, reads of the past, and restarts."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from steersman_cluster.storage import CompactedError, Database, Event, Storage

RESOURCES = (("", "pods"), ("apps", "deployments"))
resources = st.sampled_from(RESOURCES)
namespaces = st.sampled_from(("", "a", "a-b", "b"))
names = st.sampled_from(("one", "two", "three", "0"))
Key = tuple[str, str]


class StoreMachine(RuleBasedStateMachine):
    """`past` maps every revision since the last start to the keys and values of each collection."""

    WINDOW = 6

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.database = Database(self.directory / "cluster.db")
        self.seconds = 0.0
        self.storage = Storage(self.database, window=self.WINDOW, now=self.now)
        self.present: dict[tuple[str, str], dict[Key, int]] = {resource: {} for resource in RESOURCES}
        self.past = {self.storage.revision: self._copy()}
        self.happened: list[tuple[tuple[str, str], str, Key, int]] = []
        self._watch()
        self.counter = 0

    def now(self) -> float:
        return self.seconds

    def _watch(self) -> None:
        self.told: list[Event] = []
        self.watched_from = len(self.happened)
        for resource in RESOURCES:
            self.storage.watch(resource, self.told.append)

    def _copy(self) -> dict[tuple[str, str], dict[Key, int]]:
        return {resource: dict(items) for resource, items in self.present.items()}

    @rule(resource=resources, namespace=namespaces, name=names)
    def put(self, resource: tuple[str, str], namespace: str, name: str) -> None:
        self.counter += 1
        item = self.storage.put(resource, namespace, name, {"metadata": {"name": name}, "n": self.counter})
        known = self.present[resource]
        kind = "MODIFIED" if (namespace, name) in known else "ADDED"
        known[namespace, name] = self.counter
        self.happened.append((resource, kind, (namespace, name), item.revision))
        self.past[item.revision] = self._copy()

    @rule(resource=resources, namespace=namespaces, name=names)
    def delete(self, resource: tuple[str, str], namespace: str, name: str) -> None:
        item = self.storage.delete(resource, namespace, name)
        gone = self.present[resource].pop((namespace, name), None)
        assert (item is None) == (gone is None)
        if item is not None:
            assert item.object()["n"] == gone
            self.happened.append((resource, "DELETED", (namespace, name), item.revision))
            self.past[item.revision] = self._copy()

    @rule()
    def restart(self) -> None:
        self.database.close()
        self.database = Database(self.directory / "cluster.db")
        self.storage = Storage(self.database, window=self.WINDOW, now=self.now)
        assert self.storage.revision == max(self.past)
        self._watch()

    @rule(seconds=st.sampled_from((1.0, 80.0, 299.0, 300.0, 1000.0)))
    def time_passes(self, seconds: float) -> None:
        self.seconds += seconds

    @rule()
    def compact(self) -> None:
        self.storage.compact()

    @rule(resource=resources, namespace=namespaces, back=st.integers(0, 12))
    def list_the_past(self, resource: tuple[str, str], namespace: str, back: int) -> None:
        revision = max(1, self.storage.revision - back)
        try:
            items = self.storage.items_at(resource, namespace, revision)
        except CompactedError:
            assert revision < self.storage.compacted
            return
        found = {(i.namespace, i.name): i.object()["n"] for i in items}
        wanted = {k: v for k, v in self.past[revision][resource].items() if namespace in ("", k[0])}
        assert found == wanted
        assert list(found) == sorted(found)

    @rule(resource=resources, back=st.integers(0, 12))
    def events_of_the_past(self, resource: tuple[str, str], back: int) -> None:
        revision = max(1, self.storage.revision - back)
        try:
            events = list(self.storage.since(resource, revision))
        except CompactedError:
            assert revision < self.storage.compacted
            return
        assert [(e.type, (e.item.namespace, e.item.name), e.item.revision) for e in events] == [
            (kind, key, at) for of, kind, key, at in self.happened if of == resource and at > revision
        ]
        for event in events:
            before = self.past[event.item.revision - 1][resource].get((event.item.namespace, event.item.name))
            assert (None if event.before is None else event.before.object()["n"]) == before

    @invariant()
    def the_present_is_the_model(self) -> None:
        for resource, wanted in self.present.items():
            items = self.storage.items(resource)
            assert {(i.namespace, i.name): i.object()["n"] for i in items} == wanted
            assert [(i.namespace, i.name) for i in items] == sorted(wanted)
            assert self.storage.count(resource) == len(wanted)

    @invariant()
    def watchers_were_told_everything_once(self) -> None:
        told = [(e.resource, e.type, (e.item.namespace, e.item.name), e.item.revision) for e in self.told]
        assert told == self.happened[self.watched_from :]

    @invariant()
    def the_window_is_kept(self) -> None:
        assert self.storage.revision - self.storage.compacted <= self.WINDOW

    def teardown(self) -> None:
        self.database.close()
        shutil.rmtree(self.directory)


StoreMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestStore = StoreMachine.TestCase
