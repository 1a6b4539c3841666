"""A kubelet with scripted containers: it records its input and sends the output of the script."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from steersman_cluster.errors import APIError
from steersman_cluster.kubelet import STDERR, STDOUT, Connection, LogOptions, Usage


class Session:
    """A command: `cat` echoes, `fail N` ends with N, `both` writes to both outputs, `hang` waits until it is closed."""

    def __init__(self, command: Sequence[str]) -> None:
        self.output: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue()
        self.sizes: list[tuple[int, int]] = []
        self.closed = asyncio.Event()
        self.code = 0
        match list(command):
            case ["cat"] | ["hang"]:
                pass
            case ["both"]:
                self.output.put_nowait((STDOUT, b"out"))
                self.output.put_nowait((STDERR, b"err"))
                self.output.put_nowait(None)
            case ["fail", code]:
                self.code = int(code)
                self.output.put_nowait(None)
            case _:
                raise APIError(500, "InternalError", f"no such command: {command}")

    async def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        while (part := await self.output.get()) is not None:
            yield part

    async def write(self, data: bytes) -> None:
        self.output.put_nowait((STDOUT, data))

    async def close_stdin(self) -> None:
        self.output.put_nowait(None)

    async def resize(self, columns: int, rows: int) -> None:
        self.sizes.append((columns, rows))

    async def wait(self) -> int:
        return self.code

    async def close(self) -> None:
        self.closed.set()
        self.output.put_nowait(None)


@dataclass
class ScriptedKubelet:
    """Runs `Session`s, tells `lines` as every log, and connects to `port` whatever port is asked for."""

    lines: list[bytes] = field(default_factory=list)
    port: int = 0
    sessions: list[Session] = field(default_factory=list)
    asked: list[LogOptions] = field(default_factory=list)
    more: asyncio.Event = field(default_factory=asyncio.Event)
    following: int = 0
    used: dict[str, Usage] = field(default_factory=dict)

    async def logs(self, namespace: str, pod: str, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        self.asked.append(options)
        if container == "waiting":
            raise APIError(400, "BadRequest", f'container "{container}" in pod "{pod}" is waiting to start')
        for line in self.lines:
            yield line
        if options.follow:
            self.following += 1
            try:
                await self.more.wait()
                yield b"more\n"
            finally:
                self.following -= 1

    async def exec(
        self, namespace: str, pod: str, container: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> Session:
        self.sessions.append(Session(command))
        return self.sessions[-1]

    async def attach(self, namespace: str, pod: str, container: str, *, stdin: bool, tty: bool) -> Session:
        self.sessions.append(Session(["cat"]))
        return self.sessions[-1]

    async def connect(self, namespace: str, pod: str, port: int) -> Connection:
        if port == 1:
            raise APIError(500, "InternalError", "connection refused")
        return await asyncio.open_connection("127.0.0.1", self.port)

    def usage(self, namespace: str, pod: str) -> Mapping[str, Usage]:
        return self.used if pod == "web" else {}
