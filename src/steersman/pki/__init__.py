"""Certificates: an authority, what it signs, and the files that hold keys.

The embedded cluster, the test control plane and the webhook server make their certificates here. Nothing here listens,
and nothing here decides whom to trust.
"""

from steersman.pki.authority import Authority, KeyPair, b64
from steersman.pki.files import as_file, write_private

__all__ = ["Authority", "KeyPair", "as_file", "b64", "write_private"]
