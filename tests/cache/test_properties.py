"""Random histories, faults and interleavings: whatever happens, the cache ends where the server is.

The handlers' view is checked as strictly as the store: no update or delete before an add, versions that only rise
while an object lives, a delete for everything that vanished, and never two objects under one name.
"""

import asyncio
import os
import random
from dataclasses import dataclass, field

import pytest
from cache_fakeserver import FakeServer, api_error, cached, content, line, status, truth, widget_view
from cache_forms import METADATA, watched
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steersman.cache.reflector import (
    Commit,
    Continue,
    Ended,
    Failed,
    Failure,
    InitialEnd,
    OpenStream,
    PageRead,
    Phase,
    Progressed,
    ReadPage,
    Sleep,
    Slept,
    Start,
    State,
    step,
)
from steersman.cache.versions import older
from steersman.client.errors import ConnectError, ConnectionLostError
from steersman.models import Key
from steersman.testing import virtual_time

WIDGET = widget_view()
EXAMPLES = int(os.environ.get("STEERSMAN_EXAMPLES", "150"))
"""Histories to try; with the default always the same ones, with any other number new ones each time."""


@dataclass
class Legal:
    """A handler that knows what a legal sequence of changes is."""

    forgiving: bool = False
    """Whether objects may come back: a kind that is gone for a while takes its objects along, and brings them back."""
    alive: dict = field(default_factory=dict)
    ended: set = field(default_factory=set)

    def __call__(self, change):
        known = self.alive.get(change.key)
        if change.type == "add":
            assert known is None, f"add of {change.key}, which is there"
            assert change.old is None
            assert self.forgiving or change.new.uid not in self.ended, f"{change.key} came back from the dead"
        elif change.type == "update":
            assert known is not None, f"update of {change.key} before its add"
            assert (change.old.uid, change.old.resource_version) == known
            assert change.new.uid == known[0], "an update changed the uid"
            assert older(known[1], change.new.resource_version), "an update went back in time"
        else:
            assert known is not None, f"delete of {change.key}, which is not there"
            assert change.new is None
            assert change.old.uid == known[0]
            assert not older(change.old.resource_version, known[1])
            self.ended.add(known[0])
            del self.alive[change.key]
            return
        self.alive[change.key] = (change.new.uid, change.new.resource_version)


class Unruly(FakeServer):
    """Delivers events twice, late and out of order when told to: once a newer one was delivered, or before an older."""

    shuffle: random.Random | None = None

    def _record(self, version, type, obj):
        super()._record(version, type, obj)
        if self.shuffle is not None and self.shuffle.random() < 0.5:
            again = self.history[-8:]
            self.shuffle.shuffle(again)
            for stream in self.streams:
                stream.outbox += [line(t, o) for _, t, o in again]


names = st.sampled_from(("a", "b"))
spaces = st.sampled_from(("x", "y"))
operations = st.one_of(
    *[st.tuples(st.just("put"), names, spaces)] * 4,
    *[st.tuples(st.just("delete"), names, spaces)] * 2,
    *[st.tuples(st.just("again"), names, spaces)] * 2,
    *[st.tuples(st.just("sleep"), st.sampled_from((0.0, 0.005, 0.3, 3.0, 70.0)))] * 4,
    st.tuples(st.just("break"), st.sampled_from(("lost", "end", "error 410", "event 410", "garbage"))),
    st.tuples(st.just("refuse"), st.sampled_from(("connect", "429", "500", "404", "410", "403")), st.integers(1, 3)),
    st.tuples(st.sampled_from(("compact", "silence", "tokens"))),
    st.tuples(st.just("lag"), st.integers(0, 3)),
    st.tuples(st.just("chop"), st.sampled_from((1, 13, 200, None))),
)

REFUSALS = {
    "connect": lambda: ConnectError("connection refused"),
    "429": lambda: api_error(429, "TooManyRequests", retry_after=2),
    "500": lambda: api_error(500, "InternalError"),
    "404": lambda: api_error(404, "NotFound"),
    "410": lambda: api_error(410, "Expired"),
    "403": lambda: api_error(403, "Forbidden"),
}


