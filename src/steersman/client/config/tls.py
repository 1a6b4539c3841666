"""Checks of certificate authorities, client certificates and keys before a connection is opened.

Errors name the file and the field here, instead of an OpenSSL error during a handshake. No error has key material.
"""

from __future__ import annotations

import re
import ssl
from datetime import datetime
from typing import TYPE_CHECKING

from steersman.client.config.base import ClientCertificate, TlsConfig
from steersman.client.config.errors import ConfigError
from steersman.telemetry.clock import Now, utc_now

if TYPE_CHECKING:
    from cryptography import x509

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_PRIVATE_KEY = re.compile(rb"-----BEGIN (?P<kind>(?:[A-Z]+ )*PRIVATE KEY)-----.+?-----END (?P=kind)-----", re.DOTALL)


def _certificates(pem: bytes) -> list[x509.Certificate]:
    """Parse all certificates in `pem`. Raises ValueError if there is none or one is invalid."""
    from cryptography import x509  # the import takes 20 ms, so it is done on demand

    found = [x509.load_pem_x509_certificate(block) for block in _CERTIFICATE.findall(pem)]
    if not found:
        raise ValueError("no certificate")
    return found


def check_ca(pem: bytes, *, source: str = "", entry: str = "", field: str = "certificate-authority") -> bytes:
    """Return the CA bundle unchanged. Raises `ConfigError` if it has no certificate or an invalid one."""
    try:
        _certificates(pem)
    except ValueError:
        raise ConfigError(
            "not a PEM certificate bundle",
            source=source,
            entry=entry,
            field=field,
            hint="it must have '-----BEGIN CERTIFICATE-----' blocks",
        ) from None
    return pem


def holds_leaf_certificate(pem: bytes) -> bool:
    """Return whether a bundle has a certificate that is not a certificate authority, such as a server certificate."""
    from cryptography import x509

    for certificate in _certificates(pem):
        try:
            constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        except x509.ExtensionNotFound:
            continue  # version 1 certificates have no extensions and may be certificate authorities
        if not constraints.ca:
            return True
    return False


def check_client_certificate(
    cert_pem: bytes,
    key_pem: bytes,
    *,
    source: str = "",
    entry: str = "",
    cert_field: str = "client-certificate",
    key_field: str = "client-key",
    now: Now = utc_now,
) -> ClientCertificate:
    """Return a client certificate after checks of certificate and key.

    Either PEM may have other blocks too (kubelets keep both in one file). Raises `ConfigError` for invalid PEM, an
    encrypted key, a key that does not match, and an expired certificate.
    """
    from cryptography.hazmat.primitives import serialization

    def fail(problem: str, field: str, hint: str) -> ConfigError:
        return ConfigError(problem, source=source, entry=entry, field=field, hint=hint)

    try:
        leaf = _certificates(cert_pem)[0]
    except ValueError:
        hint = "it must have '-----BEGIN CERTIFICATE-----' blocks"
        raise fail("not a PEM certificate", cert_field, hint) from None
    block = _PRIVATE_KEY.search(key_pem)
    if block is None:
        raise fail("not a PEM private key", key_field, "it must have a '-----BEGIN … PRIVATE KEY-----' block")
    if b"ENCRYPTED" in block[0]:
        raise fail("the private key is encrypted", key_field, "decrypt it, e.g. with openssl pkey")
    try:
        key = serialization.load_pem_private_key(block[0], password=None)
        same = leaf.public_key() == key.public_key()
    except Exception:  # noqa: BLE001 - the message of the exception could quote the key
        raise fail("not a usable private key", key_field, "use an RSA, ECDSA or Ed25519 key in PEM") from None
    if not same:
        hint = "use the certificate and the key of the same user"
        raise fail(f"the private key does not belong to the certificate in {cert_field}", key_field, hint)
    if leaf.not_valid_after_utc <= now():
        expired = leaf.not_valid_after_utc.strftime("%Y-%m-%dT%H:%M:%SZ")
        raise fail(f"the client certificate expired at {expired}", cert_field, "obtain a new one")
    return ClientCertificate(b"\n".join(_CERTIFICATE.findall(cert_pem)) + b"\n", block[0] + b"\n")


def expires_at(certificate: ClientCertificate) -> datetime:
    """Return the end of the leaf certificate's validity."""
    return _certificates(certificate.cert_pem)[0].not_valid_after_utc


def ssl_context(tls: TlsConfig, certificate: ClientCertificate | None = None) -> ssl.SSLContext:
    """Return a client context for `tls`: TLS 1.2 or newer, verified unless `tls.insecure`. It ignores `server_name`.

    It blocks for about 5 ms (the system's trust store, if `ca_pem` is None): build it once per certificate.
    """
    ca = tls.ca_pem.decode("ascii", "ignore") if tls.ca_pem is not None else None
    context = ssl.create_default_context(cadata=ca)
    # Go accepts the cluster CAs (no key identifiers) that Python 3.13's stricter default refuses.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # Go accepts every certificate of `certificate-authority` as a trust anchor, also a server certificate.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        from steersman.pki import as_file  # imported on demand

        with as_file(certificate.cert_pem + certificate.key_pem) as path:
            context.load_cert_chain(path)
    return context
