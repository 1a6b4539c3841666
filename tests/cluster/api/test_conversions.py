"""Custom resources of two versions that a webhook converts: every verb shows them in the version that is asked for."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from steersman.testing import virtual_time
from steersman_cluster.api import watches

from .direct import Direct

FIELDS = {"v1": "size", "v2": "replicas"}
PATH = "/apis/example.com/{}/namespaces/default/foos"


def schema(field: str) -> dict[str, Any]:
    spec = {"type": "object", "properties": {field: {"type": "integer"}}}
    return {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}


DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "foos.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "foos", "kind": "Foo"},
        "versions": [
            {"name": name, "served": True, "storage": name == "v1", "schema": schema(field)}
            for name, field in FIELDS.items()
        ],
        "conversion": {
            "strategy": "Webhook",
            "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/"}},
        },
    },
}


class Webhook:
    """Renames the field; counts how often it was asked, and refuses or waits on request."""

    def __init__(self) -> None:
        self.asked = 0
        self.broken = False
        self.waits = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def call(self, _config: Any, body: dict[str, Any], _timeout: float) -> Any:
        self.asked += 1
        self.waits.set()
        await self.may_answer.wait()
        if self.broken:
            raise OSError("no answer")
        wanted = body["request"]["desiredAPIVersion"]
        converted: list[Any] = []
        for obj in json.loads(json.dumps(body["request"]["objects"])):
            before, after = FIELDS[obj["apiVersion"][-2:]], FIELDS[wanted[-2:]]
            obj["apiVersion"] = wanted
            if before in obj.get("spec", {}):
                obj["spec"][after] = obj["spec"].pop(before)
            converted.append(obj)
        response = {"uid": body["request"]["uid"], "result": {"status": "Success"}, "convertedObjects": converted}
        return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response}


class Server(Direct):
    def __init__(self) -> None:
        super().__init__()
        self.webhook = Webhook()
        self.api.admission.caller.call = self.webhook.call  # type: ignore[method-assign]

    async def resize(self, *sizes: int) -> None:
        """Write through `v1`, which needs no conversion."""
        for size in sizes:
            assert (await self.ask("PATCH", f"{PATH.format('v1')}/a", {"spec": {"size": size}})).status == 200

    async def reading(self, **query: str) -> "asyncio.Future[list[dict[str, Any]]]":
        """A watch through `v2` from now on, whose conversions wait until the test lets them go on."""
        version = str(self.api.storage.revision)
        await self.spec("v2")
        self.webhook.waits.clear()
        self.webhook.may_answer.clear()
        return await self.read(PATH.format("v2"), **{"resourceVersion": version, "timeoutSeconds": "60", **query})

    async def spec(self, version: str) -> dict[str, Any]:
        answer = await self.ask("GET", f"{PATH.format(version)}/a")
        return json.loads(answer.body)["spec"]


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    """A server with an object that was written through `v2`."""
    made = Server()
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await made.ask("POST", path, DEFINITION)).status == 201
    foo = {"apiVersion": "example.com/v2", "kind": "Foo", "metadata": {"name": "a"}, "spec": {"replicas": 3}}
    assert (await made.ask("POST", PATH.format("v2"), foo)).status == 201
    # Without owners of fields in v2, a write through v1 compares nothing there and needs no conversion.
    forgotten = {"metadata": {"managedFields": [{}]}}
    assert (await made.ask("PATCH", f"{PATH.format('v1')}/a", forgotten)).status == 200
    yield made
    await made.api.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as made:
        yield made


async def test_objects_are_stored_in_the_storage_version(server: Server):
    item = server.api.storage.get(("example.com", "foos"), "default", "a")
    assert item is not None
    assert item.object()["apiVersion"] == "example.com/v1"
    assert item.object()["spec"] == {"size": 3}


async def test_reads_show_the_version_of_their_path(server: Server):
    assert await server.spec("v1") == {"size": 3}
    assert await server.spec("v2") == {"replicas": 3}
    listed = await server.ask("GET", PATH.format("v2"))
    assert [obj["spec"] for obj in json.loads(listed.body)["items"]] == [{"replicas": 3}]


async def test_a_version_of_an_object_is_converted_once(server: Server):
    for _ in range(3):
        await server.spec("v2")
    asked = server.webhook.asked
    await server.ask("GET", PATH.format("v2"))
    assert server.webhook.asked == asked


async def test_writes_go_through_any_version(server: Server):
    await server.ask("PATCH", f"{PATH.format('v2')}/a", {"spec": {"replicas": 5}})
    assert await server.spec("v1") == {"size": 5}
    await server.ask("PATCH", f"{PATH.format('v1')}/a", {"spec": {"size": 7}})
    assert await server.spec("v2") == {"replicas": 7}


async def test_watches_tell_the_version_of_their_path(server: Server):
    answer = await server.ask("GET", PATH.format("v2"), watch="1", timeoutSeconds="30")
    assert answer.stream is not None
    events: list[tuple[str, Any]] = []
    begun = asyncio.Event()

    async def read() -> None:
        assert answer.stream is not None
        async for chunk in answer.stream:
            events.extend((e["type"], e["object"]["spec"]) for e in map(json.loads, chunk.splitlines()))
            begun.set()
            if events[-1][0] == "DELETED":
                return

    reading = asyncio.ensure_future(read())
    await asyncio.wait_for(begun.wait(), 60)
    await server.ask("PATCH", f"{PATH.format('v1')}/a", {"spec": {"size": 9}})
    await server.ask("DELETE", f"{PATH.format('v1')}/a")
    await asyncio.wait_for(reading, 60)
    assert events == [("ADDED", {"replicas": 3}), ("MODIFIED", {"replicas": 9}), ("DELETED", {"replicas": 9})]


@virtual_time
async def test_a_bookmark_does_not_overtake_what_is_being_converted() -> None:
    async with serving() as server:
        reading = await server.reading(allowWatchBookmarks="true", timeoutSeconds="150")
        await server.resize(9)
        await asyncio.sleep(70)  # the first bookmark is due after 60 seconds
        server.webhook.may_answer.set()
        events = await reading
        assert [event["type"] for event in events] == ["MODIFIED", "BOOKMARK", "BOOKMARK"]


async def test_a_watch_that_ends_during_a_conversion_tells_what_had_happened(server: Server):
    reading = await server.reading()
    await server.resize(9)
    await server.webhook.waits.wait()
    await server.resize(10)
    for watch in server.api.watches:
        watch.end()
    await server.resize(11)
    server.webhook.may_answer.set()
    assert [event["object"]["spec"]["replicas"] for event in await reading] == [9, 10]


async def test_a_watch_tells_the_end_of_objects_that_go_with_their_definition(server: Server):
    reading = await server.reading()
    await server.resize(9)
    await server.webhook.waits.wait()
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/foos.example.com"
    assert (await server.ask("DELETE", path)).status == 200
    server.webhook.may_answer.set()
    assert [event["type"] for event in await reading] == ["MODIFIED", "DELETED"]


async def test_a_watch_that_falls_behind_its_conversions_is_let_go(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watches, "MAX_PENDING_EVENTS", 2)
    reading = await server.reading()
    await server.resize(9)
    await server.webhook.waits.wait()
    await server.resize(10, 11, 12)
    server.webhook.may_answer.set()
    assert await reading == []


async def test_a_webhook_that_fails_ends_a_watch_with_its_error(server: Server):
    reading = await server.reading()
    server.webhook.broken = True
    server.webhook.may_answer.set()
    await server.resize(9)
    (event,) = await reading
    assert event["type"] == "ERROR"
    assert "failed: no answer" in event["object"]["message"]


async def test_a_webhook_that_fails_fails_the_request(server: Server):
    server.webhook.broken = True
    answer = await server.ask("GET", f"{PATH.format('v2')}/a")
    assert answer.status == 500
    assert "conversion webhook for example.com/v1, Kind=Foo failed: no answer" in json.loads(answer.body)["message"]
    assert (await server.ask("GET", f"{PATH.format('v1')}/a")).status == 200
