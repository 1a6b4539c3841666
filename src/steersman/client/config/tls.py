"""Checks of certificate authorities, client certificates and keys before a connection is opened.

Errors name the file and the field here, instead of an OpenSSL error during a handshake. No error has key material.
OpenSSL parses certificates when it uses them; `cryptography` would take a quarter of the memory of an idle operator.
"""

from __future__ import annotations

import re
import ssl
from datetime import datetime
from typing import Final

from steersman.client.config.base import ClientCertificate, TlsConfig
from steersman.client.config.errors import ConfigError
from steersman.client.config.x509_dates import not_after
from steersman.pki.files import as_file
from steersman.telemetry.clock import Now, utc_now

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_PRIVATE_KEY = re.compile(rb"-----BEGIN (?P<kind>(?:[A-Z]+ )*PRIVATE KEY)-----.+?-----END (?P=kind)-----", re.DOTALL)


_ANOTHER_KEY: Final = {"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"}
"""The reasons of OpenSSL for a key that does not belong to the certificate."""


def _certificates(pem: bytes) -> list[bytes]:
    """Return the DER bytes of all certificates in `pem`. Raises ValueError if there is none or one is invalid."""
    found: list[bytes] = []
    for block in _CERTIFICATE.findall(pem):
        der = ssl.PEM_cert_to_DER_cert(block.decode("ascii"))
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=der)
        except ssl.SSLError:
            raise ValueError("not a certificate") from None
        found.append(der)
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

    for der in _certificates(pem):
        certificate = x509.load_der_x509_certificate(der)
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
    found = ClientCertificate(b"\n".join(_CERTIFICATE.findall(cert_pem)) + b"\n", block[0] + b"\n")
    try:
        _load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), found)
    except ssl.SSLError as error:
        if error.reason in _ANOTHER_KEY:
            hint = "use the certificate and the key of the same user"
            problem = f"the private key does not belong to the certificate in {cert_field}"
            raise fail(problem, key_field, hint) from None
        raise fail("not a usable private key", key_field, "use an RSA, ECDSA or Ed25519 key in PEM") from None
    end = not_after(leaf)
    if end <= now():
        expired = end.strftime("%Y-%m-%dT%H:%M:%SZ")
        raise fail(f"the client certificate expired at {expired}", cert_field, "obtain a new one")
    return found


def expires_at(certificate: ClientCertificate) -> datetime:
    """Return the end of the leaf certificate's validity."""
    return not_after(_certificates(certificate.cert_pem)[0])


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
        _load(context, certificate)
    return context


def _load(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    with as_file(certificate.cert_pem + certificate.key_pem) as path:
        context.load_cert_chain(path, password=_no_password)


def _no_password() -> str:
    """Return no password; without this callback OpenSSL would prompt on the terminal."""
    return ""
