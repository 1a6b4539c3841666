"""The limit: a watch, a decode and PATCHes on a bare httptools protocol, with no runtime at all.

What any transport in Python has at least to pay under an operator. It has no retries, timeouts, relists, pools, queue
rules, logs or metrics, keeps decoded objects and trusts every answer to be well-formed: no program should do the like.
Steersman is imported to read the kubeconfig only.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

import httptools
import msgspec

from benchmarks.peers.meter import STAMP, Meter
from steersman.client.config import Config, load_config, ssl_context

_PATH: Final = "/apis/bench.steersman.dev/v1"
_CONNECTIONS: Final = 16
_CHUNK: Final = 256 * 1024
meter = Meter()


class Metadata(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    annotations: dict[str, str] = {}


class Spec(msgspec.Struct, gc=False):
    image: str = ""
    replicas: int = 0
    port: int = 0
    schedule: str = ""


class Status(msgspec.Struct, gc=False, rename="camel"):
    observed_generation: int = 0
    phase: str = ""
    ready_replicas: int = 0
    endpoint: str = ""


class Widget(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: Spec = msgspec.field(default_factory=Spec)
    status: Status = msgspec.field(default_factory=Status)


class Event(msgspec.Struct, gc=False):
    type: str
    object: Widget


class Identity(msgspec.Struct, gc=False):
    uid: str


class Patch(msgspec.Struct, gc=False):
    metadata: Identity
    status: Status


class Wire(asyncio.Protocol):
    """TCP, TLS through memory, and llhttp. Answers' bodies go to `on_data`, their ends to `on_end`."""

    def __init__(self, context: ssl.SSLContext | None, host: str) -> None:
        self.on_data: Callable[[bytes], None] = _ignore
        self.on_end: Callable[[Wire, int], None] = _ignore
        self.ready = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=host) if context else None
        self._open = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        if self._tls is None:
            self.ready.set_result(None)
        else:
            self._shake()

    def _shake(self) -> None:
        assert self._tls is not None
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        else:
            self._open = True
            self.ready.set_result(None)
        if self._out.pending:
            self._transport.write(self._out.read())

    def data_received(self, data: bytes) -> None:
        if self._tls is None:
            self._parser.feed_data(data)
            return
        self._in.write(data)
        if not self._open:
            self._shake()
            if not self._open:
                return
        try:
            while chunk := self._tls.read(_CHUNK):
                self._parser.feed_data(chunk)
        except ssl.SSLWantReadError:
            pass

    def send(self, data: bytes) -> None:
        if self._tls is not None:
            self._tls.write(data)
            data = self._out.read()
        self._transport.write(data)

    def on_body(self, body: bytes) -> None:
        self.on_data(body)

    def on_message_complete(self) -> None:
        self.on_end(self, self._parser.get_status_code())

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        meter.errors += 1


def _ignore(*_: Any) -> None:
    return None


class Limit:
    """One watch, and in mode patch sixteen connections that write."""

    def __init__(self, head: str, mode: str) -> None:
        self._head = head
        self._mode = mode
        self._widgets: dict[tuple[str, str], Widget] = {}
        self._due: deque[tuple[str, str]] = deque()
        self._dirty: set[tuple[str, str]] = set()
        self._idle: list[Wire] = []
        self._rest = b""
        self._decoder = msgspec.json.Decoder(Event)
        self._encoder = msgspec.json.Encoder()

    def watch(self, wire: Wire) -> None:
        """Ask for all there are, and all that happens."""
        wire.on_data = self._received
        query = "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        wire.send(f"GET {_PATH}/widgets?{query} HTTP/1.1\r\n{self._head}\r\n".encode())

    def writes(self, wire: Wire) -> None:
        """Use this connection for PATCHes."""
        wire.on_end = self._written
        self._idle.append(wire)

    def _received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        end = data.rfind(b"\n") + 1
        self._rest = data[end:]
        for event in self._decoder.decode_lines(data[:end]):
            self._happened(event)
        if self._mode == "patch":
            self._write()

    def _happened(self, event: Event) -> None:
        widget = event.object
        metadata = widget.metadata
        if event.type == "BOOKMARK":
            if "k8s.io/initial-events-end" in metadata.annotations:
                meter.mark("synced")
            return
        key = (metadata.namespace, metadata.name)
        before = self._widgets.get(key)
        self._widgets[key] = widget
        if before is None:
            meter.seen += 1
        elif self._mode == "informer":
            meter.events += 1
            return
        elif before.metadata.generation != metadata.generation:
            meter.events += 1
        else:
            return
        if self._mode == "patch" and key not in self._dirty:
            self._dirty.add(key)
            self._due.append(key)

    def _write(self) -> None:
        while self._idle and self._due:
            key = self._due.popleft()
            self._dirty.discard(key)
            widget = self._widgets[key]
            metadata = widget.metadata
            meter.reconciles += 1
            meter.stamped(metadata.annotations.get(STAMP))
            namespace, name = key
            status = Status(metadata.generation, "Ready", widget.spec.replicas, f"{name}.{namespace}.svc:8080")
            if status == widget.status:
                continue
            body = self._encoder.encode(Patch(Identity(metadata.uid), status))
            head = (
                f"PATCH {_PATH}/namespaces/{namespace}/widgets/{name}/status HTTP/1.1\r\n{self._head}"
                f"Content-Type: application/merge-patch+json\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            self._idle.pop().send(head.encode() + body)

    def _written(self, wire: Wire, status: int) -> None:
        if status == 200:
            meter.patches += 1
        else:
            meter.errors += 1
        self._idle.append(wire)
        self._write()


async def run(config: Config, mode: str) -> None:
    """Until stdin closes."""
    loop = asyncio.get_running_loop()
    url = urlsplit(config.server)
    headers = {"Host": url.netloc, "Accept": "application/json", **dict(await config.auth.headers())}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    context = ssl_context(config.tls, config.auth.client_certificate()) if url.scheme == "https" else None
    host = config.tls.server_name or url.hostname or ""

    async def opened() -> Wire:
        _, wire = await loop.create_connection(lambda: Wire(context, host), url.hostname or "", url.port or 443)
        await wire.ready
        return wire

    limit = Limit(head, mode)
    for _ in range(_CONNECTIONS if mode == "patch" else 0):
        limit.writes(await opened())
    limit.watch(await opened())
    await asyncio.Event().wait()


def main() -> int:
    """Parse what the driver says and run on uvloop where it is installed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--kind", default="widgets", choices=["widgets"])
    parser.add_argument("--mode", default="informer", choices=["informer", "patch"])
    options = parser.parse_args()
    try:
        import uvloop

        factory = uvloop.new_event_loop
    except ImportError:
        factory = asyncio.new_event_loop
    meter.mark("starting")
    meter.obey()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(run(load_config(options.kubeconfig), options.mode))
    return 0


if __name__ == "__main__":
    sys.exit(main())
