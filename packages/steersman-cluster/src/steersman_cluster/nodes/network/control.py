"""Starts the router (`router`) and sends it commands; it returns sockets and namespaces as descriptors."""

from __future__ import annotations

import array
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

from steersman_cluster.nodes.network.addresses import GATEWAY_ADDRESSES, packed

__all__ = ["NetworkError", "RouterProcess"]

_DIRECTORY: Final = str(Path(__file__).parent)
_PROGRAM: Final = (
    "import json, sys; sys.path.append(sys.argv[1]); from router.loop import serve; "
    "serve(int(sys.argv[2]), json.loads(sys.argv[3]))"
)
_ANSWER_SECONDS: Final = 30.0
_MAX_DESCRIPTORS: Final = 8

SocketKind = Literal["tcp", "udp"]


class NetworkError(OSError):
    """The router refused a command or has ended; the message has the reason."""


class RouterProcess:
    """A running router. Its methods block until the response; they can be called from any thread."""

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket) -> None:
        self.process = process
        self._connection = connection
        self._lock = threading.Lock()
        self.namespace = -1
        """A descriptor of the network namespace of the cluster."""
        self.user: int | None = None
        """A descriptor of the user namespace of the cluster, if it has one."""

    @classmethod
    def start(cls, seed: int = 0) -> RouterProcess:
        """Start the program and wait until it routes. Raises `NetworkError` if namespaces or TUN are not allowed."""
        ours, theirs = socket.socketpair()
        ours.settimeout(_ANSWER_SECONDS)
        settings = {"addresses": [packed(address).hex() for address in GATEWAY_ADDRESSES], "seed": seed}
        with theirs:
            descriptor = theirs.fileno()
            words = [sys.executable, "-I", "-S", "-c", _PROGRAM, _DIRECTORY, str(descriptor), json.dumps(settings)]
            process = subprocess.Popen(  # noqa: S603 - this Python, this package
                words, pass_fds=(descriptor,), stdin=subprocess.DEVNULL, start_new_session=True, env={}
            )
        router = cls(process, ours)
        try:
            _, (router.namespace, *user) = router._receive()
        except BaseException:
            router.close()
            raise
        router.user = user[0] if user else None
        return router

    def close(self) -> None:
        """End the router; namespaces without processes end with it. Safe to call twice."""
        self._connection.close()
        self.process.kill()
        self.process.wait()
        for descriptor in (self.namespace, self.user):
            if descriptor is not None and descriptor >= 0:
                with suppress(OSError):
                    os.close(descriptor)
        self.namespace, self.user = -1, None

    def command(self, what: str, **fields: Any) -> tuple[dict[str, Any], list[int]]:
        """Send a command and return the response with its descriptors. Raises `NetworkError`."""
        data = json.dumps({"what": what, **fields}).encode()
        with self._lock:
            try:
                self._connection.sendall(struct.pack("!I", len(data)) + data)
                return self._receive()
            except NetworkError:
                raise
            except OSError as problem:
                raise NetworkError(problem.errno, f"the network router has ended: {problem}") from None

    def _receive(self) -> tuple[dict[str, Any], list[int]]:
        descriptors = array.array("i")
        space = socket.CMSG_SPACE(_MAX_DESCRIPTORS * descriptors.itemsize)
        data, ancillary, _, _ = self._connection.recvmsg(1 << 16, space)
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
        while data and (len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4])):
            more = self._connection.recv(1 << 16)
            if not more:
                break
            data += more
        if len(data) < 4:
            raise NetworkError(32, "the network router has ended")
        answer = json.loads(data[4:])
        if "error" in answer:
            raise NetworkError(answer["errno"], answer["error"])
        return answer, list(descriptors)

    def socket(
        self, kind: SocketKind = "tcp", *, within: str = "", host: str = "", port: int = 0, listen: bool = False
    ) -> socket.socket:
        """Return a socket in the cluster's namespace, or in the one with the address `within`; bound to `host`."""
        _, (descriptor,) = self.command(
            "socket", kind=kind, within=packed(within).hex() if within else "", host=host, port=port, listen=listen
        )
        made = socket.socket(fileno=descriptor)
        made.setblocking(False)  # noqa: FBT003 - a positional parameter of sockets
        return made
