"""Forwards connections from loopback of the host into the network namespace of a process. Started as a program.

The arguments are a process id and ports: 127.0.0.1:PORT of the host is forwarded to 127.0.0.1:PORT of the namespace.
The program creates the listening sockets before it enters the namespace, so they belong to the host. It uses only the
standard library.
"""

import asyncio
import contextlib
import ctypes
import os
import socket
import sys

_CLONE_NEWNET = 0x40000000
_CHUNK_BYTES = 1 << 16
_BACKLOG = 256


def listeners(ports: list[int]) -> list[socket.socket]:
    """Return sockets that listen on loopback."""
    made: list[socket.socket] = []
    for port in ports:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(_BACKLOG)
        made.append(listener)
    return made


def enter_network(pid: int) -> None:
    """Move this single-threaded process into the network namespace of another process; raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        if libc.setns(namespace, _CLONE_NEWNET) < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"setns: {os.strerror(number)}")
    finally:
        os.close(namespace)


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes until the end of the input, then close the output."""
    try:
        while data := await reader.read(_CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # One side has reset its connection; closing the output ends the other side.
    with contextlib.suppress(OSError):
        writer.write_eof()


async def serve(listener: socket.socket) -> None:
    """Forward every connection of one listener, each in its own task."""
    port = int(listener.getsockname()[1])

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError):
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
            with contextlib.closing(inner_writer):
                await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))

    server = await asyncio.start_server(connected, sock=listener)
    await server.serve_forever()


async def main(made: list[socket.socket]) -> None:
    """Serve all listeners."""
    await asyncio.gather(*(serve(listener) for listener in made))


if __name__ == "__main__":
    sockets = listeners([int(port) for port in sys.argv[2:]])
    enter_network(int(sys.argv[1]))
    asyncio.run(main(sockets))
