"""The status that a reconcile returns does not wake its controller; nothing else is ever taken for that."""

import asyncio
from contextlib import asynccontextmanager
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steersman.cache.entry import UndecodableError
from steersman.controller import Controller, Request, Source
from steersman.controller.request import StatusWritten
from steersman.controller.status import write_status
from steersman.controller.status_echoes import StatusEchoes, _differs_by_bytes, _differs_by_value
from steersman.models import Key, ObjectMeta, from_dict, replace, to_dict, view_of
from steersman.testing import virtual_time

from .api import Api
from .fakes import FakeEntry, FakeInformer, added, updated
from .kinds import App, AppSpec, AppStatus

KEY = Key("prod", "web")
VIEW = view_of(App)


def entry(obj: App) -> FakeEntry:
    meta = obj.metadata
    return FakeEntry(KEY, meta.uid, meta.resource_version, meta.generation, False, meta, obj)


class Scenario:
    """An API server that delivers watch events on demand, and controllers that write the objects that they read."""

    def __init__(self) -> None:
        self.api = Api()
        self.informer = FakeInformer()
        self.put(App(metadata=ObjectMeta(name="web", namespace="prod", generation=1)))
        self.known = self.live()
        self.sent = [self.known]
        """Versions that the watch still has to bring."""
        self.runs: list[tuple[str, App]] = []

    def live(self) -> App:
        return self.api.read(App, "web")

    def put(self, obj: App) -> None:
        self.api.put(obj)

    def change(self, **changes) -> None:
        """Another writer changes the object."""
        before = self.live()
        after = replace(before, **changes)
        if after != before:
            self.put(after)
            self.sent.append(self.live())

    def bring(self, *, relist: bool = False) -> None:
        """One event, or all at once as the difference that a new list makes."""
        if not self.sent:
            return
        new = self.sent[-1] if relist else self.sent.pop(0)
        if relist:
            self.sent.clear()
        old, self.known = self.known, new
        if old.metadata.resource_version != new.metadata.resource_version:
            self.informer.emit(updated(entry(old), entry(new)))

    async def make(self, move: str, n: int) -> None:
        live = self.live()
        metadata = live.metadata
        match move:
            case "spec":
                self.change(spec=AppSpec(size=n % 3), metadata=replace(metadata, generation=metadata.generation + 1))
            case "status":
                self.change(status=replace(live.status, ready=n % 3))
            case "label":
                self.change(metadata=replace(metadata, labels={"n": str(n)}))
            case "rest":
                await asyncio.sleep(30)
            case _:
                self.bring(relist=move == "relist")
                await asyncio.sleep(0)

    def controller(self, name: str, status=lambda app: replace(app.status, ready=app.spec.size)) -> Controller:
        async def reconcile(_request: Request):
            app = self.known
            self.runs.append((name, app))
            wanted = status(app)
            if wanted is None:
                return None
            written = await write_status(self.api, app, wanted)
            assert written is not None
            if written.resource_version == app.metadata.resource_version:
                return None
            if written.resource_version not in [a.metadata.resource_version for a in (self.known, *self.sent)]:
                self.sent.append(self.live())
            return StatusWritten(
                status=written.status,
                before=entry(app),
                uid=app.metadata.uid,
                resource_version=written.resource_version,
            )

        return Controller(name, reconcile, sources=[Source(self.informer, name="App", view=VIEW)], rng=Random(1))

    def names(self) -> list[str]:
        return [name for name, _ in self.runs]


@asynccontextmanager
async def running(*controllers: Controller):
    tasks = [asyncio.create_task(c.run()) for c in controllers]
    try:
        yield
    finally:
        for c in controllers:
            await c.stop(1)
        await asyncio.gather(*tasks)


@virtual_time
async def test_the_status_that_is_returned_does_not_wake_its_controller():
    """Q1: an own status coming back is not news."""
    env = Scenario()
    async with running(env.controller("one")):
        env.informer.emit(added(entry(env.known)))
        await asyncio.sleep(1)
        env.sent.pop(0)
        assert len(env.sent) == 1
        env.bring()
        await asyncio.sleep(1)
        assert env.names() == ["one"]
        env.change(spec=AppSpec(size=3))
        env.bring()
        await asyncio.sleep(1)
        assert env.names() == ["one", "one"]


@virtual_time
async def test_another_controller_of_the_kind_is_woken():
    """Q1: what one controller wrote is news to the others."""
    env = Scenario()
    one, two = env.controller("one"), env.controller("two", lambda app: None)
    async with running(one, two):
        one.queue.add(KEY)
        await asyncio.sleep(1)
        env.sent.pop(0)
        env.bring()
        await asyncio.sleep(1)
        assert env.names() == ["one", "two"]


@virtual_time
async def test_an_explicit_write_to_the_object_wakes_its_controller():
    """Q1: only the returned status is skipped."""
    env = Scenario()
    one = env.controller("one", lambda app: None)
    async with running(one):
        env.sent.pop(0)
        env.change(status=AppStatus(ready=7))
        env.bring()
        await asyncio.sleep(1)
        assert env.names() == ["one"]


