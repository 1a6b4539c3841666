"""Certificates: an authority, the certificates that it signs, and files with private keys.

The embedded cluster, the test control plane and the webhook server create their certificates with it. It opens no
sockets and makes no decisions about trust.
"""

from steersman.pki.authority import Authority, KeyPair, b64
from steersman.pki.files import as_file, write_private

__all__ = ["Authority", "KeyPair", "as_file", "b64", "write_private"]