def with_two(watch_list, page, shuffle):
    """A server with two objects, which misbehaves as `shuffle` says."""
    server = Unruly(watch_list=watch_list, page=page)
    if shuffle is not None:
        server.shuffle = shuffle
    server.put("a", "x", size=0)
    server.put("b", "y", size=0)
    return server


async def perform(server, operation):  # noqa: C901 - one table
    match operation:
        case ("put", name, space):
            server.put(name, space, size=server.version)
        case ("delete", name, space) if (space, name) in server.objects:
            server.delete(name, space)
        case ("again", name, space) if (space, name) in server.objects:
            server.delete(name, space)
            server.put(name, space, size=server.version)
        case ("sleep", seconds):
            await asyncio.sleep(min(seconds, 1.0))
            if seconds > 1:
                server.lag = 0  # nothing lags for so long that it would have to be believed
                await asyncio.sleep(seconds - 1.0)
        case ("break", "lost"):
            server.break_streams(ConnectionLostError("reset"))
        case ("break", "end"):
            server.break_streams()
        case ("break", "error 410"):
            server.break_streams(api_error(410, "Expired"))
        case ("break", "event 410"):
            server.say(line("ERROR", status(410, "Expired")))
        case ("break", "garbage"):
            server.say(b'{"type":"MODI\n')
        case ("refuse", what, times):
            server.refusals += [REFUSALS[what]() for _ in range(times)]
        case ("compact",):
            server.compact()
        case ("silence",):
            server.silence()
        case ("lag", versions):
            server.lag = min(versions, server.version - max(server.compacted, 100))
        case ("chop", size):
            server.chop = size
        case ("tokens",):
            server.tokens.clear()


