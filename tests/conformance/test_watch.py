"""Watches: sequences of events in every form. Both servers tell the same."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from .harness import Answer, Both, Server, compare
from .steps import CONFIG_MAPS, PODS, Step, config_map, play, pod

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PROTOBUF = "application/vnd.kubernetes.protobuf;stream=watch"
DESCRIPTIONS = ("*.object.columnDefinitions.*.description",)

CHANGES: list[Step] = [
    ("POST", CONFIG_MAPS, config_map("a", labels={"app": "x"})),
    ("POST", CONFIG_MAPS, config_map("b", labels={"app": "y"})),
    ("MERGE", f"{CONFIG_MAPS}/a", {"data": {"k": "1"}}),
    ("MERGE", f"{CONFIG_MAPS}/a", {"data": {"k": "1"}}),
    ("MERGE", f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"app": "y"}}}),
    ("MERGE", f"{CONFIG_MAPS}/b", {"metadata": {"labels": {"app": "x"}}}),
    ("MERGE", f"{CONFIG_MAPS}/b", {"data": {"k": "2"}}),
    ("DELETE", f"{CONFIG_MAPS}/b"),
    ("DELETE", f"{CONFIG_MAPS}/a"),
]


async def read(server: Server, path: str, accept: str = "application/json") -> Answer:
    """A watch until the server ends it; its events, and the head of the answer."""
    async with (
        asyncio.timeout(90),
        server.session.get(server.url + path, headers={"Accept": accept, "User-Agent": "conformance/1.0"}) as answer,
    ):
        content = await answer.read()
        body: Any = content
        if answer.content_type == "application/json":
            body = [json.loads(line) for line in content.splitlines()]
        warnings = tuple(answer.headers.getall("Warning", ()))
        return Answer(answer.status, body, warnings, answer.headers.get("Content-Type", ""))


async def same(both: Both, query: str, *changes: Step, versions: tuple[str, str] = ("", ""), accept: str = "") -> Any:
    """The same events of a watch during some changes."""
    watches = [
        asyncio.ensure_future(
            read(server, f"{CONFIG_MAPS}?watch=1&{query}{version}".replace("{ns}", both.namespace), accept or "*/*")
        )
        for server, version in zip(both.servers, versions, strict=True)
    ]
    await asyncio.sleep(0.3)
    await play(both, *changes)
    embedded, real = [_without_late_bookmarks(answer) for answer in await asyncio.gather(*watches)]
    compare(query, embedded, real, DESCRIPTIONS)
    return embedded.body


def _without_late_bookmarks(answer: Answer) -> Answer:
    """Bookmarks that tell of nothing but the time come when a server likes."""
    if not isinstance(answer.body, list):
        return answer
    told = [e for e in answer.body if e.get("type") != "BOOKMARK" or "initial-events-end" in json.dumps(e)]
    return replace(answer, body=told)


async def now(both: Both) -> tuple[str, str]:
    embedded, real = await both.each("GET", CONFIG_MAPS)
    return embedded["metadata"]["resourceVersion"], real["metadata"]["resourceVersion"]


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


async def test_everything_that_happens_is_told(both: Both):
    events = await same(both, "timeoutSeconds=1", *CHANGES)
    assert types(events) == ["ADDED", "ADDED", *["MODIFIED"] * 4, "DELETED", "DELETED"]


@pytest.mark.parametrize(
    "selector",
    [
        "labelSelector=app%3Dx",
        "labelSelector=app!%3Dx",
        "labelSelector=app",
        "fieldSelector=metadata.name%3Da",
        "fieldSelector=metadata.name!%3Da",
    ],
)
async def test_selections_come_and_go(both: Both, selector: str):
    await same(both, f"timeoutSeconds=1&{selector}", *CHANGES)


async def test_pods_come_and_go_with_their_node(both: Both):
    await play(both, ("POST", PODS, pod()))
    path = f"{PODS}?watch=1&timeoutSeconds=1&fieldSelector=spec.nodeName%3Dn".replace("{ns}", both.namespace)
    watches = [asyncio.ensure_future(read(server, path)) for server in both.servers]
    await asyncio.sleep(0.3)
    binding = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n"}}
    await play(both, ("POST", f"{PODS}/web/binding", binding), ("DELETE", f"{PODS}/web?gracePeriodSeconds=0"))
    embedded, real = await asyncio.gather(*watches)
    compare(path, embedded, real)


async def test_what_is_there_comes_first(both: Both):
    await play(both, *CHANGES[:2])
    for query in ("", "resourceVersion=0&", "resourceVersion=&"):
        events = await same(both, f"{query}timeoutSeconds=1")
        assert types(events) == ["ADDED", "ADDED"]


async def test_a_list_may_be_streamed(both: Both):
    await play(both, *CHANGES[:2])
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
    events = await same(both, query, CHANGES[2])
    assert types(events) == ["ADDED", "ADDED", "BOOKMARK", "MODIFIED"]
    assert events[2]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    events = await same(both, f"{query}&labelSelector=app%3Dx&resourceVersion=0")
    assert types(events) == ["ADDED", "BOOKMARK"]


@pytest.mark.parametrize("accept", [TABLE, PARTIAL, f"{TABLE},application/json", f"{PARTIAL};stream=watch"])
async def test_other_forms(both: Both, accept: str):
    await play(both, CHANGES[0])
    await same(both, "timeoutSeconds=1", *CHANGES[1:4], accept=accept)


@pytest.mark.parametrize("form", [TABLE, PARTIAL])
async def test_other_forms_of_streamed_lists(both: Both, form: str):
    await play(both, CHANGES[0])
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
    await same(both, query, CHANGES[1], accept=form)


async def test_from_a_version_on(both: Both):
    await play(both, *CHANGES[:2])
    versions = await now(both)
    await play(both, *CHANGES[2:5])
    events = await same(both, "timeoutSeconds=1&resourceVersion=", *CHANGES[5:], versions=versions)
    assert types(events) == ["MODIFIED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED", "DELETED"]
    again = await same(both, "timeoutSeconds=1&labelSelector=app%3Dx&resourceVersion=", versions=versions)
    assert types(again) == ["MODIFIED", "DELETED", "ADDED", "MODIFIED", "DELETED"]


REFUSED = [
    "sendInitialEvents=true", "sendInitialEvents=true&resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan",
    "sendInitialEvents=false", "labelSelector=%3D", "fieldSelector=data%3Dx",
    "timeoutSeconds=x", "resourceVersionMatch=Exact&resourceVersion=1", "limit=x",
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "continue=x",
]  # fmt: skip


@pytest.mark.parametrize("query", REFUSED)
async def test_bad_watches_are_refused(both: Both, query: str):
    path = f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1&{query}".replace(
        "timeoutSeconds=1&timeoutSeconds", "timeoutSeconds"
    )
    path = path.replace("{ns}", both.namespace)
    embedded, real = await asyncio.gather(*(read(server, path) for server in both.servers))
    compare(path, embedded, real)


@pytest.mark.parametrize("version", ["x", "-1"])
async def test_versions_that_are_none_are_refused(both: Both, version: str):
    path = f"{CONFIG_MAPS}?watch=1&resourceVersion={version}"
    embedded, real = await both.each("GET", path)
    # The real server calls it an error of its own.
    assert (embedded.code, real.code) == (400, 500)
    assert real["message"] in embedded["message"]


async def test_forgotten_versions_are_told_so(both: Both):
    embedded, real = await asyncio.gather(
        *(
            read(server, f"/api/v1/namespaces/{both.namespace}/configmaps?watch=1&timeoutSeconds=1&resourceVersion=1")
            for server in both.servers
        )
    )
    # The length of the history differs between servers; the code for expired revisions does not.
    for answer in (embedded, real):
        assert answer.code == 200
        assert all(event["object"].get("code", 410) == 410 for event in answer.body if event["type"] == "ERROR")


async def test_old_watch_paths_still_work(both: Both):
    await play(both, *CHANGES[:2])
    for path in ("/api/v1/watch/namespaces/{ns}/configmaps", "/api/v1/watch/namespaces/{ns}/configmaps/a"):
        where = path.replace("{ns}", both.namespace) + "?timeoutSeconds=1"
        embedded, real = await asyncio.gather(*(read(server, where) for server in both.servers))
        compare(path, embedded, real)


def _frames(data: bytes) -> list[dict[str, Any]]:
    """The events of a stream: four bytes of length, then a bare WatchEvent with an enveloped object in it."""
    from steersman_cluster.protobuf import decode
    from steersman_cluster.protobuf.wire import fields_in

    found: list[dict[str, Any]] = []
    while data:
        size = int.from_bytes(data[:4], "big")
        event = {number: value for number, _, value in fields_in(data[4 : 4 + size])}
        raw = {number: value for number, _, value in fields_in(event[2])}
        found.append({"type": event[1].decode(), "object": decode(raw[1])})
        data = data[4 + size :]
    return found


async def test_frames_of_protobuf(both: Both):
    await play(both, *CHANGES[:2])
    path = f"/api/v1/namespaces/{both.namespace}/configmaps?watch=1&timeoutSeconds=1"
    embedded, real = await asyncio.gather(*(read(server, path, PROTOBUF) for server in both.servers))
    assert embedded.content_type == "application/vnd.kubernetes.protobuf;stream=watch"
    compare(path, *(replace(answer, body=_frames(answer.body)) for answer in (embedded, real)))
    assert types(_frames(embedded.body)) == ["ADDED", "ADDED"]


@pytest.mark.parametrize(
    "value", ["true", "1", "True", "yes", "t", "", "true%22", "0", "false", "False", "FALSE", "00"]
)
async def test_only_0_and_false_are_no_watch(both: Both, value: str):
    answer = await both.same(
        "GET",
        f"/api/v1/namespaces/{{ns}}/configmaps?timeoutSeconds=1&watch={value}",
        ignore=("metadata.resourceVersion",),
    )
    assert (answer.body == "") is (value.lower() not in ("0", "false"))
