"""The certificate authority and the certificate that the servers and agents of one cluster share.

The operator runs this file as a program: it imports `cryptography`, which would stay in the operator's memory. So it
imports nothing of this package, whose import takes longer than the program.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["VALIDITY", "certificate_data"]

VALIDITY = timedelta(days=3650)
_CLOCK_SKEW = timedelta(minutes=5)


def certificate_data(name: str, hosts: Sequence[str], now: datetime) -> Mapping[str, bytes]:
    """Return the content of a Secret of type kubernetes.io/tls, with `ca.crt`.

    Args:
        name: The name of the cluster.
        hosts: The DNS names of its servers; see `names.dns_names`.
        now: The time from which the certificates are valid.
    """
    authority_key = ec.generate_private_key(ec.SECP256R1())
    server_key = ec.generate_private_key(ec.SECP256R1())
    issuer = _name(f"{name} authority")
    authority = (
        _builder(issuer, issuer, authority_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    alternatives = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
    usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    authority_identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    server = (
        _builder(_name(name), issuer, server_key.public_key(), now)
        .add_extension(alternatives, critical=False)
        .add_extension(usages, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(authority_identifier, critical=False)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    return {
        "ca.crt": authority.public_bytes(serialization.Encoding.PEM),
        "tls.crt": server.public_bytes(serialization.Encoding.PEM),
        "tls.key": server_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    }


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + VALIDITY)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


if __name__ == "__main__":
    arguments = msgspec.json.decode(sys.stdin.buffer.read(), type=tuple[str, tuple[str, ...], datetime])
    sys.stdout.buffer.write(msgspec.json.encode(certificate_data(*arguments)))
