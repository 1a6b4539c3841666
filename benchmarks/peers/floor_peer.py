"""The floor of an event: programs that read and decrypt a watch, and do nothing else with it.

`--mode socket` blocks on a socket of the `ssl` module; `--mode asyncio` has the event loop and the TLS layer of
`steersman run` without uvloop. An event is a line of the watch, recognized by its type.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import ssl
from typing import Final
from urllib.parse import urlsplit

from benchmarks.peers.meter import Meter
from steersman.client.config import Config, load_config
from steersman.client.config.tls import ssl_context
from steersman.client.transport.tls import TlsLayer
from steersman.controller.loop_activity import ObservedLoop

_BUFFER_BYTES: Final = 64 * 1024
_PATH: Final = "/apis/bench.steersman.dev/v1/widgets?watch=1&allowWatchBookmarks=true"

meter = Meter()


def received(data: bytes) -> None:
    """Count the events of a piece of the watch."""
    events = data.count(b'{"type":"MODIFIED"')
    meter.events += events
    meter.reconciles += events
    meter.seen += data.count(b'{"type":"ADDED"')


class Watch(asyncio.BufferedProtocol):
    """A watch on the event loop."""

    def __init__(self, context: ssl.SSLContext, host: str, request: bytes) -> None:
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._tls = TlsLayer(context, host)
        self._request = request

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the handshake."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._tls.handshake()
        transport.write(self._tls.to_send())

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for received bytes."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Finish the handshake, or read events."""
        if self._tls.handshake_done:
            received(self._tls.decrypt(self._buffer[:nbytes]))
            return
        done = self._tls.handshake(self._buffer[:nbytes])
        if records := self._tls.to_send():
            self._transport.write(records)
        if done:
            self._transport.write(self._tls.encrypt(self._request))
            meter.mark("synced")


def main() -> None:
    """Run one of the programs until standard input closes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--mode", choices=("socket", "asyncio"), required=True)
    options = parser.parse_args()
    config = load_config(options.kubeconfig)
    meter.mark("starting")
    meter.obey()
    if options.mode == "socket":
        _block(config, asyncio.run(_request(config)))
    else:
        with asyncio.Runner(loop_factory=ObservedLoop) as runner:
            runner.run(_watch(config))


async def _request(config: Config) -> bytes:
    headers = {"Host": urlsplit(config.server).netloc, "Accept": "application/json", **await config.auth.headers()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"GET {_PATH} HTTP/1.1\r\n{lines}\r\n".encode()


def _block(config: Config, request: bytes) -> None:
    host, port = _address(config)
    with ssl_context(config.tls, None).wrap_socket(socket.create_connection((host, port)), server_hostname=host) as tls:
        tls.sendall(request)
        meter.mark("synced")
        while data := tls.recv(_BUFFER_BYTES):
            received(data)


async def _watch(config: Config) -> None:
    host, port = _address(config)
    context, request = ssl_context(config.tls, None), await _request(config)
    await asyncio.get_running_loop().create_connection(lambda: Watch(context, host, request), host, port)
    await asyncio.Event().wait()


def _address(config: Config) -> tuple[str, int]:
    parts = urlsplit(config.server)
    return parts.hostname or "", parts.port or 443


if __name__ == "__main__":
    main()
