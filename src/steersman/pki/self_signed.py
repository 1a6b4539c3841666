"""A self-signed certificate for a server whose clients do not verify it, such as the scraper of metrics.

An operator makes it in a short process of its own: `cryptography` would stay in the memory of the operator, of which it
would be a quarter, for one certificate.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta

__all__ = ["self_signed", "self_signed_elsewhere"]

_SECONDS = 30.0


def self_signed_elsewhere() -> bytes:
    """Return a self-signed certificate and its key in one PEM text, made by another process.

    It blocks until that process has ended. The key passes a pipe. Where no process can be started, this process makes
    the certificate.
    """
    try:
        made = subprocess.run(  # noqa: S603 - this interpreter and this module
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        ).stdout
    except (OSError, ValueError, subprocess.SubprocessError):
        made = b""
    return made if made.endswith(b"-----\n") else b"".join(self_signed(datetime.now(UTC)))


def self_signed(now: datetime) -> tuple[bytes, bytes]:
    """Return a certificate for localhost and this host, valid for a year, and its key; both PEM."""
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "steersman-metrics")])
    names = [
        x509.DNSName("localhost"),
        x509.DNSName(socket.gethostname()[:253]),
        x509.IPAddress(ip_address("127.0.0.1")),
    ]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=365))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(pem), private


if __name__ == "__main__":
    sys.stdout.buffer.write(b"".join(self_signed(datetime.now(UTC))))
