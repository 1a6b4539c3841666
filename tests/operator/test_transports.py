"""The layers between the client and its transport: the gate, dry runs, spans."""

import asyncio
import random

import pytest

from steersman.client import NO_RETRIES, Client
from steersman.client.config import Config
from steersman.client.transport import Response, UnsupportedTransport
from steersman.controller import Request
from steersman.k8s import ConfigMap
from steersman.models import Key, MergePatch, ObjectMeta, encode
from steersman.operator.leaderelection.elector import LeaderElector, NotLeaderError
from steersman.operator.leaderelection.state import LeaseRecord
from steersman.operator.tracing import Tracing
from steersman.operator.transports import DryRunTransport, GatedTransport, TracedTransport
from steersman.testing import virtual_time


class Wire(UnsupportedTransport):
    """Records the requests; answers each with a ConfigMap, after `slow` seconds."""

    def __init__(self, slow=0.0):
        self.sent = []
        self.slow = slow

    async def request(self, method, path, *, query=(), headers=(), body=None, timeout):
        self.sent.append((method, path, dict(query), timeout))
        await asyncio.sleep(self.slow)
        return Response(200, body=encode(ConfigMap(metadata=ObjectMeta(name="c", namespace="n", uid="u"))))


class Lease:
    """Always ours."""

    def __init__(self):
        self.version = 0
        self.record = None

    async def read(self):
        return self.record

    async def create(self, record):
        return await self.write(record)

    async def write(self, record):
        self.version += 1
        self.record = LeaseRecord(holder=record.holder, duration=record.duration, version=str(self.version))
        return self.record


def gated(wire, **options):
    elector = LeaderElector(Lease(), "op", "me", rng=random.Random(1))
    config = Config.for_url("http://server")
    client = Client(config, transport=GatedTransport(wire, elector.gate), gate=elector.gate, **options)
    return elector, client


PATCH = MergePatch({"data": {"a": "b"}})


@virtual_time
async def test_a_standby_reads_and_never_writes():
    """L2: reads pass the gate, writes of every kind do not reach the wire."""
    wire = Wire()
    _, client = gated(wire)
    await client.get(ConfigMap, "c", namespace="n")
    for write in (
        client.create(ConfigMap(metadata=ObjectMeta(name="c", namespace="n"))),
        client.patch(ConfigMap, "c", PATCH, namespace="n"),
        client.delete(ConfigMap, "c", namespace="n"),
        client.apply(ConfigMap(metadata=ObjectMeta(name="c", namespace="n"))),
    ):
        with pytest.raises(NotLeaderError):
            await write
    assert [method for method, *_ in wire.sent] == ["GET"]


@virtual_time
async def test_a_write_that_waited_too_long_for_its_turn_is_refused_at_the_wire():
    """L2: the gate is asked at the moment of sending, not only when the write was wanted."""
    wire = Wire(slow=12.0)
    elector, client = gated(wire, max_in_flight=1, retries=NO_RETRIES)
    await elector.acquire()
    first = asyncio.create_task(client.get(ConfigMap, "c", namespace="n"))
    await asyncio.sleep(0)
    with pytest.raises(NotLeaderError, match="past the renew deadline"):
        await client.patch(ConfigMap, "c", PATCH, namespace="n")
    await first
    assert [method for method, *_ in wire.sent] == ["GET"]


@virtual_time
async def test_a_write_may_take_no_longer_than_the_lease_lasts():
    """L2: its timeout is at most the rest of the lease."""
    wire = Wire()
    elector, client = gated(wire)
    await elector.acquire()
    await asyncio.sleep(6)
    await client.patch(ConfigMap, "c", PATCH, namespace="n", timeout=30)
    await client.get(ConfigMap, "c", namespace="n", timeout=30)
    assert [timeout for *_, timeout in wire.sent] == [pytest.approx(9), 30]


@virtual_time
async def test_a_dry_run_asks_for_it_with_every_write_and_no_read():
    wire = Wire()
    client = Client(Config.for_url("http://server"), transport=DryRunTransport(wire))
    await client.get(ConfigMap, "c", namespace="n")
    await client.patch(ConfigMap, "c", PATCH, namespace="n", field_manager="me")
    await client.delete(ConfigMap, "c", namespace="n")
    assert [query.get("dryRun") for _, _, query, _ in wire.sent] == [None, "All", "All"]
    assert wire.sent[1][2]["fieldManager"] == "me"


@virtual_time
async def test_the_requests_of_a_reconcile_are_children_of_its_span():
    """R5: the span carries kind, namespace, name, reconcile id and reasons; a failure is recorded in it."""
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    exporter, provider = memory.InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing = Tracing(provider.get_tracer("test"))
    client = Client(Config.for_url("http://server"), transport=TracedTransport(Wire(), tracing))
    request = Request(Key("n", "c"), ("ConfigMap add",), 2, "id-1")

    async def failing():
        with tracing.reconcile("maps", "ConfigMap", request):
            await client.get(ConfigMap, "c", namespace="n")
            raise ValueError("no good")

    with pytest.raises(ValueError, match="no good"):
        await failing()
    inner, outer = exporter.get_finished_spans()
    assert inner.parent.span_id == outer.context.span_id
    assert outer.attributes["k8s.object.name"] == "c"
    assert outer.attributes["steersman.reconcile_id"] == "id-1"
    assert outer.attributes["steersman.reasons"] == ("ConfigMap add",)
    assert not outer.status.is_ok


@virtual_time
async def test_a_span_tells_method_path_and_status_and_nothing_of_the_body():
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    exporter, provider = memory.InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing = Tracing(provider.get_tracer("test"))
    client = Client(Config.for_url("http://server"), transport=TracedTransport(Wire(), tracing))
    await client.patch(ConfigMap, "c", MergePatch({"data": {"password": "hunter2"}}), namespace="n")
    (span,) = exporter.get_finished_spans()
    assert dict(span.attributes) == {
        "http.request.method": "PATCH",
        "url.path": "/api/v1/namespaces/n/configmaps/c",
        "http.response.status_code": 200,
    }
    assert "hunter2" not in span.to_json()
