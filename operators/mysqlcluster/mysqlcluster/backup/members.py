"""The archiver's requests to the agents of the members."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Callable

import aiohttp
import msgspec

from mysqlcluster.agent.copies import fetch_copy
from mysqlcluster.backup.agent_binlogs import BinlogFile, BinlogList
from mysqlcluster.gtid import GtidSet

__all__ = ["MemberError", "Members"]

CONNECT_SECONDS = 3.0
IDLE_SECONDS = 15.0
MAX_LIST_BYTES = 16 << 20
CHUNK_BYTES = 1 << 18


class MemberError(RuntimeError):
    """An agent refused, did not answer, or ended its response early; the message names the member."""


class Members:
    """Reads copies and binary logs of the members of one cluster."""

    def __init__(
        self, url_of: Callable[[str], str], token: Callable[[], str], tls: Callable[[], ssl.SSLContext | None]
    ) -> None:
        """Store the arguments; each request opens a connection.

        Args:
            url_of: The URL of a member's agent.
            token: Reads the token of the cluster at each call.
            tls: Returns the context that trusts the agents at each call; `None` on loopback only.
        """
        self._url_of = url_of
        self._token = token
        self._tls = tls

    async def binlogs(self, member: str, *, positions: bool) -> BinlogList:
        """Return the binary logs of a member; raises `MemberError`."""
        content = bytearray()
        async for chunk in self._read(member, "/v1/binlogs" + ("?positions=1" if positions else "")):
            content += chunk
            if len(content) > MAX_LIST_BYTES:
                raise MemberError(f"{member}: the list of binary logs is larger than {MAX_LIST_BYTES} bytes")
        try:
            return msgspec.json.decode(content, type=BinlogList)
        except msgspec.DecodeError as problem:
            raise MemberError(f"{member}: not a list of binary logs: {problem}") from None

    async def events(self, member: str, stream: int, file: BinlogFile, start: int) -> AsyncGenerator[bytes]:
        """Yield a file from an offset to the size in the list; raises `MemberError`."""
        wanted = file.size - start
        async for chunk in self._read(
            member, f"/v1/binlogs/{file.name}?stream={stream}&from={start}&until={file.size}"
        ):
            wanted -= len(chunk)
            yield chunk
        if wanted:
            raise MemberError(f"{member}: {file.name} broke off {wanted} bytes before its end")

    async def copy(self, member: str) -> tuple[GtidSet, AsyncGenerator[bytes]]:
        """Return the history of a member and a consistent copy; raises `CommandError`."""
        return await fetch_copy(self._url_of(member), self._token(), self._tls())

    async def _read(self, member: str, path: str) -> AsyncGenerator[bytes]:
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=IDLE_SECONDS)
        headers = {"Authorization": f"Bearer {self._token()}"}
        context = self._tls()
        tls = context if context is not None else True
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, read_bufsize=CHUNK_BYTES) as session,
                session.get(self._url_of(member) + path, headers=headers, ssl=tls) as response,
            ):
                if response.status != 200:
                    detail = (await response.content.read(500)).decode(errors="replace")
                    raise MemberError(f"{member}: status {response.status}: {detail}")
                async for chunk in response.content.iter_chunked(CHUNK_BYTES):
                    yield chunk
        except (TimeoutError, OSError, aiohttp.ClientError) as problem:
            raise MemberError(f"{member}: {problem or type(problem).__name__}") from None
