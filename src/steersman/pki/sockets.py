"""TLS over blocking sockets, for code without an event loop."""

from __future__ import annotations

import errno
import ssl

__all__ = ["ClosingSocket"]


class ClosingSocket(ssl.SSLSocket):
    """A TLS socket that is closed if the peer had reset the connection before the socket was wrapped.

    CPython's class leaves such a socket open until it is garbage-collected. For connected sockets only; set it as
    `sslsocket_class` of a context.
    """

    def getpeername(self) -> object:
        """Return the peer's address. Closes the socket and raises OSError if the connection has ended."""
        try:
            return super().getpeername()
        except OSError as error:
            self.close()
            raise ConnectionResetError(errno.ECONNRESET, "the peer closed the connection") from error
