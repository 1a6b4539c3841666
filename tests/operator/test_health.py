"""Probes have a thread of their own, and name the failed check."""

import asyncio
import socket
import time
import urllib.error
import urllib.request

import pytest

from steersman.controller import LoopWatchdog
from steersman.operator.health import Health, loop_moves
from steersman.operator.http_server import Answer, BindError, ThreadServer
from steersman.operator.settings import Address

LOOPBACK = Address("127.0.0.1", 0)


@pytest.fixture
def serve():
    servers = []

    def start(routes, **options):
        server = ThreadServer(LOOPBACK, routes, name="probe", setting="--health-probe-bind-address", **options)
        servers.append(server)
        return f"http://{server.address}"

    yield start
    for server in servers:
        server.close()


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def test_probes_pass_while_every_check_passes(serve):
    base = serve(Health(live={"loop": lambda: None}, ready={}).routes())
    assert get(f"{base}/healthz") == (200, "ok")
    assert get(f"{base}/livez") == (200, "ok")
    assert get(f"{base}/readyz") == (200, "ok")


def test_a_failed_check_fails_its_probe_by_name_and_reason(serve):
    base = serve(Health(ready={"caches": lambda: "waiting for pods", "other": lambda: None}).routes())
    status, body = get(f"{base}/readyz")
    assert status == 500
    assert "[-]caches failed: waiting for pods" in body
    assert "[+]other ok" in body
    assert get(f"{base}/healthz") == (200, "ok")
    assert get(f"{base}/readyz?exclude=caches") == (200, "ok")


def test_verbose_lists_the_checks(serve):
    base = serve(Health(live={"loop": lambda: None}).routes())
    assert get(f"{base}/healthz?verbose") == (200, "[+]loop ok\nhealthz check passed\n")


def test_a_check_that_crashes_is_a_failed_check(serve):
    base = serve(Health(live={"broken": lambda: str(1 / 0)}).routes())
    status, body = get(f"{base}/healthz")
    assert status == 500
    assert "ZeroDivisionError" in body


async def test_the_liveness_probe_answers_by_itself_while_the_loop_stands_still(serve):
    """R6: the probe's thread answers, and says that the loop does not move, while the loop is blocked."""
    with LoopWatchdog(0.2) as watchdog:
        base = serve(Health(live={"loop": loop_moves(watchdog.stalled_for, 0.1)}).routes())
        assert (await asyncio.to_thread(get, f"{base}/healthz"))[0] == 200
        while watchdog.stalled_for() <= 0.1:
            time.sleep(0.02)  # noqa: ASYNC251 - blocking the loop is the point
        status, body = get(f"{base}/healthz")
    assert status == 500
    assert "the event loop has not moved for" in body


def test_unknown_paths_are_not_found(serve):
    assert get(f"{serve({})}/admin")[0] == 404


def test_a_crashing_route_tells_its_caller_nothing(serve):
    def crash(_visit):
        raise RuntimeError("the secret is 42")

    status, body = get(f"{serve({'/x': crash})}/x")
    assert status == 500
    assert "42" not in body


def test_posting_is_not_served(serve):
    request = urllib.request.Request(f"{serve({'/x': lambda _: Answer(200, b'')})}/x", data=b"{}")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=5)
    with refused.value:
        assert refused.value.code == 501


def raw(base, sent):
    host, port = base.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(sent)
        received = b""
        while data := connection.recv(65536):
            received += data
    return received


def test_a_request_may_arrive_in_pieces(serve):
    base = serve({"/x": lambda visit: Answer(200, f"{visit.query} {visit.headers['x-a']}".encode())})
    host, port = base.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        for piece in (b"GET /x?o", b"ne HTTP/1.1\r\nX-", b"A: two\r\n", b"\r\n"):
            connection.sendall(piece)
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert received.startswith(b"HTTP/1.1 200 ")
    assert received.endswith(b"\r\n\r\none two")


def test_a_head_request_gets_the_length_and_no_body(serve):
    received = raw(serve({"/x": lambda _: Answer(200, b"here")}), b"HEAD /x HTTP/1.1\r\n\r\n")
    assert b"Content-Length: 4\r\n" in received
    assert received.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00", 400),
        (b"GET /x HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET /x HTTP/1.1\r\n" + b"X-Long: " + b"a" * 66_000, 431),
        (b"GET /x HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", 200),
        (b"GET /x HTTP/1.1\r\nContent-Length: 3\r\n\r\n", 200),
        (b"GET /x HTTP/1.0\r\n\r\n", 200),
    ],
)
def test_bytes_that_are_no_request_are_refused(serve, sent, status):
    base = serve({"/x": lambda _: Answer(200, b"here")})
    assert raw(base, sent).startswith(f"HTTP/1.1 {status} ".encode())
    assert get(f"{base}/x") == (200, "here")


def test_a_closed_server_accepts_no_connection():
    server = ThreadServer(LOOPBACK, {}, name="probe", setting="--health-probe-bind-address")
    address = server.address
    server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address.host, address.port), timeout=5)


def test_a_busy_port_is_reported_with_the_setting_that_changes_it():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BindError, match=rf"127\.0\.0\.1:{port}: Address already in use.*--metrics-bind-address"):
            ThreadServer(Address("127.0.0.1", port), {}, name="metrics", setting="--metrics-bind-address")


def test_silent_clients_do_not_keep_others_waiting(serve):
    base = serve({"/x": lambda _: Answer(200, b"here")})
    host, port = base.removeprefix("http://").split(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(10)]
    try:
        assert get(f"{base}/x") == (200, "here")
    finally:
        for one in silent:
            one.close()
