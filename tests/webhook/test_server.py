"""A webhook server and its clients: large bodies, clients that go, handlers that stay, and when it counts as ready."""

import asyncio
import json
import socket
import ssl
import tempfile
from contextlib import asynccontextmanager, suppress

import pytest

from steersman.operator.webhooks import Webhooks, handshake
from steersman.pki import Authority
from steersman.webhook.certificate_sources import LocalCertificates
from steersman.webhook.http import Limits, WebhookServer
from steersman.webhook.http_messages import WebhookResponse

from .certificate_environment import soon

HOSTS = ("localhost", "127.0.0.1")


def refuse(code, text):
    return json.dumps({"kind": "Status", "code": code, "message": text}).encode()


async def echo(request):
    return WebhookResponse(
        200, json.dumps({"path": request.path, "query": request.query, "size": len(request.body)}).encode()
    )


class Client:
    """One connection, spoken over by hand."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    def send(self, data):
        self.writer.write(data)

    def post(self, path="/echo", body=b"{}", **headers):
        told = {"Content-Type": "application/json", "Content-Length": len(body), "Host": "h", **headers}
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in told.items())
        self.send(f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body)

    async def answer(self):
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
        body = await self.reader.readexactly(int(fields.get("content-length", 0)))
        return int(head[9:12]), json.loads(body) if body else None, fields

    async def ended(self):
        """Whether the server has closed the connection without further bytes."""
        return await self.reader.read() == b""

    async def close(self):
        self.writer.close()
        with suppress(OSError, ssl.SSLError):
            await self.writer.wait_closed()


class Harness:
    """A server and its clients."""

    def __init__(self, server, ca):
        self.server = server
        self.ca = ca
        self.clients = []

    async def connect(self, context=None):
        context = context or ssl.create_default_context(cadata=self.ca.decode())
        client = Client(*await asyncio.open_connection(*self.server.address, ssl=context, server_hostname="localhost"))
        self.clients.append(client)
        return client


@asynccontextmanager
async def serving(routes=None, limits=None, client_ca=None):
    local = LocalCertificates("test", HOSTS)
    server = WebhookServer(routes or {"/echo": echo}, local, refuse=refuse, limits=limits, client_ca=client_ca)
    await server.start("127.0.0.1", 0)
    harness = Harness(server, local.ca_bundle)
    try:
        async with asyncio.timeout(90):
            yield harness
    finally:
        for client in harness.clients:
            await client.close()
        await server.close(1.0)


async def test_requests_of_one_connection_are_answered_one_after_the_other():
    """H1: over TLS, and only over TLS."""
    async with serving() as harness:
        client = await harness.connect()
        for size in (2, 100_000, 0):
            client.post("/echo?timeout=10s", b"x" * size)
            code, body, _ = await client.answer()
            assert (code, body) == (200, {"path": "/echo", "query": "timeout=10s", "size": size})


async def test_a_body_in_chunks_is_read_whole():
    async with serving() as harness:
        client = await harness.connect()
        client.send(b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n")
        client.send(b"Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n3\r\nefg\r\n0\r\n\r\n")
        assert (await client.answer())[1]["size"] == 7


async def test_a_three_megabyte_object_in_two_versions_passes():
    """H3: the largest update there is."""
    async with serving() as harness:
        client = await harness.connect()
        client.post(body=b"x" * 7_000_000)
        assert (await client.answer())[1]["size"] == 7_000_000


@pytest.mark.parametrize("announced", [True, False])
async def test_what_is_larger_is_a_413_and_the_end(announced):
    """H3: invalid input leads to a Status, with or without a declared size."""
    async with serving(limits=Limits(body=1000)) as harness:
        client = await harness.connect()
        if announced:
            client.send(b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n")
        else:
            client.send(b"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
            client.send(b"3e9\r\n" + b"x" * 1001 + b"\r\n")
        code, body, fields = await client.answer()
        assert (code, body["message"]) == (413, "the request body is longer than 1000 bytes")
        assert fields["connection"] == "close"
        assert await client.ended()


async def test_a_handler_that_does_not_end_does_not_keep_the_server_from_closing():
    begun = asyncio.Event()

    async def stuck(_request):
        begun.set()
        await asyncio.Event().wait()

    async with serving({"/echo": stuck}) as harness:
        client = await harness.connect()
        client.post()
        await begun.wait()
        await harness.server.close(0.05)
        with pytest.raises((asyncio.IncompleteReadError, OSError)):
            await client.answer()


async def test_a_client_that_goes_before_its_answer_harms_nobody():
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def slow(request):
        if request.body == b"slow":
            begun.set()
            await may_end.wait()
        return WebhookResponse(200, b"{}")

    async with serving({"/echo": slow}) as harness:
        gone, stays = await harness.connect(), await harness.connect()
        gone.post(body=b"slow")
        await begun.wait()
        gone.writer.transport.abort()
        may_end.set()
        stays.post()
        assert (await stays.answer())[0] == 200


async def test_a_route_that_raises_is_a_500_without_details():
    """H3: even what the reviews' own code gets wrong."""

    async def broken(_request):
        raise RuntimeError("secret")

    async with serving({"/echo": broken}) as harness:
        client = await harness.connect()
        client.post()
        code, body, _ = await client.answer()
        assert code == 500
        assert "secret" not in json.dumps(body)


