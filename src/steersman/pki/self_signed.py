"""A self-signed certificate for a server whose clients do not verify it, such as the scraper of metrics."""

from __future__ import annotations

import socket
from datetime import datetime, timedelta

__all__ = ["self_signed"]


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
