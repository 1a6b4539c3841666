"""One SPDY session: bytes of the peer in, events out; and the bytes of what the server answers.

Frames may be cut anywhere. After `SpdyError` the session is of no use: close the connection.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeAlias

from steersman_cluster.spdy.headers import HeaderReader, HeaderWriter

__all__ = ["Closed", "Data", "Event", "Opened", "Reset", "Session", "SpdyError"]

_VERSION: Final = 3
_FIN: Final = 1
_MAX_FRAME_BYTES: Final = 1 << 24


class _Type(IntEnum):
    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    PING = 6
    GOAWAY = 7


class SpdyError(ValueError):
    """The peer does not speak SPDY/3.1."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The peer opened a stream; answer with `Session.accept` or `Session.reset`. `last` when it sends no data on it."""

    stream: int
    headers: dict[str, str]
    last: bool = False


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes on a stream; after `last` the peer sends no more on it."""

    stream: int
    body: bytes = field(repr=False)
    last: bool = False


@dataclass(frozen=True, slots=True)
class Reset:
    """The peer gave a stream up."""

    stream: int


@dataclass(frozen=True, slots=True)
class Closed:
    """The peer opens no more streams."""


Event: TypeAlias = Opened | Data | Reset | Closed


class Session:
    """The server's end of a session."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._reader = HeaderReader()
        self._writer = HeaderWriter()
        self._out = bytearray()
        self._last = 0

    def feed(self, data: bytes) -> list[Event]:
        """Parse bytes of the peer and return their events in order; `pending` holds replies. Raises `SpdyError`."""
        self._held += data
        events: list[Event] = []
        while len(self._held) >= 8:
            size = int.from_bytes(self._held[5:8], "big")
            if len(self._held) < 8 + size:
                break
            head, flags, body = bytes(self._held[:4]), self._held[4], bytes(self._held[8 : 8 + size])
            del self._held[: 8 + size]
            event = self._control(head, flags, body) if head[0] & 0x80 else self._data(head, flags, body)
            if event is not None:
                events.append(event)
        return events

    def pending(self) -> bytes:
        """Return the bytes to send to the peer, and clear them."""
        out = bytes(self._out)
        self._out.clear()
        return out

    def accept(self, stream: int) -> None:
        """Agree to a stream that the peer opened."""
        self._frame(_Type.SYN_REPLY, 0, stream.to_bytes(4, "big") + self._writer.write({}))

    def send(self, stream: int, body: bytes, *, last: bool = False) -> None:
        """Send bytes on a stream; `last` closes our half of it."""
        for start in range(0, max(1, len(body)), _MAX_FRAME_BYTES - 1):
            part = body[start : start + _MAX_FRAME_BYTES - 1]
            flags = _FIN if last and start + len(part) >= len(body) else 0
            self._out += stream.to_bytes(4, "big") + bytes((flags,)) + len(part).to_bytes(3, "big") + part

    def reset(self, stream: int, status: int = 3) -> None:
        """Give a stream up; 3 is "refused", 5 "cancel"."""
        self._frame(_Type.RST_STREAM, 0, stream.to_bytes(4, "big") + status.to_bytes(4, "big"))

    def close(self) -> None:
        """Tell the peer to open no more streams."""
        self._frame(_Type.GOAWAY, 0, self._last.to_bytes(4, "big") + bytes(4))

    def _frame(self, kind: _Type, flags: int, body: bytes) -> None:
        self._out += bytes((0x80, _VERSION)) + kind.to_bytes(2, "big") + bytes((flags,)) + len(body).to_bytes(3, "big")
        self._out += body

    def _control(self, head: bytes, flags: int, body: bytes) -> Event | None:
        if head[0] != 0x80 or head[1] != _VERSION:
            raise SpdyError(f"the peer speaks version {int.from_bytes(head[:2], 'big') & 0x7FFF}, expected {_VERSION}")
        match int.from_bytes(head[2:], "big"):
            case _Type.SYN_STREAM:
                return self._opened(flags, body)
            case _Type.RST_STREAM:
                return self._reset(body)
            case _Type.PING:
                self._ping(body)
            case _Type.GOAWAY:
                return Closed()
            case _:  # frames without an effect, and frames of an unknown type (section 2.2.1)
                pass
        return None

    def _data(self, head: bytes, flags: int, body: bytes) -> Event:
        return Data(int.from_bytes(head, "big"), body, bool(flags & _FIN))

    def _opened(self, flags: int, body: bytes) -> Event:
        if len(body) < 10:
            raise SpdyError("SYN_STREAM is too short")
        stream = int.from_bytes(body[:4], "big") & 0x7FFFFFFF
        try:
            headers = self._reader.read(body[10:])
        except ValueError as problem:
            raise SpdyError(str(problem)) from None
        self._last = max(self._last, stream)
        return Opened(stream, headers, bool(flags & _FIN))

    def _reset(self, body: bytes) -> Event:
        if len(body) < 8:
            raise SpdyError("RST_STREAM is too short")
        return Reset(int.from_bytes(body[:4], "big") & 0x7FFFFFFF)

    def _ping(self, body: bytes) -> None:
        # Odd numbers are the client's pings; even ones answer ours, and we send none.
        if len(body) >= 4 and body[3] & 1:
            self._frame(_Type.PING, 0, body[:4])
