"""Requests in bytes: retries, credentials, the gate, warnings, metrics. A scripted transport, on virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.client import (
    NO_RETRIES,
    Client,
    ClientError,
    Config,
    ConnectError,
    ConnectionLostError,
    Forbidden,
    InternalError,
    NotFound,
    ResponseError,
    RetryPolicy,
    ServerTimeout,
    ServiceUnavailable,
    TooManyRequests,
    TransportError,
    TransportTimeoutError,
    Unauthorized,
)
from steersman.client.config import Impersonation
from steersman.client.errors import api_error
from steersman.client.retry import is_idempotent, retry_delay
from steersman.client.transport import HeaderPairs, Response, StreamResponse, UnsupportedTransport
from steersman.client.transport.http2.stream import BlockHeaders
from steersman.client.warnings import parse_warnings
from steersman.telemetry.registry import REGISTRY
from steersman.testing import virtual_time

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
OK = Response(200, body=b"{}")


def status(code: int, retry_after: str | None = None, reason: str = "", message: str = "no") -> Response:
    headers = {"Content-Type": "application/json"} | ({"Retry-After": retry_after} if retry_after else {})
    body = f'{{"kind":"Status","status":"Failure","code":{code},"reason":"{reason}","message":"{message}"}}'
    return Response(code, HeaderPairs(headers), body.encode())


class Scripted(UnsupportedTransport):
    """Returns one response per request; records the requests and their times."""

    def __init__(self, *answers: Response | Exception) -> None:
        self.answers = list(answers)
        self.calls: list[dict[str, Any]] = []

    async def request(self, method, path, *, query=(), headers=(), body=None, timeout):
        now = asyncio.get_running_loop().time()
        self.calls.append({"method": method, "path": path, "query": query, "headers": headers, "body": body, "at": now})
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def times(self) -> list[float]:
        return [call["at"] - self.calls[0]["at"] for call in self.calls]


def client_of(transport: Scripted, config: Config | None = None, **options: Any) -> Client:
    config = config or Config.for_url("http://api.test")
    return Client(config, transport=transport, rng=random.Random(1), now=lambda: NOW, **options)


PASSING = [
    status(429),
    status(503),
    status(504),
    status(500, "1"),
    ConnectionLostError("reset"),
    ConnectError("refused"),
    TransportTimeoutError("slow"),
]


@pytest.mark.parametrize("answer", PASSING, ids=str)
@pytest.mark.parametrize("method", ["GET", "PUT"])
@virtual_time
async def test_what_may_pass_is_tried_again(answer, method):
    """A6: 429, 503, 504 and lost connections are retried where a repetition does no harm."""
    transport = Scripted(answer, OK)
    response = await client_of(transport).raw.request(method, "/x", body=b"{}" if method == "PUT" else None)
    assert response is OK
    assert len(transport.calls) == 2


@pytest.mark.parametrize(
    "answer",
    [status(503), status(504, "1"), status(500, "1"), ConnectionLostError("reset"), TransportTimeoutError("slow")],
    ids=str,
)
@pytest.mark.parametrize(
    ("method", "content_type"),
    [("POST", "application/json"), ("PATCH", "application/json-patch+json"), ("DELETE", "application/json")],
)
@virtual_time
async def test_a_create_that_may_have_happened_is_never_repeated(answer, method, content_type):
    """A6: never a blind retry of a non-idempotent create."""
    transport = Scripted(answer, OK)
    with pytest.raises(ClientError):
        await client_of(transport).raw.request(method, "/x", body=b"{}", content_type=content_type)
    assert len(transport.calls) == 1


@pytest.mark.parametrize("answer", [status(429), status(429, "1"), status(503, "2"), ConnectError("refused")], ids=str)
@virtual_time
async def test_a_create_that_was_turned_away_is_repeated(answer):
    """A6: a server that says it has not acted, or was never reached, may be asked again."""
    transport = Scripted(answer, OK)
    await client_of(transport).raw.request("POST", "/x", body=b"{}")
    assert len(transport.calls) == 2


@pytest.mark.parametrize("code", [400, 403, 404, 405, 409, 410, 413, 415, 422, 500])
@virtual_time
async def test_a_refusal_is_final(code):
    transport = Scripted(status(code), OK)
    with pytest.raises(ClientError):
        await client_of(transport).raw.request("GET", "/x")
    assert len(transport.calls) == 1


@pytest.mark.parametrize("form", ["seconds", "date"])
@virtual_time
async def test_retry_after_is_kept_to(form):
    """A6: Retry-After is honoured, as seconds and as a date."""
    value = "7" if form == "seconds" else format_datetime(NOW + timedelta(seconds=7), usegmt=True)
    transport = Scripted(status(429, value), OK)
    await client_of(transport).raw.request("GET", "/x")
    assert 7 <= transport.times[1] <= 7 * 1.25


@virtual_time
async def test_a_retry_after_beyond_the_deadline_is_raised_at_once():
    """A6: retries have a deadline."""
    transport = Scripted(status(429, "3600"))
    with pytest.raises(TooManyRequests) as busy:
        await client_of(transport).raw.request("GET", "/x")
    assert busy.value.retry_after == 3600
    assert transport.times == [0]


@virtual_time
async def test_waits_double_and_end():
    """A6: back-off is exponential, jittered, and bounded by attempts and a deadline."""
    transport = Scripted(status(503))
    with pytest.raises(ServiceUnavailable):
        await client_of(transport).raw.request("GET", "/x")
    assert len(transport.calls) == RetryPolicy().attempts
    gaps = [b - a for a, b in zip(transport.times, transport.times[1:], strict=False)]
    assert all(0.5 * 0.25 * 2**n <= gap <= 0.25 * 2**n for n, gap in enumerate(gaps))
    assert transport.times[-1] < 60


@virtual_time
async def test_an_unreachable_server_is_given_up_within_seconds():
    transport = Scripted(ConnectError("refused"))
    with pytest.raises(ConnectError):
        await client_of(transport).raw.request("GET", "/x")
    assert len(transport.calls) == RetryPolicy().connect_attempts
    assert transport.times[-1] < 3


@virtual_time
async def test_retries_can_be_declined():
    transport = Scripted(status(429, "1"), OK)
    with pytest.raises(TooManyRequests):
        await client_of(transport).raw.request("GET", "/x", retries=NO_RETRIES)
    assert len(transport.calls) == 1


@given(
    attempt=st.integers(1, 12),
    elapsed=st.floats(0, 120),
    seed=st.integers(),
    after=st.one_of(st.none(), st.integers(0, 100)),
    idempotent=st.booleans(),
    code=st.sampled_from([429, 500, 503, 504]),
)
def test_no_wait_is_negative_or_passes_the_deadline(attempt, elapsed, seed, after, idempotent, code):
    problem = api_error(code, b"", request="GET /x", retry_after=None if after is None else float(after))
    policy = RetryPolicy()
    delay = retry_delay(
        policy, problem, attempt=attempt, elapsed=elapsed, idempotent=idempotent, rng=random.Random(seed)
    )
    if delay is not None:
        assert delay >= (after or 0)
        assert elapsed + delay < policy.deadline
        assert attempt < policy.attempts


def test_only_what_says_what_shall_be_is_idempotent():
    assert is_idempotent("PATCH", "application/apply-patch+yaml")
    assert is_idempotent("PATCH", "application/merge-patch+json")
    assert not is_idempotent("PATCH", "application/json-patch+json")
    assert not is_idempotent("POST")
    assert not is_idempotent("DELETE")


class Credentials:
    """Credentials that a refresh renews, once."""

    fresh_until = float("-inf")

    def __init__(self, *tokens: str) -> None:
        self.mappings = [{"Authorization": f"Bearer {token}"} for token in tokens]
        self.refreshed = 0

    async def headers(self, *, refresh: bool = False):
        if refresh:
            self.refreshed += 1
            if len(self.mappings) > 1:
                self.mappings.pop(0)
        return self.mappings[0]

    def client_certificate(self):
        return None


@virtual_time
async def test_a_401_renews_the_credentials_once():
    auth = Credentials("old", "new")
    transport = Scripted(status(401), OK)
    await client_of(transport, Config(server="http://api.test", auth=auth)).raw.request("POST", "/x", body=b"{}")
    sent = [dict(call["headers"])["Authorization"] for call in transport.calls]
    assert sent == ["Bearer old", "Bearer new"]
    assert auth.refreshed == 1


@virtual_time
async def test_credentials_that_stay_refused_are_unauthorized():
    auth = Credentials("old", "new", "newer")
    transport = Scripted(status(401))
    with pytest.raises(Unauthorized):
        await client_of(transport, Config(server="http://api.test", auth=auth)).raw.request("GET", "/x")
    assert len(transport.calls) == 2


@virtual_time
async def test_nothing_newer_to_offer_means_no_second_attempt():
    transport = Scripted(status(401))
    with pytest.raises(Unauthorized):
        await client_of(transport).raw.request("GET", "/x")
    assert len(transport.calls) == 1


class Fresh(Credentials):
    """Credentials that say how long they need not be asked for again."""

    def __init__(self, *tokens: str, until: float = float("inf")) -> None:
        super().__init__(*tokens)
        self.fresh_until = until
        self.asked = 0

    async def headers(self, *, refresh: bool = False):
        self.asked += not refresh
        await asyncio.sleep(1 if refresh else 0)
        return await super().headers(refresh=refresh)


@virtual_time
async def test_credentials_are_not_asked_for_while_they_say_that_they_are_fresh():
    auth = Fresh("first", until=asyncio.get_running_loop().time() + 60)
    transport = Scripted(OK)
    raw = client_of(transport, Config(server="http://api.test", auth=auth)).raw
    for _ in range(3):
        await raw.request("GET", "/x")
    assert auth.asked == 1
    await asyncio.sleep(60)
    auth.mappings = [{"Authorization": "Bearer second"}]
    await raw.request("GET", "/x")
    assert auth.asked == 2
    sent = [dict(call["headers"])["Authorization"] for call in transport.calls]
    assert sent == ["Bearer first"] * 3 + ["Bearer second"]


@virtual_time
async def test_a_401_ends_the_freshness_of_credentials_also_for_those_who_ask_meanwhile():
    auth = Fresh("old", "new")
    transport = Scripted(OK, status(401), OK)
    raw = client_of(transport, Config(server="http://api.test", auth=auth)).raw
    await raw.request("GET", "/first")
    refused = asyncio.create_task(raw.request("GET", "/refused"))
    await asyncio.sleep(0.5)
    await raw.request("GET", "/meanwhile")
    await refused
    sent = [(call["path"], dict(call["headers"])["Authorization"]) for call in transport.calls]
    assert sent == [
        ("/first", "Bearer old"),
        ("/refused", "Bearer old"),
        ("/meanwhile", "Bearer old"),
        ("/refused", "Bearer new"),
    ]
    assert auth.refreshed == 1


@virtual_time
async def test_a_client_asks_each_time_where_nothing_is_said_of_freshness():
    auth = Credentials("one")
    transport = Scripted(OK)
    raw = client_of(transport, Config(server="http://api.test", auth=auth)).raw
    await raw.request("GET", "/x")
    auth.mappings = [{"Authorization": "Bearer two"}]
    await raw.request("GET", "/x")
    assert dict(transport.calls[1]["headers"])["Authorization"] == "Bearer two"


@virtual_time
async def test_headers_identify_the_client_and_impersonate():
    config = Config(server="http://api.test", impersonate=Impersonation(user="jane", groups=("a", "b")))
    transport = Scripted(OK)
    await client_of(transport, config, user_agent="mine/1").raw.request("PATCH", "/x", body=b"{}", content_type="x/y")
    headers = list(transport.calls[0]["headers"])
    assert ("User-Agent", "mine/1") in headers
    assert ("Impersonate-User", "jane") in headers
    assert [v for n, v in headers if n == "Impersonate-Group"] == ["a", "b"]
    assert ("Content-Type", "x/y") in headers


class ClosedGateError(Exception):
    pass


class Gate:
    def __init__(self, passes: int) -> None:
        self.passes = passes
        self.asked: list[str] = []

    def check(self, verb: str, path: str) -> None:
        self.asked.append(f"{verb} {path}")
        if len(self.asked) > self.passes:
            raise ClosedGateError


@virtual_time
async def test_a_closed_gate_lets_no_write_out():
    """L2: a deposed leader writes nothing: the gate is asked before the request leaves, and reads go on."""
    transport = Scripted(OK)
    client = client_of(transport, gate=Gate(0))
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        with pytest.raises(ClosedGateError):
            await client.raw.request(method, "/x", body=b"{}")
    assert transport.calls == []
    await client.raw.request("GET", "/x")
    assert len(transport.calls) == 1


@virtual_time
async def test_the_gate_is_asked_again_before_each_retry():
    """L2: leadership may be lost while a write waits to be tried again."""
    transport = Scripted(status(429, "5"), OK)
    gate = Gate(1)
    with pytest.raises(ClosedGateError):
        await client_of(transport, gate=gate).raw.request("PATCH", "/x", body=b"{}")
    assert len(transport.calls) == 1
    assert gate.asked == ["PATCH /x", "PATCH /x"]


@virtual_time
async def test_a_gate_may_make_writes_wait():
    class Slow:
        def check(self, verb: str, path: str):
            return asyncio.sleep(3)

    transport = Scripted(OK)
    before = asyncio.get_running_loop().time()
    await client_of(transport, gate=Slow()).raw.request("POST", "/x", body=b"{}")
    assert transport.calls[0]["at"] - before == 3


@virtual_time
async def test_each_warning_is_told_once():
    told: list[tuple[str, str]] = []
    warned = Response(200, HeaderPairs([("Warning", '299 - "one"'), ("Warning", '299 - "two"')]), b"{}")
    client = client_of(Scripted(warned), on_warning=lambda text, request: told.append((text, request)))
    await client.raw.request("GET", "/a")
    await client.raw.request("GET", "/b")
    assert told == [("one", "GET /a"), ("two", "GET /a")]


def test_warnings_are_read_as_the_rfc_writes_them():
    assert parse_warnings(['299 - "say \\"hi\\"", 299 agent "second"', '110 - "stale"', "garbage"]) == [
        'say "hi"',
        "second",
    ]


@virtual_time
async def test_requests_in_flight_are_bounded():
    running = peak = 0

    class Counting(Scripted):
        async def request(self, method, path, **_: Any):
            nonlocal running, peak
            running += 1
            peak = max(peak, running)
            await asyncio.sleep(1)
            running -= 1
            return OK

    client = client_of(Counting(), max_in_flight=4)
    await asyncio.gather(*(client.raw.request("GET", "/x") for _ in range(20)))
    assert peak == 4


def metric(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


@virtual_time
async def test_requests_are_measured_under_the_names_of_client_go():
    host = "metrics.test"
    config = Config.for_url(f"http://{host}")
    transport = Scripted(ConnectError("refused"), status(503), OK)
    await client_of(transport, config).raw.request("GET", "/x")
    for code in ("<error>", "503", "200"):
        assert metric("rest_client_requests_total", code=code, method="GET", host=host) == 1
    assert metric("rest_client_request_retries_total", code="503", verb="GET", host=host) == 1
    assert metric("rest_client_request_duration_seconds_count", verb="GET", host=host) == 3


class Streaming(Scripted):
    """Answers streams with the script."""

    @asynccontextmanager
    async def _answer(self, call: Callable[[], Any]) -> AsyncIterator[StreamResponse]:
        response = await call()

        async def chunks() -> AsyncIterator[bytes]:
            yield response.body

        yield StreamResponse(response.status, response.headers, chunks())

    def stream(self, method, path, *, query=(), headers=(), body=None, connect_timeout, idle_timeout):
        return self._answer(
            lambda: self.request(method, path, query=query, headers=headers, body=body, timeout=connect_timeout)
        )


@virtual_time
async def test_a_refused_stream_is_an_error_with_its_status():
    transport = Streaming(status(403, reason="Forbidden", message="pods is forbidden"))
    with pytest.raises(Forbidden, match="pods is forbidden"):
        async with client_of(transport).raw.stream("GET", "/x"):
            pass


@virtual_time
async def test_a_stream_is_not_retried_but_renews_credentials():
    auth = Credentials("old", "new")
    transport = Streaming(status(401), OK)
    async with client_of(transport, Config(server="http://api.test", auth=auth)).raw.stream("GET", "/x") as response:
        assert [chunk async for chunk in response.chunks] == [b"{}"]
    transport = Streaming(status(503), OK)
    with pytest.raises(ServiceUnavailable):
        async with client_of(transport).raw.stream("GET", "/x"):
            pass


@virtual_time
async def test_redirects_are_refused():
    with pytest.raises(ResponseError, match="302"):
        await client_of(Scripted(Response(302))).raw.request("GET", "/x")


@virtual_time
async def test_the_headers_of_a_refusal_are_decoded_only_where_its_body_does_not_say_what_it_is():
    block = b"\x8d\x0f\x10\x09text/html"
    for body, said, decoded in ((status(404).body, "no", False), (b"gone", "a web page", True)):
        headers = BlockHeaders(block)
        with pytest.raises(NotFound, match=said):
            await client_of(Scripted(Response(404, headers, body))).raw.request("GET", "/x")
        assert (headers._known is not None) == decoded


@virtual_time
async def test_no_secret_is_ever_in_an_error_a_log_or_a_repr(capsys):
    secret = "hunter2-very-secret"
    auth = Credentials(secret)
    config = Config(server="http://api.test", auth=auth)
    problems: list[BaseException] = []
    answers = [
        status(403),
        status(422),
        status(500),
        Response(502, body=b"<html>"),
        ConnectionLostError("reset"),
        status(401),
    ]
    for answer in answers:
        client = client_of(Scripted(answer), config)
        with pytest.raises(ClientError) as problem:
            await client.raw.request("POST", "/x", body=secret.encode(), retries=NO_RETRIES)
        problems.append(problem.value)
        said = f"{client!r}{client.raw!r}{client.config!r}"
        assert secret not in said
    for problem in problems:
        assert secret not in f"{problem!r}{problem!s}{vars(problem)}"
    response = Response(200, HeaderPairs({"Set-Cookie": secret}), secret.encode())
    assert secret not in repr(response)
    output = capsys.readouterr()
    assert secret not in output.out + output.err


def test_every_error_that_a_status_can_mean():
    for code, kind in ((404, NotFound), (429, TooManyRequests), (504, ServerTimeout), (507, InternalError)):
        assert type(api_error(code, b"", request="GET /x")) is kind


def test_transport_errors_are_client_errors():
    assert issubclass(ConnectError, TransportError)
    assert issubclass(TransportError, ClientError)
