"""The faulty server's paths in HTTP/2: the same ways to misbehave, in frames, for the suite of all transports."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from h2.errors import ErrorCodes
from hyperframe.frame import ContinuationFrame, DataFrame, HeadersFrame


def _load_h2server():
    name = "steersman_tests_h2server"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("h2server.py"))
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


h2server = _load_h2server()
Asked, H2Server = h2server.Asked, h2server.H2Server
tls_of = h2server.TlsConfig(ca_pem=h2server.AUTHORITY.cert_pem)


class H2Hostile:
    """What `FaultyServer` is, for HTTP/2; requests are shown as HTTP/1.1 would have put them."""

    def __init__(self, server: H2Server) -> None:
        self._server = server
        self.url = server.url

    @property
    def connections(self) -> int:
        return self._server.connections

    @property
    def heads(self) -> list[bytes]:
        return [_as_text(asked) for asked in self._server.asked]

    @property
    def bodies(self) -> list[bytes]:
        return [bytes(asked.body) for asked in self._server.asked]

    def requests(self, path: str) -> int:
        return self._server.requests(path)


def _as_text(asked: Asked) -> bytes:
    lines = [f"{asked.header(':method')} {asked.header(':path')} HTTP/1.1", f"host: {asked.header(':authority')}"]
    lines += [f"{name}: {value}" for name, value in asked.headers if not name.startswith(":")]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode()


def _then(does: Callable[[Asked], None], *, body: bytes | None = None) -> Callable[[Asked], None]:
    """Begin an answer, where there is a body, and then misbehave."""

    def script(asked: Asked) -> None:
        if body is not None:
            asked.answer(body, end=False)
        does(asked)

    return script


def _closes(asked: Asked) -> None:
    asked.peer.transport.close()


def _resets(asked: Asked) -> None:
    asked.break_off(ErrorCodes.INTERNAL_ERROR)


def _says(make: Callable[[int], bytes]) -> Callable[[Asked], None]:
    return lambda asked: asked.peer.raw(make(asked.stream))


def _head(stream: int) -> bytes:
    return HeadersFrame(stream, b"\x88", flags=["END_HEADERS"]).serialize()


def _drips(drop: Callable[[int], bytes], pause: float, *, start: Callable[[int], bytes]) -> Callable[[Asked], None]:
    def script(asked: Asked) -> None:
        asked.peer.raw(start(asked.stream))

        def again() -> None:
            if not asked.peer.transport.is_closing() and asked.reset is None:
                asked.peer.raw(drop(asked.stream))
                asyncio.get_running_loop().call_later(pause, again)

        again()

    return script


def _nothing(stream: int) -> bytes:
    return b""


def _begun(stream: int) -> bytes:
    return HeadersFrame(stream, b"\x88").serialize()


SCRIPTS: dict[str, Callable[[Asked], None]] = {
    "/ok": lambda asked: asked.answer(
        b"ok", headers=[("content-length", "2"), ("warning", '299 - "a"'), ("warning", '299 - "b"')]
    ),
    "/prefix/ok": lambda asked: asked.answer(b"ok"),
    "/empty": lambda asked: asked.head(204, end=True),
    "/redirect": lambda asked: asked.head(307, [("location", "https://127.0.0.1:1/")], end=True),
    "/smuggled": _then(_says(lambda stream: _head(stream + 2) + DataFrame(stream + 2, b"forged").serialize())),
    "/length-and-chunks": lambda asked: (
        asked.answer(b"ok"),
        asked.peer.raw(DataFrame(asked.stream, b"forged").serialize()),
    ),
    "/gone-before-the-head": _closes,
    "/reset-before-the-head": _resets,
    "/reset-in-the-body": _then(_resets, body=b"abc"),
    "/truncated": _then(_closes, body=b"abc"),
    "/truncated-chunks": _then(
        lambda asked: (asked.peer.raw(DataFrame(asked.stream, b"abc").serialize()[:-1]), _closes(asked)), body=b"abc"
    ),
    "/bad-chunk-size": _then(_says(lambda stream: b"\xff\xff\xff\x00\x00" + stream.to_bytes(4, "big")), body=b"abc"),
    "/two-lengths": _says(lambda stream: _head(stream) * 2),
    "/not-http": _says(lambda stream: b"SSH-2.0-OpenSSH_9.2\r\n\r\n"),
    "/half-a-head": lambda asked: (asked.peer.raw(_head(asked.stream)[:-1]), _closes(asked)),
    "/oversized-header": _says(
        lambda stream: b"\x20\x00\x00\x01\x04" + stream.to_bytes(4, "big") + b"\x88" * (2 << 20)
    ),
    "/never-ending-head": _drips(lambda stream: ContinuationFrame(stream, b"x" * 1000).serialize(), 0.0, start=_begun),
    "/slow-head": _drips(lambda stream: ContinuationFrame(stream, b"\x88").serialize(), 0.05, start=_begun),
    "/slow-body": _drips(lambda stream: DataFrame(stream, b"x").serialize(), 0.05, start=_head),
    "/silent": lambda asked: None,
    "/stream-then-silence": lambda asked: asked.answer(b"0\n", end=False),
    "/stream": lambda asked: [asked.head(200), *(asked.say(b"%d\n" % n, end=n == 2) for n in range(3))],
    "/flood": lambda asked: asked.answer(b"x" * (8 << 20)),
}


@asynccontextmanager
async def faulty_h2_server(directory: Path) -> AsyncIterator[H2Hostile]:
    """A server that misbehaves in HTTP/2."""
    async with h2server.h2_server(directory, asks_who=False) as server:
        server.scripts = dict(SCRIPTS)
        yield H2Hostile(server)
