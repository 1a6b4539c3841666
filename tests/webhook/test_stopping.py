"""A webhook server that stops: requests in progress are answered; later connections are refused."""

import asyncio
import json
import ssl

import pytest

from steersman.webhook.certificate_sources import LocalCertificates
from steersman.webhook.http import WebhookServer
from steersman.webhook.http_messages import WebhookResponse

from .certificate_environment import soon

REQUEST = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


async def route(_request):
    return WebhookResponse(200, b"{}")


@pytest.fixture
async def server():
    certificates = LocalCertificates("test", ["127.0.0.1"])
    made = WebhookServer({"/x": route}, certificates, refuse=lambda code, text: json.dumps([code, text]).encode())
    made.trusts = ssl.create_default_context(cadata=certificates.ca_bundle.decode())
    await made.start("127.0.0.1", 0)
    yield made
    await made.close(0.1)


async def ask(reader, writer):
    """Send a request; the head of its answer, and whether the connection then ends."""
    writer.write(REQUEST)
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(2)
    return head.decode()


async def test_a_request_on_an_idle_connection_is_answered_and_is_its_last(server):
    reader, writer = await asyncio.open_connection(*server.address, ssl=server.trusts)
    assert "Connection: close" not in await ask(reader, writer)
    closing = asyncio.create_task(server.close(1.0))
    await asyncio.sleep(0)
    assert server.leaving
    assert "Connection: close" in await ask(reader, writer)
    assert await reader.read() == b""
    await closing
    writer.close()


async def test_a_newcomer_is_answered_once_while_the_server_is_about_to_stop(server):
    closing = asyncio.create_task(server.close(1.0))
    await asyncio.sleep(0)
    reader, writer = await asyncio.open_connection(*server.address, ssl=server.trusts)
    assert "Connection: close" in await ask(reader, writer)
    assert await reader.read() == b""
    await closing
    writer.close()


async def test_a_handshake_that_is_half_done_when_listening_ends_is_finished(server):
    reader, writer = await asyncio.open_connection(*server.address)
    closing = asyncio.create_task(server.close(1.5))
    await soon(lambda: not server.accepting)
    await writer.start_tls(server.trusts, server_hostname="127.0.0.1")
    assert "Connection: close" in await ask(reader, writer)
    await closing
    writer.close()


async def test_an_idle_connection_ends_with_the_server(server):
    reader, writer = await asyncio.open_connection(*server.address, ssl=server.trusts)
    await server.close(0.2)
    assert await reader.read() == b""
    writer.close()
