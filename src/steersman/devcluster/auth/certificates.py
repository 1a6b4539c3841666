"""The certificates of an embedded cluster: its authority, its serving certificate, its clients' certificates.

Made afresh for each cluster and worth nothing elsewhere. Keys are P-256, because a cluster starts in milliseconds; the
authority is made when its first certificate is, because a cluster that listens nowhere needs none.
A certificate says who a client is by its subject: the common name is the user, the organisations are its groups.
Private keys never reach a repr or a log.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Self

from steersman.devcluster.strategy import User

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate

__all__ = ["SERVING_HOSTS", "Authority", "KeyPair", "b64", "certificate_user"]

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

_LIFETIME = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    cert_pem: bytes
    key_pem: bytes = field(repr=False)


class Authority:
    """A certificate authority; signs what one cluster serves with and what its clients show."""

    def __init__(self, make: Callable[[], tuple[Certificate, EllipticCurvePrivateKey]]) -> None:
        self._make = make

    @classmethod
    def create(cls, common_name: str = "kubernetes") -> Self:
        """A new self-signed authority, good for ten years from its first use."""

        def make() -> tuple[Certificate, EllipticCurvePrivateKey]:
            from steersman.devcluster.auth import x509

            return x509.authority(common_name, _LIFETIME)

        return cls(make)

    @classmethod
    def load(cls, pair: KeyPair) -> Self:
        """Take up an authority that was kept; raises ValueError where `pair` holds no P-256 key or no certificate."""
        from steersman.devcluster.auth import x509

        made = x509.load(pair.cert_pem, pair.key_pem)
        return cls(lambda: made)

    @cached_property
    def _made(self) -> tuple[Certificate, EllipticCurvePrivateKey]:
        return self._make()

    @cached_property
    def cert_pem(self) -> bytes:
        """The authority's own certificate: what clients trust."""
        from steersman.devcluster.auth import x509

        return x509.to_pem(self._made[0])

    @property
    def pair(self) -> KeyPair:
        """The authority's own certificate and key, to be kept."""
        from steersman.devcluster.auth import x509

        return KeyPair(self.cert_pem, x509.private_pem(self._made[1]))

    def serving(self, common_name: str = "kube-apiserver", hosts: Iterable[str] = SERVING_HOSTS) -> KeyPair:
        """Sign a certificate that is good for serving on `hosts` (names or addresses)."""
        return self._sign(common_name, (), hosts, _LIFETIME)

    def client(self, user: str, groups: Iterable[str] = (), *, valid_for: timedelta = _LIFETIME) -> KeyPair:
        """Sign a certificate that makes its owner `user` in `groups`."""
        return self._sign(user, tuple(groups), None, valid_for)

    def _sign(
        self, common_name: str, groups: tuple[str, ...], hosts: Iterable[str] | None, valid_for: timedelta
    ) -> KeyPair:
        from steersman.devcluster.auth import x509

        return KeyPair(*x509.sign(*self._made, common_name, groups, hosts, valid_for))


def certificate_user(der: bytes) -> User | None:
    """Who a client certificate says its owner is; `None` where it has no common name.

    The certificate must have been verified before: TLS does that. Raises ValueError for what is no certificate.
    """
    from steersman.devcluster.auth import x509

    return x509.certificate_user(der)


def b64(data: bytes) -> str:
    """Standard base64, as kubeconfigs and `caBundle` have it."""
    return base64.b64encode(data).decode()
