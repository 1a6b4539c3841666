"""Hand-written parts beside the libraries that could serve them: the CPU of one operation, and the ratio.

    python -m benchmarks.own_code [ROUNDS]

It prints a table and writes own-code.json, which the decision records quote (`python -m benchmarks.quoted`). Every
operation runs in this process and without I/O, in interleaved rounds; a row shows the medians, and the lowest and
highest ratio of a round.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import statistics
import sys
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from cel_expr_python import cel as google_cel
from cronsim import CronSim
from h2.config import H2Configuration
from h2.connection import H2Connection
from hpack import Encoder

from benchmarks.harness import HERE
from steersman.client.transport.http2 import Http2Connection, Http2Encoder
from steersman.client.transport.http2.frames import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    number_frame,
)
from steersman.client.transport.tls import TlsLayer
from steersman.pki import Authority, as_file
from steersman_cluster import cel
from steersman_cluster.controllers.workloads import cron

Operation = Callable[[], object]
_OPERATIONS: Final = 400
_ROUNDS: Final = 7
_BODY: Final = b'{"kind":"Widget","spec":{"size":3}}' * 20


class Comparison(NamedTuple):
    key: str
    name: str
    ours: Operation
    library: Operation
    close: Operation = lambda: None


class _Line:
    def write(self, data: bytes) -> None: ...

    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class _Pool:
    receive_buffer = bytearray(65536)

    def release(self, connection: object) -> None: ...

    def forget(self, connection: object) -> None: ...


def _response(stream: int) -> bytes:
    block = Encoder().encode([(":status", "200"), ("content-type", "application/json"), ("audit-id", "0" * 36)])
    return frame(HEADERS, END_HEADERS, stream, block) + frame(DATA, END_STREAM, stream, _BODY)


def http2() -> Comparison:
    """A PATCH request with a body and its response: bytes out, bytes in, status and body."""
    responses = [_response(2 * number + 1) for number in range(100_000)]
    hello = frame(SETTINGS, 0, 0, b"") + frame(SETTINGS, ACK, 0, b"") + number_frame(WINDOW_UPDATE, 0, 1 << 30)
    head = [("content-type", "application/merge-patch+json"), ("accept", "application/json")]
    path = "/apis/example.com/v1/namespaces/default/widgets/one"

    ours = Http2Connection(_Pool(), 0, _Line(), None, Http2Encoder("https", "api.example"))  # type: ignore[arg-type]
    ours.begin()
    ours.received(hello)
    our_responses = iter(responses)

    def request_ours() -> int:
        answer = ours.send_request("PATCH", path, head, _BODY, 60.0)
        ours.flush()
        ours.received(next(our_responses))
        return answer.result().status

    theirs = H2Connection(H2Configuration(client_side=True, header_encoding=None))
    theirs.initiate_connection()
    theirs.receive_data(hello)
    theirs.data_to_send()
    their_responses = iter(responses)
    pseudo = [(":method", "PATCH"), (":scheme", "https"), (":authority", "api.example"), (":path", path)]

    def request_theirs() -> int:
        stream = theirs.get_next_available_stream_id()
        theirs.send_headers(stream, [*pseudo, *head])
        theirs.send_data(stream, _BODY, end_stream=True)
        theirs.data_to_send()
        events = theirs.receive_data(next(their_responses))
        theirs.acknowledge_received_data(len(_BODY), stream)
        return int(dict(events[0].headers)[b":status"])  # type: ignore[union-attr]

    assert request_ours() == request_theirs() == 200
    return Comparison("http2", "HTTP/2: a request and its response (h2)", request_ours, request_theirs)


class _Server:
    """The server's end of a TLS connection in memory."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self.open = False

    def take(self, data: bytes) -> bytes:
        self.incoming.write(data)
        if not self.open:
            try:
                self.tls.do_handshake()
                self.open = True
            except ssl.SSLWantReadError:
                return self.outgoing.read()
        try:
            while self.tls.read(1 << 14):
                pass
        except ssl.SSLWantReadError:
            pass
        return self.outgoing.read()

    def records(self, data: bytes) -> bytes:
        self.tls.write(data)
        return self.outgoing.read()


