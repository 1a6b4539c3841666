"""The operator's requests to agents and archivers over TLS."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from steersman import Key

from mysqlcluster import names
from mysqlcluster.actions import Fence
from mysqlcluster.agent.client import ActionRefusedError, AgentClient
from mysqlcluster.backup.client import ArchiverClient, ArchiverError, use_archivers
from mysqlcluster.backup.protocol import ArchiverState, Follow
from mysqlcluster.certificates import certificate_data
from mysqlcluster.observation import MemberState, encode_member

KEY = Key("shop", "db")
TOKEN = "secret"
CERTIFICATES = certificate_data(KEY.name, names.dns_names(KEY), datetime.now(UTC))
AUTHORITY = CERTIFICATES["ca.crt"].decode()


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    """A server that answers like an agent and an archiver."""
    (tmp_path / "pair.pem").write_bytes(CERTIFICATES["tls.key"] + CERTIFICATES["tls.crt"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "pair.pem")

    async def state(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.json_response({"error": "the token is wrong"}, status=401)
        return web.Response(body=encode_member(MemberState("db-0", server_up=True)))

    async def archive(_: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(ArchiverState(ready=True, source="db-1")))

    async def refuse(_: web.Request) -> web.Response:
        return web.json_response({"error": "the epoch is lower"}, status=409)

    application = web.Application()
    application.router.add_get("/v1/state", state)
    application.router.add_post("/v1/actions", refuse)
    application.router.add_get("/archiver/v1/state", archive)
    application.router.add_post("/archiver/v1/jobs", refuse)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    yield f"https://localhost:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_an_agent_answers_on_a_kept_connection_and_a_refusal_has_its_reason(url: str):
    async with AgentClient(lambda _: url, lambda: TOKEN, AUTHORITY) as client:
        for _ in range(3):
            assert (await client.state("db-0")).server_up
        with pytest.raises(ActionRefusedError, match="the epoch is lower"):
            await client.act(Fence(member="db-0", epoch=1))
        assert (await client.state("db-0")).server_up


async def test_a_member_is_unreachable_with_another_authority_or_without_an_agent(url: str):
    other = certificate_data(KEY.name, names.dns_names(KEY), datetime.now(UTC))["ca.crt"].decode()
    for address, authority in ((url, other), ("https://localhost:1", AUTHORITY)):
        async with AgentClient(lambda _, to=address: to, lambda: TOKEN, authority) as client:
            assert not (await client.state("db-0")).reachable


async def test_an_archiver_reports_and_its_refusal_has_the_reason(url: str):
    use_archivers(lambda _: f"{url}/archiver")
    try:
        client = ArchiverClient(KEY, TOKEN, AUTHORITY)
        assert await client.state() == ArchiverState(ready=True, source="db-1")
        with pytest.raises(ArchiverError, match="the epoch is lower"):
            await client.send(Follow(source="db-1"))
    finally:
        use_archivers()
