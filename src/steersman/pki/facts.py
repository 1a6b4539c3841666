"""Reads what certificates say: until when they are valid, for which hosts, who signed them.

It checks signatures and makes no decision about trust. `cryptography` is imported when the first certificate is read,
because an operator without webhooks reads none.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from steersman.pki.authority import KeyPair

if TYPE_CHECKING:
    from cryptography import x509

__all__ = ["Facts", "belongs", "describe", "fingerprint", "signed_by", "split"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a certificate says of itself; `hosts` are its DNS names and addresses."""

    fingerprint: str
    not_before: datetime
    not_after: datetime
    hosts: frozenset[str]


def describe(pem: bytes) -> Facts:
    """The facts of the first certificate in `pem`; raises ValueError where there is none."""
    from cryptography import x509

    cert = x509.load_pem_x509_certificate(pem)
    hosts: set[str] = set()
    try:
        names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts.update(names.get_values_for_type(x509.DNSName))
        hosts.update(str(address) for address in names.get_values_for_type(x509.IPAddress))
    except x509.ExtensionNotFound:
        pass
    return Facts(_digest(cert), cert.not_valid_before_utc, cert.not_valid_after_utc, frozenset(hosts))


def fingerprint(pem: bytes) -> str:
    """The SHA-256 of the first certificate in `pem`, in hex; raises ValueError where there is none."""
    from cryptography import x509

    return _digest(x509.load_pem_x509_certificate(pem))


def split(bundle: bytes) -> list[bytes]:
    """The certificates of a bundle, each as PEM in one canonical form; empty for an empty bundle.

    Raises ValueError for what holds no certificate or a broken one.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    if not bundle.strip():
        return []
    return [cert.public_bytes(serialization.Encoding.PEM) for cert in x509.load_pem_x509_certificates(bundle)]


def signed_by(cert_pem: bytes, issuer_pem: bytes) -> bool:
    """Whether the certificate was signed by that authority's key; says nothing about dates."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    cert, issuer = x509.load_pem_x509_certificate(cert_pem), x509.load_pem_x509_certificate(issuer_pem)
    try:
        cert.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def belongs(pair: KeyPair) -> bool:
    """Whether the private key is that of the certificate; raises ValueError where one of them cannot be read."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    try:
        key = serialization.load_pem_private_key(pair.key_pem, None)
    except TypeError as problem:  # an encrypted key
        raise ValueError(str(problem)) from None
    return key.public_key() == x509.load_pem_x509_certificate(pair.cert_pem).public_key()


def _digest(cert: x509.Certificate) -> str:
    from cryptography.hazmat.primitives import serialization

    return hashlib.sha256(cert.public_bytes(serialization.Encoding.DER)).hexdigest()