class _Wire(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()

    def write(self, data: Any) -> None:
        self.sent += data

    def writelines(self, list_of_data: Any) -> None:
        self.sent += b"".join(list_of_data)

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None: ...

    def close(self) -> None: ...


class _Application(asyncio.Protocol):
    received = 0

    def data_received(self, data: bytes) -> None:
        self.received += len(data)


def tls(loop: asyncio.AbstractEventLoop) -> Comparison:
    """A request of 700 bytes out and a response of 700 bytes in, over TLS 1.3 in memory."""
    authority = Authority.create("benchmark")
    leaf = authority.serving("localhost", ["localhost"])
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with as_file(leaf.cert_pem + leaf.key_pem) as path:
        server_context.load_cert_chain(path)
    context = ssl.create_default_context(cadata=authority.cert_pem.decode())

    server = _Server(server_context)
    layer = TlsLayer(context, "localhost")
    layer.handshake()
    while not layer.handshake_done:
        layer.handshake(server.take(layer.to_send()))
    layer.decrypt(server.take(layer.to_send()))

    def ours() -> int:
        server.take(layer.encrypt(_BODY))
        return len(layer.decrypt(server.records(_BODY)))

    other = _Server(server_context)
    application, wire = _Application(), _Wire()
    protocol = SSLProtocol(loop, application, context, None, server_side=False, server_hostname="localhost")
    protocol.connection_made(wire)

    def feed(data: bytes) -> None:
        while data:
            buffer = protocol.get_buffer(len(data))
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            protocol.buffer_updated(size)
            data = data[size:]

    while not other.open or wire.sent:
        sent = bytes(wire.sent)
        wire.sent.clear()
        feed(other.take(sent))
    plain: Any = protocol._app_transport  # the transport that the application gets

    def library() -> int:
        before = application.received
        plain.write(_BODY)
        other.take(bytes(wire.sent))
        wire.sent.clear()
        feed(other.records(_BODY))
        return application.received - before

    assert ours() == library() == len(_BODY)
    return Comparison("tls", "TLS: a record out and one in (asyncio)", ours, library, plain.abort)


def schedules() -> Comparison:
    """The next time of a CronJob's schedule."""
    after = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    line = "*/15 2-6 * * 1-5"

    def library() -> datetime:
        return next(CronSim(line, after))

    def ours() -> datetime | None:
        return cron.parse(line).next(after)

    assert ours() == library()
    return Comparison("cron", "cron: parse and next time (cronsim)", ours, library)


def rules() -> Comparison:
    """A validation rule of a custom resource; ours counts its cost, which the library cannot."""
    text = "self.replicas >= self.minReplicas && self.names.all(name, name.size() < 10)"
    value = {"replicas": 3, "minReplicas": 1, "names": ["one", "two", "three"]}
    program = cel.compile(text, {"self": cel.ANY})
    environment = google_cel.NewEnv(variables={"self": google_cel.Type.DYN})
    compiled = environment.compile(text)

    def library() -> bool:
        return bool(compiled.eval(data={"self": value}).value())

    def ours() -> bool:
        return bool(program.evaluate({"self": value}, cel.Meter(cel.OBJECT_BUDGET)))

    assert ours() is library() is True
    return Comparison("cel", "CEL: one rule, with its cost (cel-expr-python)", ours, library)


def comparisons(loop: asyncio.AbstractEventLoop) -> Iterator[Comparison]:
    """Yield all comparisons; they need a running loop."""
    yield http2()
    yield tls(loop)
    yield schedules()
    yield rules()


def _microseconds(operation: Operation) -> float:
    began = time.process_time()
    for _ in range(_OPERATIONS):
        operation()
    return (time.process_time() - began) / _OPERATIONS * 1e6


async def main(rounds: int) -> None:
    rows: dict[str, dict[str, float]] = {}
    print("| operation (library) | ours, µs | library, µs | library / ours | rounds |")
    print("|---|---|---|---|---|")
    for one in comparisons(asyncio.get_running_loop()):
        pairs = [(_microseconds(one.ours), _microseconds(one.library)) for _ in range(rounds)]
        one.close()
        ours, theirs = (statistics.median(pair[at] for pair in pairs) for at in (0, 1))
        ratios = sorted(library / own for own, library in pairs)
        spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
        rows[one.key] = {"ours": ours, "library": theirs, "low": ratios[0], "high": ratios[-1]}
        print(f"| {one.name} | {ours:.0f} | {theirs:.0f} | {theirs / ours:.2f} | {spread} |")
    (HERE / "own-code.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else _ROUNDS))
