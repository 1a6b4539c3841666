"""TLS over blocking sockets, for the few places that have no event loop."""

from __future__ import annotations

import errno
import ssl

__all__ = ["ClosingSocket"]


class ClosingSocket(ssl.SSLSocket):
    """A TLS socket that is closed where the peer had reset the connection before it was wrapped.

    CPython's own forgets it there, open, until it is collected. For connected sockets only; give it to a context as its
    `sslsocket_class`.
    """

    def getpeername(self) -> object:
        """The peer's address; raises OSError, and closes the socket, where there is no peer any more."""
        try:
            return super().getpeername()
        except OSError as error:
            self.close()
            raise ConnectionResetError(errno.ECONNRESET, "the peer closed the connection") from error
