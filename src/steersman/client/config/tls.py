"""PEM in and out: checking certificate authorities, client certificates and keys before anything connects.

Mistakes surface here, with the file and the field, rather than as an OpenSSL error in the middle of a handshake.
Never logs or returns key material in an error.
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
    """All certificates in `pem`; raises ValueError when there is none or one is broken."""
    from cryptography import x509  # 20 ms: only programs that use certificates pay for it

    found = [x509.load_pem_x509_certificate(block) for block in _CERTIFICATE.findall(pem)]
    if not found:
        raise ValueError("no certificate")
    return found


def check_ca(pem: bytes, *, source: str = "", entry: str = "", field: str = "certificate-authority") -> bytes:
    """The CA bundle as it was given. Raises `ConfigError` when it holds no certificate or a broken one."""
    try:
        _certificates(pem)
    except ValueError:
        raise ConfigError(
            "not a PEM certificate bundle",
            source=source,
            entry=entry,
            field=field,
            hint="it must hold '-----BEGIN CERTIFICATE-----' blocks",
        ) from None
    return pem


def holds_leaf_certificate(pem: bytes) -> bool:
    """Whether a bundle holds a certificate that is not a certificate authority's, such as a server's own."""
    from cryptography import x509

    for certificate in _certificates(pem):
        try:
            constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        except x509.ExtensionNotFound:
            continue  # version 1 certificates have no extensions, and are authorities as often as not
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
    """A certificate and key that belong together and are not expired.

    Either PEM may hold other blocks too (kubelets keep both in one file). Raises `ConfigError` for broken PEM, an
    encrypted key, a key of another certificate, and an expired certificate.
    """
    from cryptography.hazmat.primitives import serialization

    def fail(problem: str, field: str, hint: str) -> ConfigError:
        return ConfigError(problem, source=source, entry=entry, field=field, hint=hint)

    try:
        leaf = _certificates(cert_pem)[0]
    except ValueError:
        hint = "it must hold '-----BEGIN CERTIFICATE-----' blocks"
        raise fail("not a PEM certificate", cert_field, hint) from None
    block = _PRIVATE_KEY.search(key_pem)
    if block is None:
        raise fail("not a PEM private key", key_field, "it must hold a '-----BEGIN … PRIVATE KEY-----' block")
    if b"ENCRYPTED" in block[0]:
        raise fail("the private key is encrypted", key_field, "decrypt it, e.g. with openssl pkey")
    try:
        key = serialization.load_pem_private_key(block[0], password=None)
        same = leaf.public_key() == key.public_key()
    except Exception:  # noqa: BLE001 - whatever the library raises could quote the key
        raise fail("not a usable private key", key_field, "use an RSA, ECDSA or Ed25519 key in PEM") from None
    if not same:
        hint = "give the certificate and the key of the same user"
        raise fail(f"the private key does not belong to the certificate in {cert_field}", key_field, hint)
    if leaf.not_valid_after_utc <= now():
        expired = leaf.not_valid_after_utc.strftime("%Y-%m-%dT%H:%M:%SZ")
        raise fail(f"the client certificate expired at {expired}", cert_field, "obtain a new one")
    return ClientCertificate(b"\n".join(_CERTIFICATE.findall(cert_pem)) + b"\n", block[0] + b"\n")


def expires_at(certificate: ClientCertificate) -> datetime:
    """When the leaf certificate stops being valid."""
    return _certificates(certificate.cert_pem)[0].not_valid_after_utc


def ssl_context(tls: TlsConfig, certificate: ClientCertificate | None = None) -> ssl.SSLContext:
    """A client context for `tls`: TLS 1.2 or newer, verified unless `tls.insecure`. `server_name` is the caller's.

    Blocks for some 5 ms (the system's trust store, when `ca_pem` is None): build it once per certificate.
    """
    ca = tls.ca_pem.decode("ascii", "ignore") if tls.ca_pem is not None else None
    context = ssl.create_default_context(cadata=ca)
    # Go accepts the cluster CAs (no key identifiers) that Python 3.13's stricter default refuses.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # Go takes every certificate of `certificate-authority` as a trust anchor, the server's own included.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        from steersman.pki import as_file  # only programs that use certificates pay for it

        with as_file(certificate.cert_pem + certificate.key_pem) as path:
            context.load_cert_chain(path)
    return context
