"""Writes the kubeconfigs of a test control plane."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from steersman.pki import KeyPair, b64, write_private


def certificate_user(pair: KeyPair) -> dict[str, Any]:
    """Return a kubeconfig user with a client certificate."""
    return {"client-certificate-data": b64(pair.cert_pem), "client-key-data": b64(pair.key_pem)}


def token_user(token: str) -> dict[str, Any]:
    """Return a kubeconfig user with a bearer token."""
    return {"token": token}


def cluster_at(server: str, ca_pem: bytes) -> dict[str, Any]:
    """Return a kubeconfig cluster that is verified against the given authority."""
    return {"server": server, "certificate-authority-data": b64(ca_pem)}


def write_kubeconfig(
    path: Path, *, cluster: dict[str, Any], user: dict[str, Any], name: str, namespace: str = "default"
) -> Path:
    """Write a kubeconfig with one cluster, one user and one context, readable by its owner only."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": "test", "user": name, "namespace": namespace}}],
        "current-context": name,
    }
    # The file is JSON, which is YAML.
    return write_private(path, json.dumps(document, indent=2).encode())
