"""Reads certificates: their validity, their hosts, and their signature.

It checks signatures but makes no decisions about trust. `cryptography` is imported when the first certificate is read,
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

__all__ = ["Facts", "describe", "fingerprint", "key_matches", "signed_by", "split"]


@dataclass(frozen=True, slots=True)
class Facts:
    """The fingerprint, the validity and the hosts (DNS names and addresses) of a certificate."""

    fingerprint: str
    not_before: datetime
    not_after: datetime
    hosts: frozenset[str]


def describe(pem: bytes) -> Facts:
    """Return the facts of the first certificate in `pem`. Raises ValueError if there is none."""
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
    """Return the SHA-256 of the first certificate in `pem`, in hex. Raises ValueError if there is none."""
    from cryptography import x509

    return _digest(x509.load_pem_x509_certificate(pem))


def split(bundle: bytes) -> list[bytes]:
    """Return the certificates of a bundle, each as canonical PEM; empty for an empty bundle.

    Raises ValueError if there is no certificate or an invalid one.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    if not bundle.strip():
        return []
    return [cert.public_bytes(serialization.Encoding.PEM) for cert in x509.load_pem_x509_certificates(bundle)]


def signed_by(cert_pem: bytes, issuer_pem: bytes) -> bool:
    """Return whether the authority's key signed the certificate; the validity is not checked."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    cert, issuer = x509.load_pem_x509_certificate(cert_pem), x509.load_pem_x509_certificate(issuer_pem)
    try:
        cert.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def key_matches(pair: KeyPair) -> bool:
    """Return whether the private key belongs to the certificate. Raises ValueError if one of them is invalid."""
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
