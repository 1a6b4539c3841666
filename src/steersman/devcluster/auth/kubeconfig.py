"""Writes the kubeconfigs that an embedded cluster hands out; it never reads one.

Files hold keys or tokens: they are readable by their owner only, from their first moment, and replaced as a whole.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

from steersman.devcluster.auth.certificates import KeyPair

__all__ = ["kubeconfig", "write_kubeconfig", "write_private"]


def kubeconfig(
    server: str,
    ca_pem: bytes,
    credential: KeyPair | str,
    *,
    name: str = "steersman",
    user: str = "admin",
    namespace: str = "default",
) -> dict[str, Any]:
    """A kubeconfig with one cluster, one user and one context. `credential`: a certificate, or a bearer token."""
    if isinstance(credential, str):
        shown: dict[str, Any] = {"token": credential}
    else:
        shown = {
            "client-certificate-data": _b64(credential.cert_pem),
            "client-key-data": _b64(credential.key_pem),
        }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": _b64(ca_pem)}}],
        "users": [{"name": user, "user": shown}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user, "namespace": namespace}}],
        "current-context": name,
    }


def write_kubeconfig(path: Path, document: dict[str, Any]) -> Path:
    """Write a kubeconfig, mode 0600; an older file is replaced in one step, never seen half-written."""
    # JSON is YAML; every client reads it.
    return write_private(path, json.dumps(document, indent=2).encode() + b"\n")


def write_private(path: Path, data: bytes) -> Path:
    """Write `data` to a file that only its owner can read; makes the directory where it is missing (0700).

    Raises OSError where the place cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
