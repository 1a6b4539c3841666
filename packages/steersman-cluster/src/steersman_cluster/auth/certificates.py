"""Users in client certificates, and the subjects of the certificates of the cluster.

The subject identifies a client: the common name is the user, the organizations are the groups.
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
    """Return the user of a verified client certificate; `None` without a common name.

    Raises:
        ValueError: The bytes are not a certificate.
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
