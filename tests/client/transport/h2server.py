"""A scriptable HTTP/2 server on the `h2` library, over TLS with ALPN: loopback only, and strict about its client.

Each path has a script, which answers at once, later, or with bytes that no server should send. What `h2` finds wrong
with the client is kept in `problems`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, Event, RequestReceived, StreamEnded, StreamReset, WindowUpdated
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from steersman.client.config import ClientCertificate, Config, TlsConfig
from steersman.pki import Authority

AUTHORITY = Authority.create("h2-tests", lifetime=timedelta(days=1))


class Holds:
    """An authenticator with nothing but a client certificate, which a test may exchange."""

    fresh_until = float("-inf")

    def __init__(self, certificate: ClientCertificate | None = None) -> None:
        self.certificate = certificate

    async def headers(self, *, refresh: bool = False) -> dict[str, str]:
        return {}

    def client_certificate(self) -> ClientCertificate | None:
        return self.certificate


def client_certificate(user: str) -> ClientCertificate:
    pair = AUTHORITY.client(user)
    return ClientCertificate(pair.cert_pem, pair.key_pem)


@dataclass(eq=False)
class Asked:
    """One request, as far as it has come."""

    peer: Peer
    stream: int
    headers: list[tuple[str, str]]
    body: bytearray = field(default_factory=bytearray)
    ended: bool = False
    reset: int | None = None

    def header(self, name: str) -> str | None:
        return dict(self.headers).get(name)

    @property
    def path(self) -> str:
        return (self.header(":path") or "").partition("?")[0]

    def answer(
        self,
        body: bytes = b"",
        status: int = 200,
        headers: Iterable[tuple[str, str]] = (),
        *,
        end: bool = True,
        trailers: Iterable[tuple[str, str]] = (),
    ) -> None:
        """Send a whole answer, or with `end=False` its beginning."""
        self.head(status, headers)
        self.say(body, end=end, trailers=trailers)

    def head(self, status: int, headers: Iterable[tuple[str, str]] = (), *, end: bool = False) -> None:
        self.peer.h2.send_headers(self.stream, [(":status", str(status)), *headers], end_stream=end)
        self.peer.flush()

    def say(self, data: bytes, *, end: bool = False, trailers: Iterable[tuple[str, str]] = ()) -> None:
        """Send of the body what the client has room for, and the rest as it makes room."""
        self.peer.waiting.setdefault(self.stream, []).append((memoryview(data), end, tuple(trailers)))
        self.peer.push()

    def break_off(self, code: ErrorCodes) -> None:
        self.peer.h2.reset_stream(self.stream, code)
        self.peer.flush()


Script = Callable[[Asked], None]


class Peer(asyncio.Protocol):
    """The server's end of one connection."""

    def __init__(self, server: H2Server) -> None:
        self.server = server
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding="latin-1"))
        self.asked: dict[int, Asked] = {}
        self.waiting: dict[int, list[tuple[memoryview, bool, tuple[tuple[str, str], ...]]]] = {}
        self.frames: list[Event] = []
        self.refused: set[int] = set()
        self.greeted = False
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's are no subclasses
        self.user = dict(part[0] for part in (transport.get_extra_info("peercert") or {}).get("subject", ())).get(
            "commonName"
        )
        self.server.peers.append(self)
        if self.server.closes_at_once:
            transport.abort()
            return
        if not self.server.settings_late:
            self.greet()
        self.server.changed()

    def greet(self) -> None:
        self.greeted = True
        if self.server.settings:
            self.h2.local_settings = Settings(client=False, initial_values=self.server.settings)
        self.h2.initiate_connection()
        if self.server.settings_late:
            self.h2.local_settings = Settings(client=False)  # h2 would close the connection instead
        self.flush()

    def data_received(self, data: bytes) -> None:
        try:
            events = self.h2.receive_data(data)
        except ProtocolError as problem:
            self.server.problems.append(problem)
            self.flush()
            self.transport.close()
            return
        if not self.greeted and any(isinstance(event, RequestReceived) for event in events):
            self.greet()
        for event in events:
            self.heard(event)
        self.flush()
        self.server.changed()

    def heard(self, event: Event) -> None:  # noqa: C901 - one case for each event
        self.frames.append(event)
        match event:
            case RequestReceived() if self.server.settings_late and len(self.asked) == self.server.most:
                self.h2.reset_stream(event.stream_id, ErrorCodes.REFUSED_STREAM)
                self.refused.add(event.stream_id)
            case DataReceived() | StreamEnded() | StreamReset() if event.stream_id in self.refused:
                pass
            case RequestReceived():
                asked = Asked(self, event.stream_id, [(str(name), str(value)) for name, value in event.headers])
                self.asked[event.stream_id] = asked
                self.server.asked.append(asked)
                if script := self.server.at_head.get(asked.path):
                    script(asked)
            case DataReceived():
                self.asked[event.stream_id].body += event.data
                if self.server.gives_room and event.flow_controlled_length:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case StreamEnded():
                asked = self.asked[event.stream_id]
                asked.ended = True
                if asked.path not in self.server.at_head:
                    self.server.scripts.get(asked.path, _unknown)(asked)
            case StreamReset():
                self.asked[event.stream_id].reset = int(event.error_code)
                self.waiting.pop(event.stream_id, None)
            case WindowUpdated():
                self.push()
            case _:
                pass

    def push(self) -> None:
        for stream, parts in list(self.waiting.items()):
            while parts:
                data, end, trailers = parts[0]
                room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, len(data))
                last = room == len(data)
                if room or last:
                    self.h2.send_data(stream, bytes(data[:room]), end_stream=last and end and not trailers)
                    self.flush()
                if not last:
                    parts[0] = (data[room:], end, trailers)
                    if not room:
                        break
                    continue
                if trailers:
                    self.h2.send_headers(stream, trailers, end_stream=True)
                    self.flush()
                parts.pop(0)
            if not parts:
                del self.waiting[stream]

    def flush(self) -> None:
        if data := self.h2.data_to_send():
            self.raw(data)

    def raw(self, data: bytes) -> None:
        """Bytes that do not pass through `h2`."""
        self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self.server.changed()


