"""A certificate authority and the pairs of certificate and key that it signs.

Keys are P-256, because an embedded cluster starts in milliseconds; an authority is made when its first certificate is,
because a cluster that listens nowhere needs none. Private keys never reach a repr or a log.
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
    """A certificate authority; signs what servers show and what their clients show."""

    def __init__(
        self, make: Callable[[], tuple[Certificate, EllipticCurvePrivateKey]], lifetime: timedelta = _LIFETIME
    ) -> None:
        self._make = make
        self._lifetime = lifetime

    @classmethod
    def create(
        cls, common_name: str = "kubernetes", *, lifetime: timedelta = _LIFETIME, window: Window | None = None
    ) -> Self:
        """A new self-signed authority; `lifetime` holds for what it signs, too, and counts from the first use.

        `window` says for the authority's own certificate from when until when it is valid.
        """

        def make() -> tuple[Certificate, EllipticCurvePrivateKey]:
            from steersman.pki import x509

            return x509.authority(common_name, lifetime, window)

        return cls(make, lifetime)

    @classmethod
    def load(cls, pair: KeyPair) -> Self:
        """Take up an authority that was kept; raises ValueError where `pair` holds no P-256 key or no certificate."""
        from steersman.pki import x509

        made = x509.load(pair.cert_pem, pair.key_pem)
        return cls(lambda: made)

    @cached_property
    def _made(self) -> tuple[Certificate, EllipticCurvePrivateKey]:
        return self._make()

    @cached_property
    def cert_pem(self) -> bytes:
        """The authority's own certificate: what clients trust."""
        from steersman.pki import x509

        return x509.to_pem(self._made[0])

    @property
    def pair(self) -> KeyPair:
        """The authority's own certificate and key, to be kept."""
        from steersman.pki import x509

        return KeyPair(self.cert_pem, x509.private_pem(self._made[1]))

    def serving(
        self, common_name: str, hosts: Iterable[str], *, client: bool = False, window: Window | None = None
    ) -> KeyPair:
        """Sign a certificate that is good for serving on `hosts` (names or addresses), and as a `client` if wanted.

        It is valid in `window`, or from about now for the authority's lifetime.
        """
        return self._sign(common_name, (), hosts, self._lifetime, client=client, window=window)

    def client(self, user: str, groups: Iterable[str] = (), *, valid_for: timedelta | None = None) -> KeyPair:
        """Sign a certificate that makes its owner `user` in `groups`; a negative `valid_for` makes it expired."""
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
    """Standard base64, as kubeconfigs and `caBundle` have it."""
    return base64.b64encode(data).decode()
