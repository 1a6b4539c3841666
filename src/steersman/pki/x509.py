"""Creates and parses X.509 certificates and their keys (P-256) with `cryptography`, whose import is slow.

`authority` imports this module for the first certificate; no other module of the package may import it earlier.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Window", "authority", "load", "new_key", "private_pem", "public_pem", "sign", "subject", "to_pem"]

Window: TypeAlias = tuple[datetime, datetime]
"""The start and end of a certificate's validity."""

# Certificates start in the past, to allow for small differences of clocks.
_BACKDATE = timedelta(minutes=5)


def authority(
    common_name: str, lifetime: timedelta, window: Window | None = None
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Create a self-signed authority and its key; valid in `window`, or from about now for `lifetime`."""
    key = new_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    now = datetime.now(UTC)
    start, end = window or (now - 12 * _BACKDATE, now + lifetime)
    cert = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return cert, key


def load(cert_pem: bytes, key_pem: bytes) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Load a stored authority. Raises ValueError if it has no P-256 key or no certificate."""
    key = serialization.load_pem_private_key(key_pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority's key is not an elliptic curve key")
    return x509.load_pem_x509_certificate(cert_pem), key


def sign(
    issuer: x509.Certificate,
    issuer_key: ec.EllipticCurvePrivateKey,
    common_name: str,
    groups: tuple[str, ...],
    hosts: Iterable[str] | None,
    valid_for: timedelta,
    *,
    client: bool,
    window: Window | None = None,
) -> tuple[bytes, bytes]:
    """Create a certificate with a new key, both PEM: for serving on `hosts` (unless `None`), and for a `client`.

    It is valid in `window`, or from about now for `valid_for`.
    """
    names = None if hosts is None else x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    key = new_key()
    now = datetime.now(UTC)
    start, end = window or (min(now, now + valid_for) - _BACKDATE, now + valid_for)
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH] if client else []
    if names is not None:
        usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(subject))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if names is not None:
        builder = builder.add_extension(names, critical=False)
    return to_pem(builder.sign(issuer_key, hashes.SHA256())), private_pem(key)


def subject(der: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the common name of a certificate's subject ("" if it has none) and its organisations.

    Raises ValueError if it is not a certificate.
    """
    found = x509.load_der_x509_certificate(der).subject
    names = found.get_attributes_for_oid(NameOID.COMMON_NAME)
    groups = found.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return _text(names[0].value) if names else "", tuple(_text(item.value) for item in groups)


def new_key() -> ec.EllipticCurvePrivateKey:
    """Create a private key on P-256."""
    return ec.generate_private_key(ec.SECP256R1())


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Encode a private key as PEM in the format that every Kubernetes component reads (SEC 1)."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def public_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Encode the public key as PEM."""
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="replace")


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def to_pem(cert: x509.Certificate) -> bytes:
    """Encode a certificate as PEM."""
    return cert.public_bytes(serialization.Encoding.PEM)
