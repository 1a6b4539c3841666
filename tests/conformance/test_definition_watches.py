"""Watches of definitions, and of the objects whose definition changes or goes: both servers tell and end alike."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from .crd_cases import obj
from .harness import MERGE, Both, Server
from .test_crds import PATH, named
from .test_custom_resources import serve

Event = dict[str, Any]
SIZE = obj({"size": {"type": "string"}})
COLOR = obj({"size": {"type": "string"}, "color": {"type": "string"}})


@asynccontextmanager
async def watches(both: Both, path: str) -> AsyncIterator[list[aiohttp.ClientResponse]]:
    """A watch on each server, begun and long enough that a server that ends it has a reason."""
    async with asyncio.timeout(120):
        answers = [await _begun(server, path.replace("{ns}", both.namespace)) for server in both.servers]
        try:
            yield answers
        finally:
            for answer in answers:
                _cut(answer)


async def _begun(server: Server, path: str) -> aiohttp.ClientResponse:
    """A watch; the real server begins none for a moment after a definition changed."""
    while True:
        answer = await server.session.get(server.url + path, params={"watch": "1", "timeoutSeconds": "600"})
        if answer.status == 200:
            return answer
        assert answer.status == 429, await answer.text()
        await asyncio.sleep(0.1)


def _cut(answer: aiohttp.ClientResponse) -> None:
    """Leave a watch that has not ended, without an orderly TLS shutdown."""
    if answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.abort()
    answer.close()


async def read(answer: aiohttp.ClientResponse, last: Callable[[Event], bool] = lambda event: False) -> list[Event]:
    """The events up to the last one, or until the server ends the watch."""
    events: list[Event] = []
    async for line in answer.content:
        events.append(json.loads(line))
        if last(events[-1]):
            break
    return events


def named_and_seen(events: list[Event]) -> list[tuple[str, str, Any]]:
    return [(event["type"], event["object"]["metadata"]["name"], event["object"].get("spec")) for event in events]


def thing(kind: str, name: str, **spec: str) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


async def test_the_life_of_a_definition_is_told_in_order(both: Both) -> None:
    made = named("lives")
    name = made["metadata"]["name"]

    def is_the_end(event: Event) -> bool:
        return event["type"] == "DELETED" and event["object"]["metadata"]["name"] == name

    async with watches(both, PATH) as answers:
        await serve(both, made)
        await both.each("DELETE", f"{PATH}/{name}")
        for answer in answers:
            events = [e for e in await read(answer, is_the_end) if e["object"]["metadata"]["name"] == name]
            versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
            assert versions == sorted(set(versions))
            first, *middle, last = [event["type"] for event in events]
            assert (first, set(middle), last) == ("ADDED", {"MODIFIED"}, "DELETED")


async def test_a_watch_ends_when_the_schema_changes_and_the_next_shows_what_is_new(both: Both) -> None:
    path = await serve(both, named("paints", SIZE))
    try:
        async with watches(both, path) as answers:
            await both.each("POST", path, thing("Paints", "old", size="1", color="red"))
            await both.each("PATCH", f"{PATH}/paints.example.com", named("paints", COLOR), content_type=MERGE)
            for answer in answers:
                assert named_and_seen(await read(answer)) == [("ADDED", "old", {"size": "1"})]
        async with watches(both, path) as answers:
            await both.each("POST", path, thing("Paints", "new", color="red"))
            for answer in answers:
                events = await read(answer, lambda event: event["object"]["metadata"]["name"] == "new")
                assert named_and_seen(events)[-1] == ("ADDED", "new", {"color": "red"})
    finally:
        await both.each("DELETE", f"{PATH}/paints.example.com")


async def test_a_watch_ends_with_its_definition_after_its_objects(both: Both) -> None:
    path = await serve(both, named("leavings", SIZE))
    async with watches(both, path) as answers:
        for name in ("a", "b"):
            await both.each("POST", path, thing("Leavings", name))
        await both.each("DELETE", f"{PATH}/leavings.example.com")
        for answer in answers:
            events = [(event["type"], event["object"]["metadata"]["name"]) for event in await read(answer)]
            assert events[:2] == [("ADDED", "a"), ("ADDED", "b")]
            assert {name for happened, name in events if happened == "DELETED"} == {"a", "b"}
    for answer in await both.each("GET", f"{path}?watch=1"):
        assert answer.code == 404


async def test_a_watch_goes_on_when_a_definition_gets_a_label(both: Both) -> None:
    path = await serve(both, named("labels", SIZE))
    try:
        async with watches(both, path) as answers:
            label = {"metadata": {"labels": {"a": "b"}}}
            await both.each("PATCH", f"{PATH}/labels.example.com", label, content_type=MERGE)
            await both.each("POST", path, thing("Labels", "a"))
            for answer in answers:
                assert len(await read(answer, lambda event: True)) == 1
    finally:
        await both.each("DELETE", f"{PATH}/labels.example.com")