@virtual_time
async def test_a_foreign_change_that_our_patch_agrees_with_is_not_taken_for_ours():
    """Q1: a patch that changes nothing any more is answered with the version of another writer's change."""
    env = Scenario()
    env.sent.clear()
    one = env.controller("one", lambda app: AppStatus(ready=1, observed_generation=1))
    async with running(one):
        env.change(status=AppStatus(ready=1, observed_generation=1), spec=AppSpec(size=9))
        foreign = env.live()
        written = StatusWritten(
            before=entry(env.known),
            uid=env.known.metadata.uid,
            status=foreign.status,
            resource_version=foreign.metadata.resource_version,
        )
        one.echoes.expect(written)
        env.bring()
        await asyncio.sleep(1)
        assert [app.spec.size for _, app in env.runs] == [9]


def test_what_cannot_be_read_is_not_taken_for_an_echo():
    """W9: the controller of an undecodable object reconciles it."""

    class Broken(FakeEntry):
        def object(self, view):
            raise UndecodableError("App", KEY, "2", "it is a list", "$.spec")

    echoes = StatusEchoes()
    echoes.expect(StatusWritten(before=FakeEntry(KEY, "u1", "1"), uid="u1", status=AppStatus(), resource_version="2"))
    assert not echoes.matches(Broken(KEY, "u1", "2"), VIEW)


def test_what_is_expected_is_bounded():
    echoes = StatusEchoes()
    for n in range(1000):
        before = FakeEntry(Key("prod", f"a{n}"), f"u{n}", "1")
        echoes.expect(StatusWritten(before=before, uid=before.uid, status=AppStatus(), resource_version="2"))
    assert 128 <= len(echoes._expected) <= 256


texts = st.sampled_from(
    ["1", "2", '"resourceVersion":"1"', ',"status":{}}', '{"status":{"ready":1}}', "resourceVersion", ""]
)
metas = st.builds(
    lambda version, labels: ObjectMeta(
        name="web", namespace="prod", uid="u1", resource_version=version, labels=labels, generation=1
    ),
    st.sampled_from(["1", "2", "11"]),
    st.dictionaries(texts, texts, max_size=2),
)
statuses = st.builds(AppStatus, ready=st.integers(0, 2))
apps = st.builds(App, metadata=metas, spec=st.builds(AppSpec, size=st.integers(0, 1)), status=statuses)


@pytest.mark.slow
@settings(max_examples=500)
@given(apps, apps, statuses, st.booleans())
def test_what_is_an_echo_byte_by_byte_is_one_as_it_is_read(old: App, new: App, status: AppStatus, ours: bool):
    """Q1: the quick look says nothing that the slow one does not."""
    if ours:
        version = new.metadata.resource_version
        new = replace(old, metadata=replace(old.metadata, resource_version=version), status=status)
    before, after = entry(old), entry(new)
    quick, slow = _differs_by_bytes(status, before, after), _differs_by_value(status, before, after, VIEW)
    assert slow or not quick
    if ours:
        assert slow


def test_an_echo_is_known_by_its_bytes():
    """As API servers write objects: with a status or without, with versions of other objects in them."""
    head = (
        '{"apiVersion":"v1","kind":"App","metadata":{"name":"web","resourceVersion":"%s","uid":"u1"},"spec":{"of":%s}'
    )
    other = '{"resourceVersion":"7"}'

    class Bytes(FakeEntry):
        def raw(self) -> bytes:
            return self.value.encode()

    def state(version: str, status: str, of: str = other) -> Bytes:
        return Bytes(KEY, "u1", version, value=head % (version, of) + (f',"status":{status}' if status else "") + "}")

    wanted = AppStatus(ready=2)
    after = state("8", '{"ready":2}')
    assert _differs_by_bytes(wanted, state("7", ""), after)
    assert _differs_by_bytes(wanted, state("7", '{"ready":1}'), after)
    assert not _differs_by_bytes(wanted, state("7", "", "{}"), after)
    assert not _differs_by_bytes(wanted, state("7", ""), state("8", '{"ready":3}'))
    assert not _differs_by_bytes(wanted, state("7", ""), state("8", ""))


moves = st.lists(
    st.sampled_from(["spec", "status", "label", "event", "relist", "event", "rest"]), min_size=1, max_size=12
)


@settings(max_examples=100, deadline=None)
@given(moves, st.booleans())
def test_no_interleaving_of_foreign_changes_is_lost(moves: list[str], two: bool):
    """Q1: however foreign changes, own writes, events and lists interleave, the last state is reconciled."""

    @virtual_time
    async def run() -> None:
        env = Scenario()
        env.sent.clear()
        controllers = [env.controller("one")]
        if two:  # sees the same and writes another field of it
            controllers.append(env.controller("two", lambda app: replace(app.status, pods=("a",) * app.spec.size)))
        async with running(*controllers):
            controllers[0].queue.add(KEY)
            for n, move in enumerate(moves):
                await env.make(move, n)
            for _ in range(50):
                await asyncio.sleep(2000)  # longer than any backoff
                if not env.sent:
                    break
                env.bring()
            assert not env.sent
            last = to_dict(env.known)
            for controller in controllers:
                seen = [to_dict(app) for name, app in env.runs if name == controller.name]
                if controller.name == "two" and not seen:
                    continue  # nothing happened
                assert _but_own_status(from_dict(App, seen[-1])) == _but_own_status(from_dict(App, last))
            assert env.known.status.ready == env.known.spec.size

    run()


def _but_own_status(app: App) -> App:
    metadata = replace(app.metadata, resource_version="")
    return replace(app, metadata=metadata, status=AppStatus())
