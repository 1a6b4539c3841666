"""Custom resources are served, changed and removed with their definitions; watches deliver this in order."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from .direct import Direct

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FOOS = "/apis/example.com/v1/namespaces/default/foos"


def definition(plural: str = "foos", *fields: str, short: str = "") -> dict[str, Any]:
    properties = {field: {"type": "string"} for field in fields}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names: dict[str, Any] = {"plural": plural, "kind": plural.removesuffix("s").capitalize()}
    if short:
        names["shortNames"] = [short]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def foo(name: str, **spec: str) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": name}, "spec": spec}


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def versions(events: list[dict[str, Any]]) -> list[int]:
    return [int(event["object"]["metadata"]["resourceVersion"]) for event in events]


@pytest.fixture
async def server() -> AsyncIterator[Direct]:
    made = Direct()
    yield made
    await made.api.close()


async def test_a_definition_is_served_when_its_creation_is_answered(server: Direct):
    assert (await server.ask("POST", DEFINITIONS, definition())).status == 201
    assert (await server.ask("POST", FOOS, foo("a"))).status == 201
    assert (await server.ask("DELETE", f"{DEFINITIONS}/foos.example.com")).status == 200
    assert (await server.ask("GET", FOOS)).status == 404


async def test_a_watch_of_definitions_hears_of_their_lives_in_order(server: Direct):
    reading = await server.read(DEFINITIONS, timeoutSeconds="60")
    await server.ask("POST", DEFINITIONS, definition())
    await server.ask("DELETE", f"{DEFINITIONS}/foos.example.com")
    await server.api.close()
    events = await reading
    assert types(events) == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    assert versions(events) == sorted(set(versions(events)))


async def test_a_thousand_objects_go_with_their_definition_and_each_is_told(server: Direct):
    await server.ask("POST", DEFINITIONS, definition())
    for number in range(1000):
        assert (await server.ask("POST", FOOS, foo(f"foo-{number}"))).status == 201
    version = str(server.api.storage.revision)
    reading = await server.read(FOOS, resourceVersion=version, timeoutSeconds="60")
    assert (await server.ask("DELETE", f"{DEFINITIONS}/foos.example.com")).status == 200
    await server.api.close()
    events = await reading
    assert types(events) == ["DELETED"] * 1000
    assert versions(events) == sorted(set(versions(events)))


async def test_a_name_that_one_definition_gives_up_is_at_once_the_other_s(server: Direct):
    await server.ask("POST", DEFINITIONS, definition("foos", short="f"))
    await server.ask("POST", DEFINITIONS, definition("fees", short="f"))
    without = {"spec": {"names": {"shortNames": None}}}
    assert (await server.ask("PATCH", f"{DEFINITIONS}/foos.example.com", without)).status == 200
    found = json.loads((await server.ask("GET", "/apis/example.com/v1")).body)["resources"]
    assert {resource["name"]: resource.get("shortNames") for resource in found} == {"foos": None, "fees": ["f"]}


async def test_a_watch_ends_when_its_definition_changes_and_the_next_one_shows_what_is_new(server: Direct):
    await server.ask("POST", DEFINITIONS, definition("foos", "size"))
    reading = await server.read(FOOS, timeoutSeconds="60")
    await server.ask("POST", FOOS, foo("a", size="1", color="red"))
    assert (
        await server.ask("PATCH", f"{DEFINITIONS}/foos.example.com", definition("foos", "size", "color"))
    ).status == 200
    events = await reading
    assert [event["object"]["spec"] for event in events] == [{"size": "1"}]
    reading = await server.read(FOOS, resourceVersion=str(versions(events)[-1]), timeoutSeconds="60")
    await server.ask("PATCH", f"{FOOS}/a", {"spec": {"color": "blue"}})
    await server.api.close()
    assert [event["object"]["spec"] for event in await reading] == [{"size": "1", "color": "blue"}]


async def test_a_watch_that_was_answered_before_its_definition_changed_ends_at_once(server: Direct):
    await server.ask("POST", DEFINITIONS, definition("foos", "size"))
    watch = await server.watch(FOOS, timeoutSeconds="60")
    await server.ask("PATCH", f"{DEFINITIONS}/foos.example.com", definition("foos", "size", "color"))
    assert await watch.rest() == []


async def test_a_watch_ends_with_its_definition_after_all_its_objects_are_told_gone(server: Direct):
    await server.ask("POST", DEFINITIONS, definition())
    reading = await server.read(FOOS, timeoutSeconds="60")
    for name in ("a", "b"):
        await server.ask("POST", FOOS, foo(name))
    await server.ask("DELETE", f"{DEFINITIONS}/foos.example.com")
    assert types(await reading) == ["ADDED", "ADDED", "DELETED", "DELETED"]


async def test_a_watch_goes_on_while_a_definition_waits_for_the_last_object(server: Direct):
    await server.ask("POST", DEFINITIONS, definition())
    held = foo("a")
    held["metadata"]["finalizers"] = ["example.com/held"]
    await server.ask("POST", FOOS, held)
    reading = await server.read(FOOS, timeoutSeconds="60")
    await server.ask("DELETE", f"{DEFINITIONS}/foos.example.com")
    await server.ask("PATCH", f"{FOOS}/a", {"metadata": {"finalizers": None}})
    assert types(await reading) == ["ADDED", "MODIFIED", "DELETED"]


@pytest.mark.parametrize("held", [False, True])
async def test_objects_of_a_definition_that_ends_are_looked_through_once(server: Direct, held: bool, monkeypatch):
    """Not once more for each object that goes, be it at once or when its finalizer is removed."""
    await server.ask("POST", DEFINITIONS, definition())
    names = [f"a{n}" for n in range(20)]
    for name in names:
        made = foo(name)
        if held:
            made["metadata"]["finalizers"] = ["example.com/held"]
        await server.ask("POST", FOOS, made)
    storage, passes = server.api.storage, []
    items = storage.items
    monkeypatch.setattr(
        storage, "items", lambda place, *rest: passes.append(place) or items(place, *rest), raising=True
    )
    await server.ask("DELETE", f"{DEFINITIONS}/foos.example.com")
    for name in names if held else ():
        await server.ask("PATCH", f"{FOOS}/{name}", {"metadata": {"finalizers": None}})
    assert passes.count(("example.com", "foos")) == 1
    assert (await server.ask("GET", f"{DEFINITIONS}/foos.example.com")).status == 404


@pytest.mark.parametrize(
    ("subresource", "change"),
    [
        ("", {"metadata": {"labels": {"a": "b"}}}),
        ("/status", {"status": {"conditions": [], "storedVersions": ["v1"]}}),
    ],
)
async def test_a_watch_goes_on_when_its_definition_says_what_it_said(server: Direct, subresource: str, change: Any):
    await server.ask("POST", DEFINITIONS, definition())
    reading = await server.read(FOOS, timeoutSeconds="60")
    before = server.api.storage.revision
    assert (await server.ask("PATCH", f"{DEFINITIONS}/foos.example.com{subresource}", change)).status == 200
    assert server.api.storage.revision > before
    await server.ask("POST", FOOS, foo("a"))
    await server.api.close()
    assert types(await reading) == ["ADDED"]


async def test_watches_of_other_kinds_go_on_when_a_definition_changes(server: Direct):
    await server.ask("POST", DEFINITIONS, definition("foos", "size"))
    await server.ask("POST", DEFINITIONS, definition("bars"))
    reading = await server.read(FOOS.replace("foos", "bars"), timeoutSeconds="60")
    await server.ask("DELETE", f"{DEFINITIONS}/foos.example.com")
    await server.ask("POST", FOOS.replace("foos", "bars"), {**foo("a"), "kind": "Bar"})
    await server.api.close()
    assert types(await reading) == ["ADDED"]
