"""What an embedded cluster reads in certificates and says in its own.

A certificate says who a client is by its subject: the common name is the user, the organisations are its groups.
"""

from __future__ import annotations

import hashlib

from steersman_cluster.strategy import User

__all__ = ["SERVING_HOSTS", "certificate_user"]

SERVING_HOSTS = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
    "10.0.0.1",
)
"""The names and addresses that an API server is asked by; `10.0.0.1` is the Service `kubernetes`."""


def certificate_user(der: bytes) -> User | None:
    """Who a client certificate says its owner is; `None` where it has no common name.

    The certificate must have been verified before: TLS does that. Raises ValueError for what is no certificate.
    """
    from steersman.pki import x509

    name, groups = x509.subject(der)
    if not name:
        return None
    credential = f"X509SHA256={hashlib.sha256(der).hexdigest()}"
    return User(
        name,
        groups=(*groups, "system:authenticated"),
        extra={"authentication.kubernetes.io/credential-id": (credential,)},
    )
