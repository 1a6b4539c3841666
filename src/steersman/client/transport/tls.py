"""TLS of one client connection as a function of bytes: what arrived becomes what it says, what is said becomes records.

Event loops do TLS themselves, asyncio's in Python, uvloop's with an exception for each answer that is read to its end;
for small requests that is the largest part of what they cost. Here each answer is one call of OpenSSL's. No I/O is done
here, and no check is weaker: the context verifies the chain and the name as it does everywhere.
"""

from __future__ import annotations

import ssl
from typing import Final

__all__ = ["TlsClosedError", "TlsLayer"]

_MOST: Final = 1 << 14
"""What one record holds at most (RFC 8446 §5.1), and so one read; asking for more only costs memory."""


class TlsClosedError(Exception):
    """The server has said, properly, that nothing more will come; `data` is what came before."""

    def __init__(self, data: bytes) -> None:
        super().__init__("close_notify")
        self.data = data


class TlsLayer:
    """The client's end of one connection: `shake` until it is true, then `opened` and `sealed`.

    After each call, `to_send` may hold records that must go out. All methods raise `ssl.SSLError` for what is no TLS
    or not what it should be; the connection is lost then, but `to_send` may hold the alert that says so.
    """

    __slots__ = ("_incoming", "_read", "_tls", "_write", "outgoing", "shaken")

    def __init__(self, context: ssl.SSLContext, server_hostname: str) -> None:
        self._incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        """Where records wait for `to_send`."""
        self._tls = context.wrap_bio(self._incoming, self.outgoing, server_hostname=server_hostname)
        self._read = self._tls.read
        self._write = self._tls.write
        self.shaken = False

    def shake(self, data: bytes | memoryview = b"") -> bool:
        """Take the handshake as far as `data` allows; whether it is complete."""
        if data:
            self._incoming.write(data)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.shaken = True
        return True

    @property
    def protocol(self) -> str | None:
        """What ALPN has chosen; `None` where the server chose nothing."""
        return self._tls.selected_alpn_protocol()

    def opened(self, data: bytes | memoryview) -> bytes:
        """The plain text that `data` completes; empty where it completes none.

        Raises `TlsClosedError` at the proper end.
        """
        incoming = self._incoming
        incoming.write(data)
        parts: list[bytes] = []
        try:
            while incoming.pending:  # a read takes all of a record, so that nothing is left inside
                parts.append(self._read(_MOST))
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            raise TlsClosedError(b"".join(parts)) from None
        if parts and not parts[-1]:  # a read that finds close_notify after data says so by nothing at all
            raise TlsClosedError(b"".join(parts))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def sealed(self, data: bytes) -> bytes:
        """The records that carry `data`, and whatever else waits to go out."""
        self._write(data)
        return self.outgoing.read()

    def to_send(self) -> bytes:
        """Records that must go out of themselves: of the handshake, answers to key updates, alerts."""
        return self.outgoing.read() if self.outgoing.pending else b""
