"""The operator's client of the agents' HTTPS interface."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Self

import msgspec
from steersman.client import NativeTransport, TransportError
from steersman.client.config import Config, TlsConfig

from mysqlcluster.actions import Action, encode_action
from mysqlcluster.observation import CHANGE, MAX_REPORT_BYTES, MemberState, decode_member, unreachable

__all__ = ["ActionRefusedError", "AgentClient", "AgentUnreachableError"]

STATE_SECONDS = 1.0
ACTION_SECONDS = 30.0
MAX_REASON_CHARACTERS = 500


class AgentUnreachableError(Exception):
    """An agent did not answer in time; the action may have been performed."""


class ActionRefusedError(Exception):
    """An agent refused an action; the message is its reason."""


class AgentClient:
    """Requests to the agents of one cluster, over persistent connections."""

    def __init__(
        self,
        url_of: Callable[[str], str],
        token: Callable[[], str],
        authority: str = "",
        *,
        state_seconds: float = STATE_SECONDS,
        action_seconds: float = ACTION_SECONDS,
    ) -> None:
        """Store the arguments; the first request to a member connects, and `close` or `async with` disconnects.

        Args:
            url_of: The URL of a member's agent.
            token: The token of the cluster.
            authority: The certificate authority of the agents, in PEM; empty to use those of the system.
            state_seconds: Time limit of a report.
            action_seconds: Time limit of an action.
        """
        self._url_of = url_of
        self._token = token
        self._tls = TlsConfig(ca_pem=authority.encode() if authority else None)
        self._state_seconds = state_seconds
        self._action_seconds = action_seconds
        self._transports: dict[str, NativeTransport] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        while self._transports:
            _, transport = self._transports.popitem()
            await transport.close()

    async def state(self, member: str, seconds: float | None = None) -> MemberState:
        """Return the state of a member; `unreachable` if the agent does not answer in the given or usual time."""
        try:
            return await self._request("GET", member, "/v1/state", None, seconds or self._state_seconds)
        except (AgentUnreachableError, ActionRefusedError):
            return unreachable(member)

    async def changes(self, member: str, heartbeat_seconds: float) -> AsyncIterator[None]:
        """Yield when the stream has started, and at each change of a member.

        Args:
            member: The member.
            heartbeat_seconds: Time after which the agent writes although nothing has changed, from 0.1 to 60.

        Raises:
            ActionRefusedError: The agent has no stream of changes, or refuses the token.
            AgentUnreachableError: The agent did not answer in time, missed a heartbeat, or has closed the stream.
        """
        idle_seconds = heartbeat_seconds + self._state_seconds
        query = {"heartbeat": f"{heartbeat_seconds:g}"}
        async with self._response(
            "GET", member, "/v1/changes", query=query, connect_seconds=self._state_seconds, idle_seconds=idle_seconds
        ) as chunks:
            async for chunk in chunks:
                if CHANGE in chunk:
                    yield
        raise AgentUnreachableError(f"{member}: the agent has closed the stream")

    async def act(self, action: Action) -> MemberState:
        """Perform an action through its agent, and return the state of the member after it.

        Raises:
            ActionRefusedError: The agent refuses.
            AgentUnreachableError: The agent did not answer in time; the action may have been performed.
        """
        return await self._request("POST", action.member, "/v1/actions", encode_action(action), self._action_seconds)

    async def _request(self, method: str, member: str, path: str, body: bytes | None, seconds: float) -> MemberState:
        async with self._response(
            method, member, path, body=body, connect_seconds=seconds, idle_seconds=seconds, total_seconds=seconds
        ) as chunks:
            return decode_member(await _bounded(chunks))

    @contextlib.asynccontextmanager
    async def _response(
        self,
        method: str,
        member: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        connect_seconds: float,
        idle_seconds: float,
        total_seconds: float | None = None,
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Open a response with status 200, and yield its chunks.

        Raises:
            ActionRefusedError: The response has another status.
            AgentUnreachableError: A time limit passed, the connection ended, or the content is invalid.
        """
        headers = {"Authorization": f"Bearer {self._token()}"}
        try:
            async with (
                asyncio.timeout(total_seconds),
                self._transport(self._url_of(member)).stream(
                    method,
                    path,
                    query=query or {},
                    headers=headers,
                    body=body,
                    connect_timeout=connect_seconds,
                    idle_timeout=idle_seconds,
                ) as response,
            ):
                if response.status != 200:
                    raise ActionRefusedError(_reason(response.status, await _bounded(response.chunks)))
                yield response.chunks
        except (TimeoutError, TransportError, ValueError) as problem:
            raise AgentUnreachableError(f"{member}: {problem or type(problem).__name__}") from None

    def _transport(self, url: str) -> NativeTransport:
        if url not in self._transports:
            self._transports[url] = NativeTransport(Config(url, self._tls))
        return self._transports[url]


async def _bounded(chunks: AsyncIterator[bytes]) -> bytes:
    content = bytearray()
    async for chunk in chunks:
        content += chunk
        if len(content) > MAX_REPORT_BYTES:
            raise ValueError(f"the answer is larger than {MAX_REPORT_BYTES} bytes")
    return bytes(content)


def _reason(status: int, content: bytes) -> str:
    try:
        reason = msgspec.json.decode(content, type=dict[str, str]).get("error", "")
    except msgspec.DecodeError:
        reason = content.decode(errors="replace")
    return f"{reason[:MAX_REASON_CHARACTERS]}" or f"status {status}"
