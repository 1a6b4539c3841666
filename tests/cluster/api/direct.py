"""An API server without sockets, asked as its administrator."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from steersman_cluster.api.requests.messages import Params, Request, Response
from steersman_cluster.api.server import APIServer
from steersman_cluster.strategy import User

ADMIN = User("admin", groups=("system:masters",))


class Headers(dict[str, str]):
    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.lower(), default)


class Watching:
    """A watch, read by the test at its own pace."""

    def __init__(self, stream: AsyncIterator[bytes]) -> None:
        self._chunks = aiter(stream)

    async def next(self) -> list[dict[str, Any]]:
        """The events of the next chunk; none at the end."""
        return [json.loads(line) for line in (await anext(self._chunks, b"")).splitlines()]

    async def rest(self) -> list[dict[str, Any]]:
        """All events until the server ends the watch."""
        events: list[dict[str, Any]] = []
        async with asyncio.timeout(200):
            while chunk := await self.next():
                events += chunk
        return events


class Direct:
    """One API server and its requests."""

    def __init__(self) -> None:
        self.api = APIServer()

    async def ask(self, method: str, path: str, body: Any = None, **query: str) -> Response:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = Headers({"content-type": kind, "user-agent": "test/1"})
        data = json.dumps(body).encode() if body is not None else b""
        return await self.api.handle(Request(method, path, Params(query.items()), headers, data, ADMIN))

    async def watch(self, path: str, **query: str) -> Watching:
        """A watch that has been answered; it begins when it is read first."""
        answer = await self.ask("GET", path, watch="1", **query)
        assert answer.stream is not None, answer.body
        return Watching(answer.stream)

    async def read(self, path: str, **query: str) -> "asyncio.Future[list[dict[str, Any]]]":
        """A watch that has begun, and is read to its end while the test goes on."""
        reading = asyncio.ensure_future((await self.watch(path, **query)).rest())
        await asyncio.sleep(0)  # until it waits for the first event
        assert self.api.watches
        return reading
