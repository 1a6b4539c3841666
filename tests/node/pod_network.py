"""Connections from the test process into the network of the node: to Pods and Services, by loopback ports."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor

from steersman.testing.real_node import RealNode
from steersman.testing.real_node.forward import enter_network

_CONNECT_SECONDS = 3.0
_CHUNK_BYTES = 1 << 16


class PodNetwork:
    """Opens connections inside the network namespace of a node; `close` ends the threads and what `forward` started."""

    def __init__(self, node: RealNode) -> None:
        first = node.namespaces.first_process
        self._node = node
        self._forwarded = contextlib.ExitStack()
        # A network namespace belongs to a thread; a socket keeps the one in which it was created.
        self._threads = ThreadPoolExecutor(max_workers=8, initializer=enter_network, initargs=(first,))

    def close(self) -> None:
        self._forwarded.close()
        self._threads.shutdown()

    def connect(self, host: str, port: int) -> socket.socket:
        """Connect to an address of the node's network. Raises `OSError`."""
        connecting = self._threads.submit(socket.create_connection, (host, port), _CONNECT_SECONDS)
        connection = connecting.result()
        connection.settimeout(None)
        return connection

    def pod_address(self, namespace: str, name: str) -> str:
        """Return the address of a Pod. Raises `LookupError`."""
        pod = self._node.get("pod", name, namespace=namespace)
        address = (pod or {}).get("status", {}).get("podIP")
        if not address:
            raise LookupError(f"Pod {namespace}/{name} has no address")
        return address

    def service_address(self, namespace: str, name: str) -> str:
        """Return the cluster IP of a Service. Raises `LookupError`."""
        service = self._node.get("service", name, namespace=namespace)
        if service is None:
            raise LookupError(f"there is no Service {namespace}/{name}")
        return service["spec"]["clusterIP"]

    def forward(self, address: Callable[[], str], port: int) -> tuple[str, int]:
        """Return a local host and port like `forwarded`, until `close`."""
        return self._forwarded.enter_context(self.forwarded(address, port))

    @contextlib.contextmanager
    def forwarded(self, address: Callable[[], str], port: int) -> Generator[tuple[str, int]]:
        """Return a local host and port; each connection is forwarded to the address at that time."""
        listener = socket.create_server(("127.0.0.1", 0))
        open_sockets: set[socket.socket] = set()
        thread = threading.Thread(target=self._accept, args=(listener, address, port, open_sockets), daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[:2]
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
            thread.join()
            for each in list(open_sockets):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def _accept(
        self, listener: socket.socket, address: Callable[[], str], port: int, open_sockets: set[socket.socket]
    ) -> None:
        while True:
            try:
                outer, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._join, args=(outer, address, port, open_sockets), daemon=True).start()

    def _join(
        self, outer: socket.socket, address: Callable[[], str], port: int, open_sockets: set[socket.socket]
    ) -> None:
        with outer:
            try:
                inner = self.connect(address(), port)
            except (OSError, LookupError):
                return
            with inner:
                open_sockets |= {outer, inner}
                back = threading.Thread(target=_copy, args=(inner, outer), daemon=True)
                back.start()
                _copy(outer, inner)
                back.join()
                open_sockets -= {outer, inner}


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes until the end of the input or an error, then end the output."""
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK_BYTES):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
