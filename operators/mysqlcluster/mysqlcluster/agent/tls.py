"""TLS contexts of the processes of a cluster, from the directory of a mounted Secret, which may change."""

from __future__ import annotations

import hashlib
import ssl
from pathlib import Path

__all__ = ["Certificates", "certificate_revision"]

FILES = ("ca.crt", "tls.crt")
"""The files whose content identifies the certificates in use."""


def certificate_revision(authority: bytes, certificate: bytes) -> str:
    """Return a short hash of the trusted authorities and the certificate."""
    return hashlib.sha256(authority + certificate).hexdigest()[:12]


class Certificates:
    """The contexts for serving and for requests to other members; both `None` without a directory."""

    def __init__(self, directory: str) -> None:
        """Load the contexts.

        Args:
            directory: The directory with `tls.crt`, `tls.key` and `ca.crt`; empty without TLS.

        Raises:
            OSError: A file is missing or malformed.
        """
        self._directory = Path(directory) if directory else None
        self.server: ssl.SSLContext | None = None
        """Remains the same object; new connections use the certificate of the last `reload`."""
        self.client: ssl.SSLContext | None = None
        """A new object after each change."""
        self.revision = ""
        """The revision that the contexts have; empty without TLS."""
        self.reload()

    def on_disk(self) -> str:
        """Return the revision of the files; raises `OSError`."""
        if self._directory is None:
            return ""
        return certificate_revision(*((self._directory / name).read_bytes() for name in FILES))

    def reload(self) -> bool:
        """Load the files if they have changed; return whether they have.

        Raises:
            OSError: A file is missing or malformed; the contexts have not changed.
        """
        found = self.on_disk()
        if self._directory is None or found == self.revision:
            return False
        client = ssl.create_default_context(cafile=str(self._directory / "ca.crt"))
        server = self.server or ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(self._directory / "tls.crt", self._directory / "tls.key")
        self.server, self.client, self.revision = server, client, found
        return True
