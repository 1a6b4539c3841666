"""Writes the kubeconfigs that an embedded cluster hands out; it never reads one.

Files hold keys or tokens: they are readable by their owner only, from their first moment, and replaced as a whole.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from steersman.pki import KeyPair, b64, write_private

__all__ = ["kubeconfig", "write_kubeconfig"]


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
            "client-certificate-data": b64(credential.cert_pem),
            "client-key-data": b64(credential.key_pem),
        }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": b64(ca_pem)}}],
        "users": [{"name": user, "user": shown}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user, "namespace": namespace}}],
        "current-context": name,
    }


def write_kubeconfig(path: Path, document: dict[str, Any]) -> Path:
    """Write a kubeconfig, mode 0600; an older file is replaced in one step, never seen half-written."""
    # JSON is YAML; every client reads it.
    return write_private(path, json.dumps(document, indent=2).encode() + b"\n")