async def test_ready_means_that_tls_is_accepted_there():
    """H2: a TLS handshake determines readiness, not a flag; a closed server is unready."""
    async with serving() as harness:
        address = harness.server.address
        assert await asyncio.to_thread(handshake, *address) is None
        await harness.server.close(0.1)
        problem = await asyncio.to_thread(handshake, *address)
        assert problem is not None
        assert "accepts no TLS connection" in problem
    listening = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)  # a server without TLS
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        assert await asyncio.to_thread(handshake, "127.0.0.1", port) is not None


async def test_an_operator_that_does_not_listen_yet_is_not_ready():
    """H2: before the server has started."""
    assert Webhooks.unready(type("W", (), {"_server": None})()) == "the webhook server does not listen yet"


async def test_only_callers_of_the_clients_authority_are_answered():
    """H1: with a client CA, clients without a certificate of it get no response."""
    clients, others = Authority.create("clients"), Authority.create("others")
    seen = []

    async def remember(request):
        seen.append(request.client_certificate)
        return WebhookResponse(200, b"{}")

    def showing(authority):
        context = ssl.create_default_context(cadata=harness.ca.decode())
        if authority is not None:
            pair = authority.client("kube-apiserver")
            with tempfile.NamedTemporaryFile() as file:
                file.write(pair.cert_pem + pair.key_pem)
                file.flush()
                context.load_cert_chain(file.name)
        return context

    async with serving({"/echo": remember}, client_ca=clients.cert_pem) as harness:
        for _ in range(2):  # a session of TLS that is taken up again is verified no less
            client = await harness.connect(showing(clients))
            client.post()
            assert (await client.answer())[0] == 200
        assert all(seen)
        for authority in (None, others):
            with pytest.raises((OSError, asyncio.IncompleteReadError)):  # noqa: PT012 - TLS 1.3 says so with the answer
                stranger = await harness.connect(showing(authority))
                stranger.post()
                await stranger.answer()
        assert len(seen) == 2


async def test_handshakes_that_are_never_begun_give_way_to_new_connections():
    async with serving(limits=Limits(handshakes=8, handshake_seconds=60.0)) as harness:
        silent = [await asyncio.open_connection(*harness.server.address) for _ in range(40)]
        client = await harness.connect()
        client.post()
        assert (await client.answer())[0] == 200
        assert harness.server.handshakes <= 8
        ended = [asyncio.ensure_future(reader.read()) for reader, _ in silent[:32]]
        assert await asyncio.gather(*ended, return_exceptions=True) == [b""] * 32
        client.post()
        assert (await client.answer())[0] == 200
        for _, writer in silent:
            writer.close()


async def test_handshakes_that_are_never_finished_end_with_the_server():
    async with serving(limits=Limits(handshake_seconds=60.0)) as harness:
        reader, writer = await asyncio.open_connection(*harness.server.address)
        await soon(lambda: harness.server.handshakes == 1)
        await harness.server.close(0.3)
        assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize("host", ["", "localhost", "127.0.0.1"])
async def test_a_server_listens_at_all_addresses_of_its_host(host):
    local = LocalCertificates("test", HOSTS)
    server = WebhookServer({"/echo": echo}, local, refuse=refuse)
    await server.start(host, 0)
    port = server.address[1]
    try:
        for address in {item[4][0] for item in socket.getaddrinfo(host or "localhost", port, type=socket.SOCK_STREAM)}:
            context = ssl.create_default_context(cadata=local.ca_bundle.decode())
            reader, writer = await asyncio.open_connection(address, port, ssl=context, server_hostname="localhost")
            client = Client(reader, writer)
            client.post()
            assert (await client.answer())[0] == 200
            await client.close()
    finally:
        await server.close(0.1, asked=False)


async def test_a_client_that_does_not_finish_its_handshake_is_left():
    """H3: such a one is no connection yet, and counts as none."""
    async with serving(limits=Limits(handshake_seconds=0.1)) as harness:
        reader, writer = await asyncio.open_connection(*harness.server.address)
        assert await reader.read() == b""
        writer.close()
        client = await harness.connect()
        client.post()
        assert (await client.answer())[0] == 200
