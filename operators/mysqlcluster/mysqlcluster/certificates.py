"""The certificate authority and the certificate that the servers and agents of one cluster share."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from steersman import Key

from mysqlcluster.names import archiver, primary_service, replicas_service

__all__ = ["VALIDITY", "certificate_data"]

VALIDITY = timedelta(days=3650)
_CLOCK_SKEW = timedelta(minutes=5)


def certificate_data(key: Key, now: datetime) -> Mapping[str, bytes]:
    """Return the content of a Secret of type kubernetes.io/tls, with `ca.crt`, for a cluster's names.

    Args:
        key: namespace and name of the cluster.
        now: the time from which the certificates are valid.
    """
    authority_key = ec.generate_private_key(ec.SECP256R1())
    server_key = ec.generate_private_key(ec.SECP256R1())
    issuer = _name(f"{key.name} authority")
    authority = (
        _builder(issuer, issuer, authority_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in dns_names(key)])
    usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    authority_identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    server = (
        _builder(_name(key.name), issuer, server_key.public_key(), now)
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


def dns_names(key: Key) -> tuple[str, ...]:
    """Return the names that clients, members and the operator use."""
    services = (primary_service(key.name), replicas_service(key.name), archiver(key.name))
    suffixes = (key.namespace, f"{key.namespace}.svc", f"{key.namespace}.svc.cluster.local")
    members = [f"*.{key.name}", *(f"*.{key.name}.{suffix}" for suffix in suffixes)]
    reached = [name for service in services for name in (service, *(f"{service}.{suffix}" for suffix in suffixes))]
    return (*members, *reached, "localhost")


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
