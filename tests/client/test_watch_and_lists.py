"""Framing, watch events and pages, from bytes: where chunks end must never matter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steersman.client import ConnectionLostError, Expired, ResponseError
from steersman.client.line_splitter import LineSplitter
from steersman.client.lists import read_page
from steersman.client.options import selector_text
from steersman.client.transport import HeaderPairs, StreamResponse
from steersman.client.watch import WatchEvent, read_event, watch_events
from steersman.models import (
    DecodeError,
    Dynamic,
    Key,
    LabelSelector,
    LabelSelectorRequirement,
    Model,
    Resource,
    dynamic,
    metadata_of,
    view_of,
)


class GizmoSpec(Model):
    text: str = ""
    size: int = 0


class Gizmo(Resource, group="watch.example.com", version="v1"):
    spec: GizmoSpec = GizmoSpec()


VIEW = view_of(Gizmo)


def gizmo(name: str, version: int, **spec: object) -> dict[str, object]:
    return {
        "apiVersion": "watch.example.com/v1",
        "kind": "Gizmo",
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(version)},
        "spec": spec,
    }


def line(type: str, obj: object) -> bytes:
    return json.dumps({"type": type, "object": obj}, ensure_ascii=False).encode() + b"\n"


def response_of(chunks: list[bytes]) -> StreamResponse:
    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    return StreamResponse(200, HeaderPairs(), body())


async def events_of(chunks: list[bytes]) -> list[WatchEvent[Gizmo]]:
    async with aclosing(watch_events(VIEW, response_of(chunks), "WATCH /x")) as events:
        return [event async for event in events]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[a:b] for a, b in pairwise(bounds)]


texts = st.text(alphabet=st.sampled_from('ab\\" \u0085\u2028\u2029\x0b\x0c\r\x1c\U0001f6a2ä'), max_size=30)


@given(st.lists(texts, max_size=12), st.lists(st.integers(0, 10_000), max_size=40))
@settings(deadline=None)
def test_events_are_the_same_wherever_the_chunks_end(values, places):
    """W8: bytes are split on \\n only; U+0085 and U+2028 are legal inside JSON strings."""
    data = b"".join(line("ADDED", gizmo(f"g-{n}", n, text=text)) for n, text in enumerate(values))
    events = asyncio.run(events_of(cut(data, places)))
    assert [event.object.spec.text for event in events] == values
    assert [event.key for event in events] == [Key("ns", f"g-{n}") for n in range(len(values))]


@given(st.lists(st.binary(max_size=40), max_size=20), st.lists(st.integers(0, 2000), max_size=30))
def test_lines_are_those_of_the_whole(parts, places):
    data = b"\n".join(parts)
    lines = LineSplitter()
    got = [whole for chunk in cut(data, places) for whole in lines.feed(chunk)]
    *whole, rest = data.split(b"\n")
    assert got == [part for part in whole if part]
    assert lines.rest() == rest


def test_three_megabytes_in_small_chunks_cost_no_more_than_their_size():
    """W8: one object may be 3 MB."""
    data = line("MODIFIED", gizmo("big", 1, text="\u0085x" * 1_000_000))
    assert len(data) > 3_000_000
    chunks = [data[i : i + 4096] for i in range(0, len(data), 4096)]
    (event,) = asyncio.run(events_of(chunks))
    assert len(event.object.spec.text) == 2_000_000


def test_a_line_that_never_ends_is_given_up():
    lines = LineSplitter(longest=100)
    lines.feed(b"x" * 100)
    with pytest.raises(ResponseError, match="more than 100 bytes"):
        lines.feed(b"x")


async def test_a_watch_that_ends_inside_an_event_is_a_lost_connection():
    data = line("ADDED", gizmo("a", 1)) + line("ADDED", gizmo("b", 2))[:-20]
    with pytest.raises(ConnectionLostError, match="inside an event"):
        await events_of([data])


async def test_an_object_that_does_not_fit_its_type_stops_nothing():
    """W9: it keeps its key and version; reading it raises an error that names the field."""
    data = line("ADDED", gizmo("bad", 1, size="many")) + line("ADDED", gizmo("good", 2, size=3))
    bad, good = await events_of([data])
    assert (bad.key, bad.resource_version, bad.uid) == (Key("ns", "bad"), "1", "uid-bad")
    with pytest.raises(DecodeError) as wrong:
        _ = bad.object
    assert wrong.value.path == "$.spec.size"
    assert good.object.spec.size == 3


async def test_a_bookmark_moves_the_version_and_has_no_object():
    mark = {"kind": "Gizmo", "metadata": {"resourceVersion": "77", "creationTimestamp": None}, "spec": {"size": 0}}
    last = {"metadata": {"resourceVersion": "78", "annotations": {"k8s.io/initial-events-end": "true"}}}
    first, second = await events_of([line("BOOKMARK", mark), line("BOOKMARK", last)])
    assert (first.resource_version, first.initial_events_end) == ("77", False)
    assert (second.resource_version, second.initial_events_end) == ("78", True)
    with pytest.raises(ValueError, match="no object"):
        _ = first.object


async def test_an_expired_version_may_come_as_an_event():
    """W4: 410 may come as an ERROR event in the stream."""
    gone = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}
    with pytest.raises(Expired, match="WATCH /x: too old"):
        await events_of([line("ERROR", gone)])


@pytest.mark.parametrize("bad", [b"nonsense", b"{}", b'{"type":"ADDED"}', b'{"type":"NEW","object":{}}', b"\xff"])
def test_what_is_no_event_is_named(bad):
    with pytest.raises(ResponseError, match="WATCH /x"):
        read_event(VIEW, bad, "WATCH /x")


def page_of(*items: object, **metadata: object) -> bytes:
    return json.dumps({"kind": "GizmoList", "metadata": metadata, "items": list(items)}).encode()


def test_one_bad_item_does_not_spoil_the_page():
    """W9: undecodable objects of a list keep their key; the others are there."""
    body = page_of(gizmo("a", 1), gizmo("bad", 2, size="x"), gizmo("c", 3), resourceVersion="9", remainingItemCount=4)
    page = read_page(VIEW, body, "GET /x")
    assert [item.metadata.name for item in page] == ["a", "c"]
    assert (page.resource_version, page.remaining, page.continue_) == ("9", 4, "")
    (bad,) = page.undecodable
    assert (bad.key, bad.resource_version, bad.error.path) == (Key("ns", "bad"), "2", "$.spec.size")
    assert "spec" in repr(bad)


def test_an_empty_list_may_be_null():
    assert len(read_page(VIEW, b'{"metadata":{"resourceVersion":"1"},"items":null}', "GET /x")) == 0


def test_items_of_a_dynamic_list_know_their_kind():
    item = gizmo("a", 1)
    del item["apiVersion"], item["kind"]
    page = read_page(dynamic("watch.example.com/v1", "Gizmo"), page_of(item), "GET /x")
    (found,) = page.items
    assert isinstance(found, Dynamic)
    assert (found.api_version, found.kind) == ("watch.example.com/v1", "Gizmo")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"items":3}'])
def test_what_is_no_list_is_named(body):
    with pytest.raises(ResponseError, match="GET /x: the response is not a valid list"):
        read_page(metadata_of(Gizmo), body, "GET /x")


def test_selectors_are_written_as_the_api_reads_them():
    rules = (
        LabelSelectorRequirement(key="tier", operator="In", values=("a", "b")),
        LabelSelectorRequirement(key="old", operator="DoesNotExist"),
        LabelSelectorRequirement(key="new", operator="Exists"),
    )
    assert selector_text(LabelSelector(match_labels={"app": "x"}, match_expressions=rules)) == (
        "app=x,tier in (a,b),!old,new"
    )
    assert selector_text({"b": "2", "a": "1"}) == "a=1,b=2"
    assert selector_text("raw") == "raw"
    assert selector_text(None) == ""
    with pytest.raises(ValueError, match="operator 'Near'"):
        selector_text(LabelSelector(match_expressions=(LabelSelectorRequirement(key="k", operator="Near"),)))