def _unknown(asked: Asked) -> None:
    asked.answer(status=404)


class H2Server:
    """All connections of one server, their requests, and the scripts of the responses."""

    def __init__(self) -> None:
        self.url = ""
        self.peers: list[Peer] = []
        self.asked: list[Asked] = []
        self.problems: list[ProtocolError] = []
        self.settings: dict[SettingCodes, int] = {}
        self.settings_late = False  # they come after the first requests, of which those beyond `most` are refused
        self.gives_room = True
        self.closes_at_once = False
        self.scripts: dict[str, Script] = {"/ok": lambda asked: asked.answer(b"ok"), "/silent": lambda asked: None}
        self.at_head: dict[str, Script] = {}
        self._changed = asyncio.Event()

    @property
    def most(self) -> int:
        """Streams at a time on one connection."""
        return self.settings.get(SettingCodes.MAX_CONCURRENT_STREAMS, 100)

    @property
    def connections(self) -> int:
        return len(self.peers)

    def requests(self, path: str) -> int:
        return sum(1 for asked in self.asked if asked.path == path)

    def config(self, auth: Holds | None = None) -> Config:
        return Config(server=self.url, tls=TlsConfig(ca_pem=AUTHORITY.cert_pem), auth=auth or Holds())

    def changed(self) -> None:
        self._changed.set()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition on the received requests."""
        async with asyncio.timeout(90):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


def server_context(directory: Path, protocols: list[str], *, asks_who: bool = True) -> ssl.SSLContext:
    pair = AUTHORITY.serving("server", ["127.0.0.1"])
    (directory / "server.pem").write_bytes(pair.cert_pem + pair.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.pem")
    if asks_who:
        context.load_verify_locations(cadata=AUTHORITY.cert_pem.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
    if protocols:
        context.set_alpn_protocols(protocols)
    return context


@asynccontextmanager
async def h2_server(directory: Path, *, asks_who: bool = True) -> AsyncIterator[H2Server]:
    """A server on a free port of the loopback, with its own certificate."""
    server = H2Server()
    listener = await asyncio.get_running_loop().create_server(
        lambda: Peer(server), "127.0.0.1", 0, ssl=server_context(directory, ["h2"], asks_who=asks_who)
    )
    server.url = f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()
        for peer in server.peers:
            peer.transport.abort()
        await server.until(lambda: all(peer.lost for peer in server.peers))
