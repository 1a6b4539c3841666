"""TLS of one client connection without I/O: received records in and plain text out, and the reverse.

asyncio implements TLS in Python, and uvloop raises an exception at the end of each read; for small requests this is
the largest part of their cost. Here each response needs one call of OpenSSL. The context verifies the certificate
chain and the host name as usual.
"""

from __future__ import annotations

import ssl
from typing import Final

__all__ = ["TlsClosedError", "TlsLayer"]

_MAX_RECORD_BYTES: Final = 1 << 14
"""The longest plain text of one record (RFC 8446 section 5.1), and thus of one read."""


class TlsClosedError(Exception):
    """The server closed the connection with close_notify; `data` is the plain text before it."""

    def __init__(self, data: bytes) -> None:
        super().__init__("close_notify")
        self.data = data


class TlsLayer:
    """The client's end of one TLS connection. Call `handshake` until it returns True, then `decrypt` and `encrypt`.

    After each call, `to_send` may return records that must be sent. All methods raise `ssl.SSLError` for invalid data;
    the connection is lost then, but `to_send` may return an alert for the server.
    """

    __slots__ = ("_incoming", "_read", "_tls", "_write", "handshake_done", "outgoing")

    def __init__(self, context: ssl.SSLContext, server_hostname: str) -> None:
        self._incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        """Records that `to_send` returns."""
        self._tls = context.wrap_bio(self._incoming, self.outgoing, server_hostname=server_hostname)
        self._read = self._tls.read
        self._write = self._tls.write
        self.handshake_done = False

    def handshake(self, data: bytes | memoryview = b"") -> bool:
        """Continue the handshake with received data; return whether it is complete."""
        if data:
            self._incoming.write(data)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.handshake_done = True
        return True

    @property
    def protocol(self) -> str | None:
        """The protocol that ALPN selected, or None."""
        return self._tls.selected_alpn_protocol()

    def decrypt(self, data: bytes | memoryview) -> bytes:
        """Return the plain text of the records that `data` completes; empty if it completes none.

        Raises:
            TlsClosedError: The server sent close_notify.
            ssl.SSLError: The data is not valid.
        """
        incoming = self._incoming
        incoming.write(data)
        parts: list[bytes] = []
        try:
            while incoming.pending:  # a read takes a whole record, so nothing stays inside the TLS object
                parts.append(self._read(_MAX_RECORD_BYTES))
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            raise TlsClosedError(b"".join(parts)) from None
        if parts and not parts[-1]:  # an empty read after data means close_notify
            raise TlsClosedError(b"".join(parts))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def encrypt(self, data: bytes) -> bytes:
        """Return the records for `data`, and other records that wait to be sent."""
        self._write(data)
        return self.outgoing.read()

    def to_send(self) -> bytes:
        """Return records that TLS itself must send: of the handshake, key updates, alerts."""
        return self.outgoing.read() if self.outgoing.pending else b""
