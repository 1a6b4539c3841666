"""The HTTPS interface of an agent.

| request | response |
|---|---|
| `GET /v1/state` | the report of the member |
| `GET /v1/changes` | a stream with a byte for each change; see `mysqlcluster.agent.changes` |
| `POST /v1/actions` | performs an action; then the report of the member, or 409 with the reason |
| `GET /v1/copy` | a copy of the running server as a stream |
| `GET /v1/binlogs` | the binary logs; see `mysqlcluster.backup.agent_binlogs` |
| `GET /healthz` | 200 while the agent runs; no token is needed |
| `GET /readyz` | 200 while the server answers in a role; no token is needed |

All other requests need the token of the cluster's Secret.
"""

from __future__ import annotations

import asyncio
import hmac
import ssl
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web
from steersman.logs import get_logger

from mysqlcluster.actions import MAX_ACTION_BYTES, decode_action
from mysqlcluster.agent.changes import send_changes
from mysqlcluster.agent.copies import HISTORY_HEADER
from mysqlcluster.agent.local import RefusedError
from mysqlcluster.agent.member import Member
from mysqlcluster.agent.process import CommandError
from mysqlcluster.backup.agent_binlogs import add_binlog_routes
from mysqlcluster.observation import Role, encode_member

__all__ = ["AgentServer", "Handler", "bears_token"]

_log = get_logger("mysqlcluster.agent")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
OPEN_PATHS = {"/healthz", "/readyz"}
SHUTDOWN_SECONDS = 2.0


class AgentServer:
    """Serves one member."""

    def __init__(self, member: Member, tokens: Callable[[], Iterable[str]], tls: ssl.SSLContext | None) -> None:
        """Store the arguments; `start` opens the port.

        Args:
            member: The member.
            tokens: Reads the accepted tokens at each call, so that a rotated token takes effect.
            tls: The context with the certificate; `None` on loopback only.
        """
        self._member = member
        self._tokens = tokens
        self._tls = tls
        self._closing = asyncio.Event()
        application = web.Application(middlewares=[self._authenticate], client_max_size=MAX_ACTION_BYTES)
        application.router.add_get("/v1/state", self._state)
        application.router.add_get("/v1/changes", self._changes)
        application.router.add_post("/v1/actions", self._act)
        application.router.add_get("/v1/copy", self._copy)
        add_binlog_routes(application, member)
        application.router.add_get("/healthz", self._healthy)
        application.router.add_get("/readyz", self._ready)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)

    async def start(self, address: str, port: int) -> int:
        """Listen, and return the port.

        Raises:
            OSError: The address cannot be used.
        """
        await self._runner.setup()
        site = web.TCPSite(self._runner, address, port, ssl_context=self._tls)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Stop listening and end requests."""
        self._closing.set()
        await self._runner.cleanup()

    @web.middleware
    async def _authenticate(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path not in OPEN_PATHS and not bears_token(request, self._tokens()):
            return web.json_response({"error": "a bearer token of the cluster is needed"}, status=401)
        try:
            return await handler(request)
        except RefusedError as problem:
            return web.json_response({"error": str(problem)}, status=409)

    async def _state(self, _: web.Request) -> web.StreamResponse:
        return _json(encode_member(await self._member.state()))

    async def _changes(self, request: web.Request) -> web.StreamResponse:
        return await send_changes(request, self._member.state, self._closing)

    async def _act(self, request: web.Request) -> web.StreamResponse:
        try:
            action = decode_action(await request.read())
        except ValueError as problem:
            return web.json_response({"error": f"not an action: {problem}"}, status=400)
        return _json(encode_member(await self._member.act(action)))

    async def _copy(self, request: web.Request) -> web.StreamResponse:
        history, chunks = await self._member.send_copy()
        response = web.StreamResponse(headers={HISTORY_HEADER: str(history)})
        response.enable_chunked_encoding()
        await response.prepare(request)
        try:
            async for chunk in chunks:
                await response.write(chunk)
        except (CommandError, ConnectionError) as problem:
            # Without the last chunk of the body the recipient detects that the copy is incomplete.
            _log.error("copy_failed", problem=str(problem) or type(problem).__name__)
            if request.transport is not None:
                request.transport.abort()
            return response
        await response.write_eof()
        return response

    async def _healthy(self, _: web.Request) -> web.StreamResponse:
        return web.Response(text="ok")

    async def _ready(self, _: web.Request) -> web.StreamResponse:
        state = await self._member.state()
        ready = state.server_up and state.role is not Role.NONE and not state.draining
        return web.Response(text=state.role.value, status=200 if ready else 503)


def bears_token(request: web.Request, tokens: Iterable[str]) -> bool:
    """Return whether a request carries one of these bearer tokens."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    same = [hmac.compare_digest(given.encode(), token.encode()) for token in tokens]
    return scheme == "Bearer" and any(same)


def _json(content: bytes) -> web.Response:
    return web.Response(body=content, content_type="application/json")
