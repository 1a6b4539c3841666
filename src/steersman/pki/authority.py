"""A certificate authority, and the certificates with keys that it signs.

Keys are P-256, because an embedded cluster must start in milliseconds. An authority is created with its first
certificate, because a cluster without a port needs none. Private keys are never part of a repr or a log.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate

    from steersman.pki.x509 import Window

__all__ = ["Authority", "KeyPair", "b64"]

_LIFETIME = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    cert_pem: bytes
    key_pem: bytes = field(repr=False)


class Authority:
    """A certificate authority that signs the certificates of servers and clients."""

    def __init__(
        self, make: Callable[[], tuple[Certificate, EllipticCurvePrivateKey]], lifetime: timedelta = _LIFETIME
    ) -> None:
        self._make = make
        self._lifetime = lifetime

    @classmethod
    def create(
        cls, common_name: str = "kubernetes", *, lifetime: timedelta = _LIFETIME, window: Window | None = None
    ) -> Self:
        """Create a self-signed authority; `lifetime` also applies to its certificates, and starts at the first use.

        `window` is the validity of the authority's own certificate.
        """

        def make() -> tuple[Certificate, EllipticCurvePrivateKey]:
            from steersman.pki import x509

            return x509.authority(common_name, lifetime, window)

        return cls(make, lifetime)

    @classmethod
    def load(cls, pair: KeyPair) -> Self:
        """Load a stored authority. Raises ValueError if `pair` has no P-256 key or no certificate."""
        from steersman.pki import x509

        made = x509.load(pair.cert_pem, pair.key_pem)
        return cls(lambda: made)

    @cached_property
    def _made(self) -> tuple[Certificate, EllipticCurvePrivateKey]:
        return self._make()

    @cached_property
    def cert_pem(self) -> bytes:
        """The authority's own certificate, which clients trust."""
        from steersman.pki import x509

        return x509.to_pem(self._made[0])

    @property
    def pair(self) -> KeyPair:
        """The authority's own certificate and key, for storage."""
        from steersman.pki import x509

        return KeyPair(self.cert_pem, x509.private_pem(self._made[1]))

    def serving(
        self, common_name: str, hosts: Iterable[str], *, client: bool = False, window: Window | None = None
    ) -> KeyPair:
        """Sign a serving certificate for `hosts` (names or addresses), with `client` also a client certificate.

        It is valid in `window`, or from about now for the authority's lifetime.
        """
        return self._sign(common_name, (), hosts, self._lifetime, client=client, window=window)

    def client(self, user: str, groups: Iterable[str] = (), *, valid_for: timedelta | None = None) -> KeyPair:
        """Sign a client certificate for `user` in `groups`; with a negative `valid_for` it is expired."""
        return self._sign(user, tuple(groups), None, self._lifetime if valid_for is None else valid_for, client=True)

    def _sign(
        self,
        common_name: str,
        groups: tuple[str, ...],
        hosts: Iterable[str] | None,
        valid_for: timedelta,
        *,
        client: bool,
        window: Window | None = None,
    ) -> KeyPair:
        from steersman.pki import x509

        return KeyPair(*x509.sign(*self._made, common_name, groups, hosts, valid_for, client=client, window=window))


def b64(data: bytes) -> str:
    """Encode as standard base64, for kubeconfigs and `caBundle`."""
    return base64.b64encode(data).decode()
