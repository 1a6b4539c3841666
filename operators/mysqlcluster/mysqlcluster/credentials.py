"""The passwords of a cluster's accounts, generated if the user provides no Secret."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping

__all__ = ["KEYS", "PASSWORDS", "generated", "generated_passwords", "missing_keys", "revision"]

PASSWORDS = (
    "root-password",
    "replication-password",
    "application-password",
    "backup-password",
    "exporter-password",
)
"""Keys of the passwords of accounts."""
KEYS = ("agent-token", *PASSWORDS)
"""Keys of the Secret. `application-user` and `application-database` may be added; both are `app` by default."""
_BYTES = 24


def generated() -> Mapping[str, bytes]:
    """Return a new password for every account."""
    return {key: secrets.token_urlsafe(_BYTES).encode() for key in KEYS}


def generated_passwords() -> Mapping[str, bytes]:
    """Return a new password for every account, without the token of the agents."""
    return {key: value for key, value in generated().items() if key in PASSWORDS}


def missing_keys(data: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the keys that a Secret of the user lacks."""
    return tuple(key for key in KEYS if not data.get(key))


def revision(data: Mapping[str, bytes]) -> str:
    """Return a short hash of all passwords, which changes when a password changes."""
    digest = hashlib.sha256()
    for key in KEYS:
        value = data.get(key, b"")
        digest.update(len(value).to_bytes(4) + value)
    return digest.hexdigest()[:12]
