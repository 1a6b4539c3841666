"""Certificates and kubeconfig files that tests write to a temporary directory."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NOW = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)


class Pki:
    """Makes self-signed certificates; every call gives a new key."""

    def pair(self, name: str = "jane", *, days: int = 3650) -> tuple[bytes, bytes]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        until = dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
        cert = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(until - dt.timedelta(days=7300))
            .not_valid_after(until)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return cert.public_bytes(serialization.Encoding.PEM), pem


@pytest.fixture(scope="session")
def pki() -> Pki:
    return Pki()


@pytest.fixture(scope="session")
def pair(pki: Pki) -> tuple[bytes, bytes]:
    return pki.pair()


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Callable[..., Path]:
    """Write a kubeconfig of one cluster, user and context; `cluster` and `user` add fields."""

    def write(
        *,
        user: Any = None,
        cluster: Any = None,
        context: dict[str, Any] | None = None,
        file: str = "config",
        **top: Any,
    ) -> Path:
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": "https://kube.test:6443"} | (cluster or {})}],
            "users": [{"name": "u", "user": {} if user is None else user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"} | (context or {})}],
            "current-context": "x",
        } | top
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))  # JSON is YAML
        return path

    return write


@pytest.fixture(scope="session")
def b64() -> Callable[[bytes], str]:
    return lambda data: base64.b64encode(data).decode()
