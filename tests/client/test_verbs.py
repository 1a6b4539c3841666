"""Verbs and waits against a scripted server: requests, and calls of observers."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from steersman.client import (
    Client,
    Config,
    Conflict,
    ConnectionLostError,
    Forbidden,
    NotFound,
    Preconditions,
    ResponseError,
    WaitTimeoutError,
    WriteOutcome,
    condition_is,
    condition_true,
    deleted,
    exists,
)
from steersman.client.transport import HeaderPairs, Response, StreamResponse, UnsupportedTransport
from steersman.models import ALL_NAMESPACES, Conditions, Key, Model, ObjectMeta, Resource, dynamic, metadata_of
from steersman.models.patches import ApplyPatch, JsonPatch, MergePatch
from steersman.testing import virtual_time


class WidgetStatus(Model):
    phase: str = ""
    conditions: Conditions = ()


class Widget(Resource, group="verbs.example.com", version="v1"):
    size: int = 0
    status: WidgetStatus = WidgetStatus()


BASE = "/apis/verbs.example.com/v1/namespaces/home/widgets"


def widget(name: str = "w", version: int = 1, uid: str = "u1", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "home", "uid": uid, "resourceVersion": str(version)}
    return {"apiVersion": "verbs.example.com/v1", "kind": "Widget", "metadata": metadata, **more}


def ok(obj: object) -> Response:
    return Response(200, body=json.dumps(obj).encode())


def refused(code: int, reason: str) -> Response:
    return Response(code, body=json.dumps({"kind": "Status", "code": code, "reason": reason, "message": "no"}).encode())


class Server(UnsupportedTransport):
    """Answers requests and streams from two scripts; the last answer of each repeats."""

    def __init__(self, *answers: Response | Exception, streams: tuple[Any, ...] = ()) -> None:
        self.answers = list(answers)
        self.streams = list(streams)
        self.calls: list[dict[str, Any]] = []

    async def request(self, method, path, *, query=(), headers=(), body=None, timeout):
        self.calls.append(
            {"method": method, "path": path, "query": dict(query), "headers": dict(headers), "body": body}
        )
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    @asynccontextmanager
    async def stream(self, method, path, *, query=(), headers=(), body=None, connect_timeout, idle_timeout):
        script = self.streams.pop(0) if self.streams else ()

        async def chunks() -> AsyncIterator[bytes]:
            for step in script:
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, float):
                    await asyncio.sleep(step)
                    continue
                kind, obj = step
                yield json.dumps({"type": kind, "object": obj}).encode() + b"\n"
            await asyncio.sleep(3600)

        yield StreamResponse(200, HeaderPairs(), chunks())

    @property
    def last(self) -> dict[str, Any]:
        return self.calls[-1]


def client_of(server: Server, **options: Any) -> Client:
    config = Config.for_url("http://api.test", namespace="home")
    return Client(config, transport=server, rng=random.Random(1), **options)


@virtual_time
async def test_each_write_says_who_what_and_how():
    server = Server(ok(widget()))
    client = client_of(server, field_manager="me")
    await client.create(Widget(metadata=ObjectMeta(name="w")), field_validation="Strict")
    assert (server.last["method"], server.last["path"]) == ("POST", BASE)
    assert server.last["query"] == {"fieldManager": "me", "fieldValidation": "Strict"}
    await client.apply(Widget(metadata=ObjectMeta(name="w")), force=True, dry_run=True, field_manager="other")
    assert (server.last["method"], server.last["path"]) == ("PATCH", f"{BASE}/w")
    assert server.last["query"] == {"fieldManager": "other", "force": "true", "dryRun": "All"}
    assert server.last["headers"]["Content-Type"] == "application/apply-patch+yaml"
    await client.patch(Widget, "w", MergePatch({"size": 2}), namespace="elsewhere", subresource="status")
    assert server.last["path"] == BASE.replace("home", "elsewhere") + "/w/status"
    assert server.last["headers"]["Content-Type"] == "application/merge-patch+json"
    assert json.loads(server.last["body"]) == {"size": 2}
    await client.patch(Widget, "w", ApplyPatch(widget()), force=True)
    assert server.last["query"]["force"] == "true"
    await client.patch(Widget, "w", JsonPatch().add("/size", 1), force=True)
    assert "force" not in server.last["query"]
    await client.replace(Widget(metadata=ObjectMeta(name="w", resource_version="1")))
    assert (server.last["method"], server.last["path"]) == ("PUT", f"{BASE}/w")
    await client.delete(
        Widget, "w", propagation="Foreground", grace_period=0, preconditions=Preconditions(resource_version="5")
    )
    assert json.loads(server.last["body"]) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
        "preconditions": {"resourceVersion": "5"},
    }


@virtual_time
async def test_views_ask_for_the_form_they_read():
    server = Server(ok(widget()))
    client = client_of(server)
    await client.get(metadata_of(Widget), "w")
    assert server.last["headers"]["Accept"].startswith("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
    await client.get(Widget, "w")
    assert server.last["headers"]["Accept"] == "application/json"
    server.answers = [ok({"metadata": {}, "items": []})]
    await client.list(metadata_of(Widget), namespace=ALL_NAMESPACES)
    assert "PartialObjectMetadataList" in server.last["headers"]["Accept"]
    assert server.last["path"] == "/apis/verbs.example.com/v1/widgets"


@virtual_time
async def test_names_are_encoded_and_cluster_scoped_kinds_have_no_namespace():
    server = Server(ok(widget()))
    client = client_of(server)
    await client.get(Widget, "a/b?c")
    assert server.last["path"] == f"{BASE}/a%2Fb%3Fc"
    await client.get(dynamic("v1", "Node", namespaced=False), "n", namespace="ignored")
    assert server.last["path"] == "/api/v1/nodes/n"


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.get(Widget, ""),
        lambda c: c.delete(Widget, ""),
        lambda c: c.patch(Widget, "", MergePatch({})),
        lambda c: c.apply(Widget()),
        lambda c: c.replace(Widget(metadata=ObjectMeta(name="w"))),
        lambda c: c.create({"metadata": {"name": "x"}}),
        lambda c: c.wait_for(Widget, exists),
    ],
)
@virtual_time
async def test_calls_that_cannot_be_meant_are_refused_before_they_leave(call):
    server = Server(ok(widget()))
    with pytest.raises(ValueError, match=r"name|apiVersion"):
        await call(client_of(server))
    assert server.calls == []


@virtual_time
async def test_an_answer_that_does_not_fit_names_the_field():
    with pytest.raises(ResponseError, match=r"GET .*/w: the response does not fit the class of Widget: \$\.size"):
        await client_of(Server(ok(widget(size="many")))).get(Widget, "w")


@virtual_time
async def test_a_deleted_object_is_gone_or_held():
    status = {"kind": "Status", "status": "Success", "details": {"uid": "u1"}}
    assert await client_of(Server(ok(status))).delete(Widget, "w") is True
    held = widget()
    held["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}
    assert await client_of(Server(ok(held))).delete(Widget, "w") is False
    server = Server(refused(404, "NotFound"))
    assert await client_of(server).delete(Widget, "w", missing_ok=True) is True
    with pytest.raises(NotFound):
        await client_of(server).delete(Widget, "w")


@virtual_time
async def test_deleting_an_object_means_that_very_object():
    server = Server(ConnectionLostError("reset"), ok({"kind": "Status"}))
    await client_of(server).delete(Widget(metadata=ObjectMeta(name="w", uid="u7")))
    assert json.loads(server.last["body"])["preconditions"] == {"uid": "u7"}
    assert len(server.calls) == 2, "with a uid, a lost deletion may be repeated"


class Observer:
    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.server: Server | None = None

    def before_write(self, info, key, verb):
        assert self.server is not None
        self.seen.append(("before", info.kind, key, verb, len(self.server.calls)))
        token = len(self.seen)
        return [lambda outcome: self.seen.append(("after", token, outcome))]


@virtual_time
async def test_observers_hear_of_a_write_before_it_leaves_and_after_it_ends():
    """C2: the barrier is registered before the request leaves, keyed by uid; deletes count."""
    server = Server(ok(widget(version=7)))
    client = client_of(server)
    observer = Observer()
    observer.server = server
    client.observers.append(observer)
    await client.apply(Widget(metadata=ObjectMeta(name="w")))
    await client.delete(Widget(metadata=ObjectMeta(name="w", uid="u1")), propagation="Background")
    server.answers = [refused(409, "Conflict")]
    with pytest.raises(Conflict):
        await client.patch(Widget, "w", MergePatch({}))
    assert observer.seen == [
        ("before", "Widget", Key("home", "w"), "apply", 0),
        ("after", 1, WriteOutcome("u1", "7")),
        ("before", "Widget", Key("home", "w"), "delete", 1),
        ("after", 3, WriteOutcome("u1", "7", deleted=True)),
        ("before", "Widget", Key("home", "w"), "patch", 2),
        ("after", 5, None),
    ]


@virtual_time
async def test_observers_hear_of_a_cancelled_write_and_never_of_a_dry_run():
    """C2: every announced write is reported, also when it is cancelled."""

    class Hanging(Server):
        async def request(self, method, path, **_: Any):
            self.calls.append({})
            await asyncio.sleep(3600)

    server = Hanging()
    client = client_of(server)
    observer = Observer()
    observer.server = server
    client.observers.append(observer)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await client.create(Widget(metadata=ObjectMeta(name="w")))
    assert [entry[0] for entry in observer.seen] == ["before", "after"]
    observer.seen.clear()
    server2 = Server(ok(widget()))
    client2 = client_of(server2)
    client2.observers.append(observer)
    await client2.create(Widget(metadata=ObjectMeta(name="w")), dry_run=True)
    assert observer.seen == []


def page(*items: Any, version: int = 1) -> Response:
    return ok({"metadata": {"resourceVersion": str(version)}, "items": list(items)})


@virtual_time
async def test_a_wait_lists_once_and_then_watches():
    server = Server(page(widget()), streams=([5.0, ("MODIFIED", widget(version=2, size=3))],))
    found = await client_of(server).wait_for(Widget, lambda w: w is not None and w.size == 3, 60, name="w")
    assert found is not None
    assert found.metadata.resource_version == "2"
    assert len(server.calls) == 1
    assert server.last["query"] == {"fieldSelector": "metadata.name=w"}


@virtual_time
async def test_a_wait_survives_drops_and_expired_versions():
    gone = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}
    server = Server(
        page(widget()),
        page(widget()),
        page(widget(size=3)),
        streams=([1.0, ConnectionLostError("reset")], [1.0, ("ERROR", gone)]),
    )
    assert await client_of(server).wait_for(Widget, lambda w: w.size == 3, 60, name="w")
    assert len(server.calls) == 3


@virtual_time
async def test_a_wait_says_what_it_saw_last():
    sick = widget(
        status={
            "phase": "Starting",
            "conditions": [{"type": "Ready", "status": "False", "reason": "Pulling", "message": "image is pulled"}],
        }
    )
    with pytest.raises(WaitTimeoutError) as over:
        await client_of(Server(page(sick))).wait_for(Widget, condition_true("Ready"), 30, name="w")
    assert str(over.value) == (
        "Widget home/w: waited 30 s for condition Ready=True; last seen: resourceVersion 1; phase Starting; "
        "Ready=False (Pulling: image is pulled)"
    )
    with pytest.raises(WaitTimeoutError, match="last seen: no object of that name"):
        await client_of(Server(page())).wait_for(Widget, exists, 30, name="w")


@virtual_time
async def test_a_wait_for_an_object_does_not_take_its_namesake():
    server = Server(page(widget(uid="u2")))
    old = Widget(metadata=ObjectMeta(name="w", namespace="home", uid="u1"))
    assert await client_of(server).wait_for(old, deleted, 5) is None
    with pytest.raises(WaitTimeoutError):
        await client_of(server).wait_for(old, exists, 5)


@virtual_time
async def test_a_condition_of_an_older_generation_does_not_count():
    status = {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}]}
    stale, fresh = widget(status=status), widget(status=status, version=2)
    stale["metadata"] |= {"generation": 2}
    fresh["metadata"] |= {"generation": 1}
    server = Server(page(stale), streams=([1.0, ("MODIFIED", fresh)],))
    found = await client_of(server).wait_for(
        dynamic("verbs.example.com/v1", "Widget"), condition_true("Ready"), 9, name="w"
    )
    assert found is not None
    assert found.metadata.resource_version == "2"
    assert not condition_is("Ready", "False")(found)


@virtual_time
async def test_a_refusal_ends_a_wait_at_once():
    with pytest.raises(Forbidden):
        await client_of(Server(refused(403, "Forbidden"))).wait_for(Widget, exists, 600, name="w")


async def test_closing_the_client_closes_its_transport():
    closed = []

    class Closing(Server):
        async def close(self) -> None:
            closed.append(True)

    async with client_of(Closing(ok({}))) as client:
        assert "api.test" in repr(client)
    assert closed == [True]
