"""TLS contexts of the processes of a cluster, from the directory of a mounted Secret."""

from __future__ import annotations

import ssl
from pathlib import Path

__all__ = ["contexts_of"]


def contexts_of(tls_directory: str) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """Return the TLS contexts for serving and for requests to other members; both `None` without a directory.

    Raises:
        OSError: `tls.crt`, `tls.key` or `ca.crt` is missing or malformed.
    """
    if not tls_directory:
        return None, None
    directory = Path(tls_directory)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(directory / "tls.crt", directory / "tls.key")
    return server, ssl.create_default_context(cafile=str(directory / "ca.crt"))
