"""The passwords of a cluster's accounts, generated if the user provides no Secret."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping

__all__ = [
    "FORMER_TOKEN",
    "KEYS",
    "NEXT_TOKEN",
    "PASSWORDS",
    "TOKEN",
    "TOKEN_BYTES",
    "accepted_tokens",
    "generated",
    "generated_passwords",
    "missing_keys",
    "revision",
    "token_revision",
]

PASSWORDS = (
    "root-password",
    "replication-password",
    "application-password",
    "backup-password",
    "exporter-password",
)
"""Keys of the passwords of accounts."""
TOKEN = "agent-token"
"""Key of the token that the operator, the agents and the archiver send to each other."""
NEXT_TOKEN = "agent-token-next"
FORMER_TOKEN = "agent-token-former"
"""Keys of further accepted tokens, which a Secret has during a rotation."""
KEYS = (TOKEN, *PASSWORDS)
"""Keys of the Secret. `application-user` and `application-database` may be added; both are `app` by default."""
TOKEN_BYTES = 24
"""Random bytes of a password and of a token."""


def generated() -> Mapping[str, bytes]:
    """Return a new password for every account."""
    return {key: secrets.token_urlsafe(TOKEN_BYTES).encode() for key in KEYS}


def generated_passwords() -> Mapping[str, bytes]:
    """Return a new password for every account, without the token of the agents."""
    return {key: value for key, value in generated().items() if key in PASSWORDS}


def missing_keys(data: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the keys that a Secret of the user lacks."""
    return tuple(key for key in KEYS if not data.get(key))


def revision(data: Mapping[str, bytes]) -> str:
    """Return a short hash of all passwords, which changes when a password changes."""
    return _digest(data, PASSWORDS)


def accepted_tokens(data: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the tokens that an agent and an archiver accept."""
    return tuple(data[key].decode() for key in (TOKEN, NEXT_TOKEN, FORMER_TOKEN) if data.get(key))


def token_revision(data: Mapping[str, bytes]) -> str:
    """Return a short hash of the sent token and of the other accepted ones."""
    return _digest(data, (TOKEN, NEXT_TOKEN, FORMER_TOKEN))


def _digest(data: Mapping[str, bytes], keys: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for key in keys:
        value = data.get(key, b"")
        digest.update(len(value).to_bytes(4) + value)
    return digest.hexdigest()[:12]
