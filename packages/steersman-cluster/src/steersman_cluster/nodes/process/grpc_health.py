"""The health check of gRPC (grpc.health.v1) for probes: one request on one HTTP/2 connection.

The response message has the status, so response headers and trailers are not decoded, and no gRPC library is needed.
"""

from __future__ import annotations

import asyncio
from typing import Final

from steersman.client.transport.http2.frames import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_HEAD,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    frame,
    unpadded,
)
from steersman.client.transport.http2.header_blocks import Http2Encoder

__all__ = ["check"]

_MAX_FRAME_BYTES: Final = 16384
_MAX_FRAMES: Final = 64
_MAX_MESSAGE_BYTES: Final = 64
_PATH: Final = "/grpc.health.v1.Health/Check"
_HEADERS: Final = (("te", "trailers"), ("content-type", "application/grpc"), ("user-agent", "kube-probe/1.36"))
_STREAM: Final = 1


async def check(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, service: str, authority: str) -> str:
    """Ask a server for its health; return "" for SERVING, else the problem.

    Args:
        reader: The connection to the server.
        writer: The connection to the server; stays open.
        service: The name of the service in the request.
        authority: The name of the server in the request.

    Raises:
        OSError: The connection failed, or the server does not support HTTP/2.
    """
    block = Http2Encoder("http", authority).encode("POST", _PATH, _HEADERS, None)
    writer.write(
        PREFACE
        + frame(SETTINGS, 0, 0, b"")
        + frame(HEADERS, END_HEADERS, _STREAM, block)
        + frame(DATA, END_STREAM, _STREAM, _message(service))
    )
    received = bytearray()
    for _ in range(_MAX_FRAMES):
        kind, flags, stream, payload = await _frame(reader)
        if kind in (SETTINGS, PING) and not flags & ACK:
            writer.write(frame(kind, ACK, 0, payload if kind == PING else b""))
        elif kind == GOAWAY:
            raise ConnectionError("the server closed the connection")
        elif stream != _STREAM:
            continue
        elif kind == RST_STREAM:
            return "service unhealthy (the server reset the stream)"
        elif kind == DATA:
            received += unpadded(payload) if flags & PADDED and payload else payload
        if len(received) > _MAX_MESSAGE_BYTES:
            break
        if kind in (DATA, HEADERS) and flags & END_STREAM:
            return _verdict(bytes(received))
    raise ConnectionError("the server sent no response to the health check")


def _message(service: str) -> bytes:
    """Return a HealthCheckRequest with the prefix of gRPC: no compression, and the length."""
    name = service.encode()
    length, size = bytearray(), len(name)
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    message = b"\x0a" + bytes(length) + name if name else b""
    return b"\0" + len(message).to_bytes(4, "big") + message


async def _frame(reader: asyncio.StreamReader) -> tuple[int, int, int, bytes]:
    try:
        high, low, kind, flags, stream = FRAME_HEAD.unpack(await reader.readexactly(FRAME_HEAD.size))
        size = high << 16 | low
        if size > _MAX_FRAME_BYTES:
            raise ConnectionError("the server does not speak HTTP/2")
        return kind, flags, stream & 0x7FFFFFFF, await reader.readexactly(size)
    except asyncio.IncompleteReadError:
        raise ConnectionError("the server closed the connection") from None


def _verdict(received: bytes) -> str:
    """Return the problem in a HealthCheckResponse, or ""; without a response, the server refused the request."""
    if len(received) < 5:
        return "service unhealthy (the server answered with an error)"
    match received[5:]:
        case b"\x08\x01":
            return ""
        case b"\x08\x03":
            return 'service unhealthy (responded with "SERVICE_UNKNOWN")'
        case b"\x08\x02":
            return 'service unhealthy (responded with "NOT_SERVING")'
        case _:
            return 'service unhealthy (responded with "UNKNOWN")'
