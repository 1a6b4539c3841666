"""Events tell people, and never hold up or endanger a reconcile."""

import asyncio
from datetime import UTC, datetime
from random import Random

import pytest

from steersman.client.errors import ConnectError, Forbidden, NotFound
from steersman.client.status import Status
from steersman.controller import CURRENT_REQUEST, EventRecorder, Request
from steersman.controller.events import cut
from steersman.controller.spam_filter import SpamFilter
from steersman.k8s import Node
from steersman.models import Key, ObjectMeta
from steersman.telemetry.registry import REGISTRY
from steersman.testing import virtual_time

from .kinds import App

APP = App(metadata=ObjectMeta(name="web", namespace="prod", uid="u1", resource_version="7"))


class Server:
    def __init__(self) -> None:
        self.created, self.patched = [], []
        self.refuse: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def create(self, obj, *, want="object", timeout=30.0):
        await self.gate.wait()
        if self.refuse is not None:
            raise self.refuse
        self.created.append(obj)

    async def patch(self, kind, name, patch, namespace=None, *, want="object", timeout=30.0):
        await self.gate.wait()
        if self.refuse is not None:
            raise self.refuse
        self.patched.append((namespace, name, patch.body))


class recording:  # noqa: N801 - reads as a sentence in a `with`
    def __init__(self, server: Server, **options) -> None:
        self.recorder = EventRecorder(
            server,
            "steersman.dev/hello",
            "hello-0",
            rng=Random(1),
            now=lambda: datetime(2026, 1, 31, tzinfo=UTC),
            **options,
        )

    async def __aenter__(self) -> EventRecorder:
        self.task = asyncio.create_task(self.recorder.run())
        return self.recorder

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task


def dropped(reason: str) -> float:
    return REGISTRY.get_sample_value("steersman_events_dropped_total", {"reason": reason}) or 0


@virtual_time
async def test_an_event_says_what_happened_to_what_and_in_which_reconcile():
    """R5: Events carry the reconcile id."""
    server = Server()
    async with recording(server) as recorder:
        CURRENT_REQUEST.set(Request(Key("prod", "web"), reconcile_id="abc-1"))
        recorder.event(APP, "Scaled", "from 1 to 3", related=Node(metadata=ObjectMeta(name="n1")))
        assert await recorder.drain()
    (event,) = server.created
    assert (event.reason, event.note, event.type, event.action) == ("Scaled", "from 1 to 3", "Normal", "Reconcile")
    assert (event.reporting_controller, event.reporting_instance) == ("steersman.dev/hello", "hello-0")
    assert (event.regarding.kind, event.regarding.name, event.regarding.uid) == ("App", "web", "u1")
    assert event.related.kind == "Node"
    assert event.metadata.namespace == "prod"
    assert event.metadata.annotations == {"steersman.dev/reconcile-id": "abc-1"}


@virtual_time
async def test_the_same_event_again_becomes_a_series():
    server = Server()
    async with recording(server) as recorder:
        for _ in range(100):
            recorder.event(APP, "Failed", "no route to host", type="Warning")
            await asyncio.sleep(1)
        await asyncio.sleep(60)
    assert len(server.created) == 1
    assert len(server.patched) <= 6
    assert server.patched[0][2]["series"]["count"] == 2
    assert server.patched[-1][2]["series"]["count"] == 100
    assert server.patched[-1][1] == server.created[0].metadata.name


@virtual_time
async def test_a_series_ends_after_six_quiet_minutes():
    server = Server()
    async with recording(server) as recorder:
        recorder.event(APP, "Failed", "x")
        await asyncio.sleep(400)
        recorder.event(APP, "Failed", "x")
        await recorder.drain()
    assert len(server.created) == 2
    assert server.patched == []


@virtual_time
async def test_an_object_that_causes_too_many_events_gets_no_more_for_a_while():
    server, before = Server(), dropped("rate_limited")
    other = App(metadata=ObjectMeta(name="other", namespace="prod", uid="u2"))
    async with recording(server) as recorder:
        for n in range(60):
            recorder.event(APP, "Step", f"number {n}")
        recorder.event(other, "Step", "number 1")
        await recorder.drain()
        assert len(server.created) == 26
        assert dropped("rate_limited") - before == 35
        await asyncio.sleep(300)
        recorder.event(APP, "Step", "number 61")
        await recorder.drain()
    assert len(server.created) == 27


@virtual_time
async def test_recording_never_blocks_and_drops_with_a_count_when_the_server_is_slow():
    """R1: a slow or failing API server does not hold up a reconcile."""
    server, before = Server(), dropped("buffer_full")
    server.gate.clear()
    async with recording(server, buffer=10) as recorder:
        for n in range(50):
            recorder.event(App(metadata=ObjectMeta(name=f"a{n}", uid=f"{n}")), "X", "y")
        assert dropped("buffer_full") - before == 40
        assert not await recorder.drain(timeout=1)
        server.gate.set()
        assert await recorder.drain()
    assert len(server.created) == 10


@virtual_time
async def test_a_replica_that_does_not_lead_writes_no_events():
    """L2: a deposed leader writes nothing, no Events either."""
    server, before = Server(), dropped("not_leader")
    async with recording(server, allowed=lambda: False) as recorder:
        recorder.event(APP, "X", "y")
        await recorder.drain()
    assert server.created == []
    assert dropped("not_leader") - before == 1


@pytest.mark.parametrize(
    "problem",
    [ConnectError("down"), Forbidden(Status(code=403)), NotFound(Status(code=404))],
    ids=lambda problem: type(problem).__name__,
)
def test_a_refused_event_is_dropped_and_the_next_one_is_tried(problem):
    @virtual_time
    async def scenario():
        server = Server()
        async with recording(server) as recorder:
            server.refuse = problem
            recorder.event(APP, "X", "y")
            await recorder.drain()
            server.refuse = None
            recorder.event(APP, "X", "y")
            await recorder.drain()
        assert len(server.created) == 1

    scenario()


@virtual_time
async def test_events_of_cluster_scoped_objects_go_to_the_default_namespace():
    server = Server()
    async with recording(server) as recorder:
        recorder.event(Node(metadata=ObjectMeta(name="n" * 253, uid="n")), "X", "y")
        await recorder.drain()
    assert server.created[0].metadata.namespace == "default"
    assert len(server.created[0].metadata.name) <= 253


def test_notes_are_cut_at_a_kilobyte_and_never_inside_a_character():
    text = "ü" * 1000
    assert len(cut(text, 1024).encode()) <= 1024
    assert cut(text, 1024).endswith("ü…")
    assert cut("short", 1024) == "short"


def test_the_spam_filter_remembers_a_bounded_number_of_objects():
    spam = SpamFilter(burst=1, remembered=10)
    assert all(spam.allows(n, 0.0) for n in range(100))
    assert len(spam._buckets) == 10
    assert not spam.allows(99, 0.0)
    assert spam.allows(99, 300.0)
