"""The certificates of a test control plane: short-lived authorities, files, signing keys.

Every control plane has new ones, in its temporary directory. They are made like those of the embedded cluster, with
another lifetime, and as files for the components.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from steersman.pki import Authority, KeyPair, write_private

__all__ = ["authority", "signing_keys", "write_pair"]

_LIFETIME = timedelta(days=7)


def authority(common_name: str) -> Authority:
    """A self-signed authority for one control plane."""
    return Authority.create(common_name, lifetime=_LIFETIME)


def write_pair(pair: KeyPair, directory: Path, name: str) -> tuple[Path, Path]:
    """Write `<name>.crt` and `<name>.key` (0600) and return their paths."""
    cert, key = directory / f"{name}.crt", directory / f"{name}.key"
    return write_private(cert, pair.cert_pem), write_private(key, pair.key_pem)


def signing_keys() -> tuple[bytes, bytes]:
    """Create the key pair that signs ServiceAccount tokens: (private PEM, public PEM)."""
    from steersman.pki import x509

    key = x509.new_key()
    return x509.private_pem(key), x509.public_pem(key)
