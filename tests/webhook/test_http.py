"""The webhook server: what gets through to a handler, what does not, and how it goes."""

import asyncio
import json
import ssl
from contextlib import suppress

import pytest

from steersman.pki import Authority
from steersman.webhook.certificate_sources import DirectoryCertificates, LocalCertificates, context_of
from steersman.webhook.http import Limits, WebhookServer
from steersman.webhook.http_messages import WebhookResponse

LIMITS = Limits(body=1000, head=2000, request_seconds=0.3, first_request_seconds=0.6, idle_seconds=0.6, connections=3)


def refusal(code, text):
    return json.dumps({"code": code, "message": text}).encode()


class Ask:
    """A client that sends exactly the given bytes."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def says(self, *parts):
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()
            await asyncio.sleep(0)

    async def hears(self):
        head = await self.reader.readuntil(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:-2])
        body = await self.reader.readexactly(int(headers["Content-Length"]))
        return int(lines[0].split()[1]), headers, json.loads(body)

    async def ended(self):
        return await self.reader.read() == b""

    async def close(self):
        self.writer.close()


class Harness:
    def __init__(self, certificates, limits=LIMITS):
        self.certificates = certificates
        self.busy = asyncio.Event()
        self.free = asyncio.Event()
        self.trusts = [certificates.ca_bundle]
        self.clients = []
        self.server = WebhookServer(
            {"/echo": self.echo, "/wait": self.wait, "/crash": self.crash}, certificates, refuse=refusal, limits=limits
        )

    async def echo(self, request):
        return WebhookResponse(200, json.dumps({"size": len(request.body), "query": request.query}).encode())

    async def wait(self, request):
        self.busy.set()
        await self.free.wait()
        return WebhookResponse(200, b"{}")

    async def crash(self, request):
        raise RuntimeError("secret")

    async def client(self):
        context = ssl.create_default_context(cadata=self.trusts[-1].decode())
        host, port = self.server.address
        ask = Ask(*await asyncio.open_connection(host, port, ssl=context))
        self.clients.append(ask)
        return ask


def post(path="/echo", body=b"{}", **headers):
    fields = {"Host": "x", "Content-Type": "application/json", "Content-Length": str(len(body))}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value is not None)
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


@pytest.fixture
async def harness():
    made = Harness(LocalCertificates("test", ["127.0.0.1"]))
    await made.server.start("127.0.0.1", 0)
    yield made
    made.free.set()
    for client in made.clients:
        await client.close()
    await made.server.close(1.0)


async def test_a_request_is_answered_and_the_connection_kept(harness):
    client = await harness.client()
    for _ in range(3):
        await client.says(post("/echo?timeout=10s", b'{"a": 1}'))
        code, headers, body = await client.hears()
        assert (code, body) == (200, {"size": 8, "query": "timeout=10s"})
        assert headers["Content-Type"] == "application/json"


async def test_a_request_in_single_bytes_is_a_request(harness):
    client = await harness.client()
    request = post()
    await client.says(*(request[i : i + 1] for i in range(len(request))))
    assert (await client.hears())[0] == 200


async def test_requests_that_come_at_once_are_answered_in_order(harness):
    client = await harness.client()
    await client.says(b"".join(post(body=b" " * n) for n in range(20)))
    assert [(await client.hears())[2]["size"] for _ in range(20)] == list(range(20))


async def test_a_client_that_asks_to_go_on_is_told_so(harness):
    client = await harness.client()
    head, _, body = post(Expect="100-continue").partition(b"\r\n\r\n")
    await client.says(head + b"\r\n\r\n")
    assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    await client.says(body)
    assert (await client.hears())[0] == 200


@pytest.mark.parametrize(
    ("request_", "code", "words"),
    [
        (post("/nowhere"), 404, "no webhook at /nowhere"),
        (b"GET /echo HTTP/1.1\r\nHost: x\r\n\r\n", 405, "POST, not GET"),
        (post(Content_Type="text/plain"), 415, "application/json"),
        (post(Content_Type=None), 415, "application/json"),
        (post("/crash"), 500, "the operator's log"),
    ],
)
async def test_what_no_handler_answers_is_told_and_the_connection_lives(harness, request_, code, words):
    client = await harness.client()
    await client.says(request_)
    found, _, body = await client.hears()
    assert found == code
    assert words in body["message"]
    assert "secret" not in body["message"]
    await client.says(post())
    assert (await client.hears())[0] == 200


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b"hello\r\n\r\n", 400),
        (b"POST /echo HTTP/9.9\r\n\r\n", 400),
        (post(Content_Length="-1"), 400),
        (post(Transfer_Encoding="chunked"), 400),  # with a length too: which of the two counts is a smuggler's question
        (post(Content_Length="1001"), 413),
        (post(Content_Length=None, Transfer_Encoding="chunked", Extra="1")[:-2] + b"3ea\r\n" + b"x" * 1002, 413),
        (post(Cookie="x" * 3000), 431),
        (b"POST /" + b"x" * 3000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
    ],
)
async def test_what_is_malformed_or_too_long_is_refused_and_the_connection_ended(harness, request_, code):
    client = await harness.client()
    await client.says(request_)
    found, headers, _ = await client.hears()
    assert found == code
    assert headers["Connection"] == "close"
    assert await client.ended()
    await (again := await harness.client()).says(post())
    assert (await again.hears())[0] == 200


async def test_protocols_are_not_switched(harness):
    client = await harness.client()
    await client.says(post(Connection="Upgrade", Upgrade="h2c"))
    answers = [await client.hears(), await client.hears()]
    assert [code for code, _, _ in answers] == [200, 400]
    assert await client.ended()


async def test_a_client_that_dawdles_is_told_and_left(harness):
    client = await harness.client()
    await client.says(post()[:-1])
    code, _, _ = await client.hears()
    assert code == 408
    assert await client.ended()


async def test_a_client_that_says_nothing_is_left(harness):
    client = await harness.client()
    assert await client.ended()


async def test_what_speaks_no_tls_is_left_and_harms_nobody(harness):
    reader, writer = await asyncio.open_connection(*harness.server.address)
    writer.write(post())
    assert not (await reader.read()).startswith(b"HTTP")
    writer.close()
    client = await harness.client()
    await client.says(post())
    assert (await client.hears())[0] == 200


async def test_a_new_connection_takes_the_place_of_the_longest_idle_one(harness):
    clients = [await harness.client() for _ in range(3)]
    for client in clients:
        await client.says(post())
        assert (await client.hears())[0] == 200
    late = await harness.client()
    assert await clients[0].ended()
    for client in (late, *clients[1:]):
        await client.says(post())
        assert (await client.hears())[0] == 200


async def test_connections_that_never_ask_give_way_before_one_that_has_been_answered(harness):
    """H2: idle connections without credentials do not lock the API server out."""
    served = await harness.client()
    await served.says(post())
    await served.hears()
    for _ in range(10):
        await harness.client()
    await served.says(post())
    assert (await served.hears())[0] == 200
    await (late := await harness.client()).says(post())
    assert (await late.hears())[0] == 200


async def test_a_half_sent_request_gives_way_as_well(harness):
    for _ in range(10):
        await (await harness.client()).says(b"POST /echo HTTP/1.1\r\nX-Slow: ")
    await (late := await harness.client()).says(post())
    assert (await late.hears())[0] == 200


async def test_connections_that_are_being_answered_do_not_give_way(harness):
    busy = [await harness.client() for _ in range(3)]
    for client in busy:
        await client.says(post("/wait"))
        await harness.busy.wait()
    late = await harness.client()
    assert await late.ended()
    harness.free.set()
    for client in busy:
        assert (await client.hears())[0] == 200


async def test_a_client_that_has_not_asked_anything_is_left_sooner_than_one_that_has():
    limits = Limits(first_request_seconds=0.2, idle_seconds=60.0)
    made = Harness(LocalCertificates("test", ["127.0.0.1"]), limits)
    await made.server.start("127.0.0.1", 0)
    served, silent = await made.client(), await made.client()
    await served.says(post())
    await served.hears()
    assert await silent.ended()
    await served.says(post())
    assert (await served.hears())[0] == 200
    await served.close()
    await made.server.close(0.1)


def chunked(*chunks, trailer=b""):
    return post(Content_Length=None, Transfer_Encoding="chunked")[:-2] + b"".join(chunks) + b"0\r\n" + trailer + b"\r\n"


async def test_a_trailer_does_not_overwrite_a_header(harness):
    client = await harness.client()
    await client.says(chunked(b"2\r\n{}\r\n", trailer=b"Content-Type: text/plain\r\nX-More: 1\r\n"))
    assert (await client.hears())[::2] == (200, {"size": 2, "query": ""})
    await client.says(post())
    assert (await client.hears())[0] == 200


async def test_a_body_in_single_bytes_is_a_body(harness):
    client = await harness.client()
    await client.says(chunked(*[b"1\r\nx\r\n"] * 900))
    assert (await client.hears())[2]["size"] == 900


async def test_chunk_extensions_without_end_are_refused(harness):
    client = await harness.client()
    head = post(Content_Length=None, Transfer_Encoding="chunked")[:-2]
    with suppress(ConnectionError):
        await client.says(head + b"2;x=", *[b"y" * 4096] * 300)
    assert (await client.hears())[0] == 400
    assert await client.ended()


@pytest.mark.slow
async def test_shutting_down_answers_what_was_asked(harness):
    """H1: no request is dropped by a replica that goes."""
    client, idle = await harness.client(), await harness.client()
    await idle.says(post())
    assert (await idle.hears())[0] == 200
    await client.says(post("/wait"))
    await harness.busy.wait()
    closing = asyncio.create_task(harness.server.close(5.0))
    assert await idle.ended()
    harness.free.set()
    code, headers, _ = await client.hears()
    assert (code, headers["Connection"]) == (200, "close")
    await closing
    with pytest.raises(ConnectionRefusedError):
        await harness.client()


async def test_a_renewed_certificate_is_for_new_connections_and_old_ones_live_on(tmp_path):
    """H1"""

    def write(authority):
        pair = authority.serving("webhook", ["127.0.0.1"])
        (tmp_path / "tls.crt").write_bytes(pair.cert_pem)
        (tmp_path / "tls.key").write_bytes(pair.key_pem)
        return authority.cert_pem

    bundle = write(Authority.create("first"))
    certificates = DirectoryCertificates(tmp_path)
    certificates.ca_bundle = bundle
    harness = Harness(certificates)
    await harness.server.start("127.0.0.1", 0)
    try:
        old = await harness.client()
        harness.trusts.append(write(Authority.create("second")))
        new = await harness.client()
        for client in (old, new):
            await client.says(post())
            assert (await client.hears())[0] == 200
        (tmp_path / "tls.key").write_bytes(b"nonsense")
        await (again := await harness.client()).says(post())
        assert (await again.hears())[0] == 200
    finally:
        for client in harness.clients:
            await client.close()
        await harness.server.close(1.0)


def test_a_key_that_does_not_belong_to_its_certificate_is_refused():
    one, two = Authority.create("a").serving("x", ["x"]), Authority.create("a").serving("x", ["x"])
    with pytest.raises(ssl.SSLError):
        context_of(type(one)(one.cert_pem, two.key_pem))
