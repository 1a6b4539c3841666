"""The certificates of an embedded cluster: its authority, its serving certificate, its clients' certificates.

Made afresh for each cluster and worth nothing elsewhere. Keys are P-256, because a cluster starts in milliseconds.
A certificate says who a client is by its subject: the common name is the user, the organisations are its groups.
Private keys never reach a repr or a log.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from steersman.devcluster.strategy import User

__all__ = ["SERVING_HOSTS", "Authority", "KeyPair", "certificate_user", "new_key", "private_pem", "public_pem"]

SERVING_HOSTS = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
    "10.96.0.1",
)
"""The names and addresses that an API server is asked by; `10.96.0.1` is the Service `kubernetes`."""

_LIFETIME = timedelta(days=3650)
# Certificates start in the past, so that clocks that differ a little do not matter.
_BACKDATE = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    cert_pem: bytes
    key_pem: bytes = field(repr=False)


class Authority:
    """A certificate authority; signs what one cluster serves with and what its clients show."""

    def __init__(self, cert: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._cert = cert
        self._key = key
        self.cert_pem = _cert_pem(cert)

    @classmethod
    def create(cls, common_name: str = "kubernetes") -> Self:
        """Make a self-signed authority, good for ten years."""
        key = new_key()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        now = datetime.now(UTC)
        cert = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 12 * _BACKDATE)
            .not_valid_after(now + _LIFETIME)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(cert, key)

    @classmethod
    def load(cls, pair: KeyPair) -> Self:
        """Take up an authority that was kept; raises ValueError where `pair` holds no P-256 key or no certificate."""
        key = serialization.load_pem_private_key(pair.key_pem, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the authority's key is no elliptic curve key")
        return cls(x509.load_pem_x509_certificate(pair.cert_pem), key)

    @property
    def pair(self) -> KeyPair:
        """The authority's own certificate and key, to be kept."""
        return KeyPair(self.cert_pem, private_pem(self._key))

    def serving(self, common_name: str = "kube-apiserver", hosts: Iterable[str] = SERVING_HOSTS) -> KeyPair:
        """Sign a certificate that is good for serving on `hosts` (names or addresses)."""
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        return self._sign(common_name, (), names, _LIFETIME)

    def client(self, user: str, groups: Iterable[str] = (), *, valid_for: timedelta = _LIFETIME) -> KeyPair:
        """Sign a certificate that makes its owner `user` in `groups`."""
        return self._sign(user, tuple(groups), None, valid_for)

    def _sign(
        self,
        common_name: str,
        groups: tuple[str, ...],
        names: x509.SubjectAlternativeName | None,
        valid_for: timedelta,
    ) -> KeyPair:
        key = new_key()
        now = datetime.now(UTC)
        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
        usage = ExtendedKeyUsageOID.CLIENT_AUTH if names is None else ExtendedKeyUsageOID.SERVER_AUTH
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name(subject))
            .issuer_name(self._cert.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now, now + valid_for) - _BACKDATE)
            .not_valid_after(now + valid_for)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return KeyPair(_cert_pem(builder.sign(self._key, hashes.SHA256())), private_pem(key))


def certificate_user(der: bytes) -> User | None:
    """Who a client certificate says its owner is; `None` where it has no common name.

    The certificate must have been verified before: TLS does that. Raises ValueError for what is no certificate.
    """
    subject = x509.load_der_x509_certificate(der).subject
    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if not names or not names[0].value:
        return None
    groups = [_text(item.value) for item in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    credential = f"X509SHA256={hashlib.sha256(der).hexdigest()}"
    return User(
        _text(names[0].value),
        groups=(*groups, "system:authenticated"),
        extra={"authentication.kubernetes.io/credential-id": (credential,)},
    )


def new_key() -> ec.EllipticCurvePrivateKey:
    """A new private key on P-256."""
    return ec.generate_private_key(ec.SECP256R1())


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key in the form that every Kubernetes component reads (SEC 1)."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def public_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The public half of a key, as PEM."""
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def b64(data: bytes) -> str:
    """Standard base64, as kubeconfigs and `caBundle` have it."""
    return base64.b64encode(data).decode()


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


def _cert_pem(cert: x509.Certificate) -> bytes:
    return cert.public_bytes(serialization.Encoding.PEM)