@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES == 150, suppress_health_check=[HealthCheck.too_slow]
)
@given(
    st.lists(operations, max_size=40),
    st.booleans(),
    st.sampled_from((None, 1, 2)),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_after_any_history_the_store_is_what_the_server_has(history, watch_list, page, unruly, seed):
    """W1, W3, W4, W5: drops, 410s, restarts, silence, lag, duplicates and reordering end in the truth."""

    @virtual_time
    async def run():
        server = with_two(watch_list, page, random.Random(seed) if unruly else None)
        async with cached(server, start=False, seed=seed, indexes={"size": lambda o: str(o["spec"]["size"])}) as (
            cache,
            informer,
            _,
        ):
            legal = Legal(forgiving=any(o[:2] == ("refuse", "404") for o in history))
            failures = []

            def handler(change):
                try:
                    legal(change)
                    entry = informer.get(change.key)
                    if change.type != "delete" and entry is not None:
                        assert entry.uid
                except AssertionError as problem:
                    failures.append(problem)

            informer.add_handler(handler)
            await cache.start()
            for operation in history:
                server.lag = min(server.lag, server.version - max(server.compacted, 100))
                await perform(server, operation)
            server.refusals.clear()
            server.lag, server.chop = 0, None
            await asyncio.sleep(400)
            assert failures == []
            assert informer.synced
            assert content(informer) == truth(server)
            assert {tuple(k): f"{u}@{v}" for k, (u, v) in legal.alive.items()} == truth(server)
            assert len(informer) == len(server.objects)
            for (space, name), obj in server.objects.items():
                assert cache.get(WIDGET, Key(space, name))["spec"] == obj["spec"]
                found = cache.list(WIDGET, index=("size", str(obj["spec"]["size"])), namespace=space)
                assert [o.metadata.name for o in found] == [name]
            assert informer.problem == ""

    run()


@settings(
    max_examples=EXAMPLES // 2, deadline=None, derandomize=EXAMPLES == 150, suppress_health_check=[HealthCheck.too_slow]
)
@given(
    st.lists(operations, max_size=20),
    st.lists(operations, max_size=20),
    st.booleans(),
    st.sampled_from((None, 1, 2)),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_whenever_an_informer_widens_everybody_hears_the_truth(before, after, watch_list, page, unruly, seed):
    """W11: handlers of either form receive a valid sequence in their form, which ends in the server's state."""

    @virtual_time
    async def run():
        server = with_two(watch_list, page, random.Random(seed) if unruly else None)
        gone = any(o[:2] == ("refuse", "404") for o in (*before, *after))
        legal, legal_whole = Legal(forgiving=gone), Legal(forgiving=gone)
        failures = []

        def checked(handler, form):
            def handle(change):
                try:
                    handler(change)
                    assert form == "metadata" or change.type == "delete" or change.new.whole
                except AssertionError as problem:
                    failures.append(problem)

            return handle

        async with watched(server, start=False, seed=seed) as (_, forms, cache, informer, _):
            informer.add_handler(checked(legal, "metadata"))
            await cache.start()
            for operation in before:
                await perform(server, operation)
            cache.informer(WIDGET, indexes={"size": lambda o: str(o["spec"]["size"])})
            informer.add_handler(checked(legal_whole, "dynamic"))
            for operation in after:
                server.lag = min(server.lag, server.version - max(server.compacted, 100))
                await perform(server, operation)
            server.refusals.clear()
            server.lag, server.chop = 0, None
            await asyncio.sleep(400)
            assert failures == []
            assert forms.asked == ["metadata", "dynamic"]
            assert informer.synced
            assert content(informer) == truth(server)
            for heard in (legal, legal_whole):
                assert {tuple(k): f"{u}@{v}" for k, (u, v) in heard.alive.items()} == truth(server)
            for (space, name), obj in server.objects.items():
                assert cache.get(WIDGET, Key(space, name))["spec"] == obj["spec"]
                assert cache.get(METADATA, Key(space, name)).kind == "Widget"
                found = cache.list(WIDGET, index=("size", str(obj["spec"]["size"])), namespace=space)
                assert [o.metadata.name for o in found] == [name]
            assert len(server.streams) <= 1

    run()


@pytest.mark.slow
@settings(max_examples=2 * EXAMPLES, deadline=None, derandomize=EXAMPLES == 150)
@given(st.data())
def test_the_state_machine_takes_every_outcome_of_its_effects(data):
    """W6: from any state, any outcome leads to one next piece of I/O; positions never go back but for a restore."""
    version = 100
    state, effects = step(State(watch_list=data.draw(st.booleans())), Start())
    now, stale = 0.0, 0
    for _ in range(data.draw(st.integers(1, 60))):
        now += data.draw(st.sampled_from((0.01, 1.0, 50.0, 200.0)))
        last = effects[-1]
        fails = st.builds(Failed, st.sampled_from(Failure), st.just("why"), st.just(now), st.sampled_from((0.0, 9.0)))
        version += data.draw(st.integers(0, 3))
        lags = version - data.draw(st.integers(0, 3))
        match last:
            case Sleep(seconds=seconds):
                assert 0.8 <= seconds <= 30.0
                assert state.phase in (Phase.BACKING_OFF, Phase.PARKED)
                event = Slept(now)
            case ReadPage():
                assert state.phase is Phase.LISTING
                token = data.draw(st.sampled_from(("", "", "token")))
                event = data.draw(st.one_of(st.just(PageRead(str(lags), token, now)), fails))
            case OpenStream() | Continue():
                assert not isinstance(last, OpenStream) or last.initial == (state.phase is Phase.STREAMING)
                ends = InitialEnd(str(lags), now) if state.phase is Phase.STREAMING else Progressed(str(lags), now)
                event = data.draw(st.one_of(st.just(ends), st.just(Ended(now)), fails))
            case _:
                raise AssertionError(last)
        before, stale = state.version, state.stale
        state, effects = step(state, event)
        assert effects
        assert sum(isinstance(e, Commit) for e in effects) <= 1
        assert not older(state.version, before) or stale == 5
