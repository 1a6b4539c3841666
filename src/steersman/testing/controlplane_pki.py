"""The certificates of a test control plane: authorities, serving and client certificates, signing keys.

Everything is made afresh for each control plane, lives only in its temporary directory, is valid for a few
days at most and is worth nothing elsewhere. Keys are P-256, because a control plane starts with a dozen of
them and RSA would cost seconds. Private keys are written 0600 and never logged.
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = timedelta(days=7)
# Certificates start in the past, so that clocks that differ a little do not matter.
_BACKDATE = timedelta(minutes=5)


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    cert_pem: bytes
    key_pem: bytes = field(repr=False)

    def write(self, directory: Path, name: str) -> tuple[Path, Path]:
        """Write `<name>.crt` and `<name>.key` (0600) and return their paths."""
        cert, key = directory / f"{name}.crt", directory / f"{name}.key"
        write_private(cert, self.cert_pem)
        write_private(key, self.key_pem)
        return cert, key


@dataclass(frozen=True)
class Authority:
    """A certificate authority that signs the certificates of one control plane."""

    pair: KeyPair
    _cert: x509.Certificate = field(repr=False)
    _key: ec.EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def create(cls, common_name: str) -> Self:
        """Make a self-signed authority."""
        key = ec.generate_private_key(ec.SECP256R1())
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
        return cls(KeyPair(_cert_pem(cert), _key_pem(key)), cert, key)

    def serving(self, common_name: str, *, hosts: tuple[str, ...]) -> KeyPair:
        """Sign a certificate that is good for serving on `hosts` (names or addresses), and as a client."""
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        return self._sign(common_name, (), _LIFETIME, names)

    def client(self, common_name: str, *, groups: tuple[str, ...] = (), valid_for: timedelta = _LIFETIME) -> KeyPair:
        """Sign a client certificate for the user `common_name`; a negative `valid_for` makes it expired."""
        return self._sign(common_name, groups, valid_for, None)

    def _sign(
        self,
        common_name: str,
        groups: tuple[str, ...],
        valid_for: timedelta,
        names: x509.SubjectAlternativeName | None,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if names is not None:
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
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
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return KeyPair(_cert_pem(builder.sign(self._key, hashes.SHA256())), _key_pem(key))


def signing_keys() -> tuple[bytes, bytes]:
    """Make the key pair that signs ServiceAccount tokens: (private PEM, public PEM)."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return _key_pem(key), public


def write_private(path: Path, data: bytes) -> Path:
    """Write `data` to a file that nobody else can read, not even for a moment; replaces what was there."""
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    return path


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


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # SEC 1 ("EC PRIVATE KEY"): the one form that kube-apiserver accepts for signing and all else reads too.
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
