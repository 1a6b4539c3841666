"""The requests that leave, and what the answers mean to the reflector."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from steersman.cache import RawListWatch
from steersman.cache.lines import MalformedStreamError
from steersman.cache.reflector import Failure
from steersman.cache.reflector_loop import classify_failure
from steersman.client import Client
from steersman.client.config import Config
from steersman.client.errors import ConnectError, ConnectionLostError, TransportTimeoutError, error_from_status
from steersman.client.status import Status
from steersman.client.transport import UnsupportedTransport
from steersman.client.transport.base import HeaderPairs, Response, StreamResponse
from steersman.models import dynamic, metadata_of

WIDGET = dynamic("widgets.example.com/v1", "Widget")


class Recording(UnsupportedTransport):
    """Answers every request and records it."""

    def __init__(self, status=200, body=b"{}"):
        self.asked = []
        self.accepted = []
        self.answer = Response(status, body=body)

    async def request(self, method, path, *, query=(), headers=(), body=None, timeout):
        self.accepted.append(dict(headers)["Accept"])
        self.asked.append((method, path, dict(query)))
        return self.answer

    def stream(self, method, path, *, query=(), headers=(), body=None, connect_timeout, idle_timeout):
        @asynccontextmanager
        async def opened():
            self.accepted.append(dict(headers)["Accept"])
            self.asked.append((method, path, dict(query)))

            async def chunks():
                yield self.answer.body

            yield StreamResponse(self.answer.status, HeaderPairs(), chunks())

        return opened()

    async def close(self):
        pass


def source(transport, view=WIDGET, **scope):
    return RawListWatch(Client(Config.for_url("http://fake"), transport=transport).raw, view, **scope)


async def test_a_list_asks_for_pages_of_the_most_recent_state():
    """W1: a first page names no resourceVersion unless told, a later one only its token."""
    transport = Recording()
    lists = source(transport, namespace="x", labels="app=web", fields="metadata.name=a")
    await lists.list_page(limit=500, continue_="", resource_version="", match="")
    await lists.list_page(limit=500, continue_="token", resource_version="7", match="NotOlderThan")
    await lists.list_page(limit=500, continue_="", resource_version="7", match="NotOlderThan")
    path = "/apis/widgets.example.com/v1/namespaces/x/widgets"
    selectors = {"labelSelector": "app=web", "fieldSelector": "metadata.name=a", "limit": "500"}
    assert transport.asked == [
        ("GET", path, selectors),
        ("GET", path, {**selectors, "continue": "token"}),
        ("GET", path, {**selectors, "resourceVersion": "7", "resourceVersionMatch": "NotOlderThan"}),
    ]


async def test_a_watch_list_asks_for_initial_events_and_bookmarks():
    """W2: sendInitialEvents with NotOlderThan; an ordinary watch names its position."""
    transport = Recording(body=b"bytes")
    lists = source(transport)
    async with lists.watch(resource_version="", send_initial_events=True, timeout=300.4) as chunks:
        assert [c async for c in chunks] == [b"bytes"]
    async with lists.watch(resource_version="9", send_initial_events=False, timeout=45) as chunks:
        assert [c async for c in chunks] == [b"bytes"]
    both = {"watch": "true", "allowWatchBookmarks": "true"}
    path = "/apis/widgets.example.com/v1/widgets"
    initial = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "timeoutSeconds": "300"}
    assert transport.asked == [
        ("GET", path, {**both, **initial}),
        ("GET", path, {**both, "timeoutSeconds": "45", "resourceVersion": "9"}),
    ]


async def test_a_metadata_view_asks_for_metadata_and_takes_what_there_is():
    """W11: whole objects stay acceptable, for servers that have no other form."""
    transport = Recording()
    for view in (metadata_of(WIDGET), WIDGET):
        lists = source(transport, view)
        await lists.list_page(limit=500, continue_="", resource_version="", match="")
        async with lists.watch(resource_version="", send_initial_events=True, timeout=300):
            pass
    meta = "g=meta.k8s.io;v=v1,application/json"
    assert transport.accepted == [
        f"application/json;as=PartialObjectMetadataList;{meta}",
        f"application/json;as=PartialObjectMetadata;{meta}",
        "application/json",
        "application/json",
    ]


async def test_refusals_are_raised_and_not_retried():
    """W6: the reflector has a back-off of its own; the client's retries would hide an overloaded server from it."""
    transport = Recording(503, b"")
    lists = source(transport)
    async with asyncio.timeout(1):
        for _ in range(2):
            with pytest.raises(Exception, match="503") as caught:
                await lists.list_page(limit=500, continue_="", resource_version="", match="")
            assert classify_failure(caught.value) is Failure.UNREACHABLE
    assert len(transport.asked) == 2


@pytest.mark.parametrize(
    ("code", "reason", "failure"),
    [
        (410, "Expired", Failure.EXPIRED),
        (410, "Gone", Failure.EXPIRED),
        (404, "NotFound", Failure.MISSING),
        (429, "TooManyRequests", Failure.THROTTLED),
        (401, "Unauthorized", Failure.FORBIDDEN),
        (403, "Forbidden", Failure.FORBIDDEN),
        (400, "BadRequest", Failure.REFUSED),
        (405, "MethodNotAllowed", Failure.REFUSED),
        (406, "NotAcceptable", Failure.REFUSED),
        (415, "UnsupportedMediaType", Failure.REFUSED),
        (422, "Invalid", Failure.REFUSED),
        (501, "", Failure.REFUSED),
        (500, "InternalError", Failure.UNREACHABLE),
        (503, "ServiceUnavailable", Failure.UNREACHABLE),
        (504, "Timeout", Failure.UNREACHABLE),
    ],
)
def test_each_status_means_one_thing(code, reason, failure):
    """W4: and whatever is not a refusal of the request itself is worth trying again."""
    assert classify_failure(error_from_status(Status(code=code, reason=reason))) is failure


def test_a_watch_cache_that_is_not_filled_yet_is_not_overload():
    status = Status(code=429, reason="TooManyRequests", message="storage is (re)initializing")
    assert classify_failure(error_from_status(status, retry_after=1.0)) is Failure.UNINITIALIZED


@pytest.mark.parametrize(
    "problem", [ConnectError("x"), ConnectionLostError("x"), TransportTimeoutError("x"), OSError(), KeyError()]
)
def test_what_is_no_answer_is_tried_again(problem):
    """W6: also for unexpected errors."""
    assert classify_failure(problem) is Failure.UNREACHABLE
    assert classify_failure(MalformedStreamError("x")) is Failure.MALFORMED
