"""Authentication by client certificate, static token or ServiceAccount token, or as `system:anonymous`.

An invalid credential ends the request with 401. Only a request without credentials is anonymous.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from steersman_cluster.auth.certificates import certificate_user
from steersman_cluster.auth.jwt import InvalidTokenError
from steersman_cluster.auth.tokens import TokenIssuer, VerifiedToken
from steersman_cluster.errors import APIError, unauthorized
from steersman_cluster.strategy import User

__all__ = ["ANONYMOUS", "Authenticator", "Headers"]

ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))

_MAX_CACHED_CERTIFICATES = 1024


class Headers(Protocol):
    """The headers of a request; names in any case. A `multidict.CIMultiDict` is one."""

    def get(self, key: str, /) -> str | None:
        """Return the value of a header, or `None`."""
        ...

    def items(self) -> Iterable[tuple[str, str]]:
        """Return all names and values."""
        ...


class Authenticator:
    """Determines the user of a request.

    Args:
        static: Users by bearer token.
        anonymous: Whether requests without credentials are served as `system:anonymous`.
    """

    def __init__(
        self, tokens: TokenIssuer, static: Mapping[str, User] | None = None, *, anonymous: bool = True
    ) -> None:
        self.tokens = tokens
        self._anonymous = anonymous
        self._static: dict[str, User] = {}
        self._certificates: dict[bytes, User | None] = {}
        for token, user in (static or {}).items():
            self.add_token(token, user)

    def add_token(self, token: str, user: User) -> None:
        """Accept a bearer token for a user; adds the group `system:authenticated`."""
        groups = user.groups if "system:authenticated" in user.groups else (*user.groups, "system:authenticated")
        self._static[token] = User(user.name, user.uid, groups, user.extra)

    def authenticate(self, headers: Headers, peer: bytes | User | None = None) -> User:
        """Return the user of a request.

        Args:
            headers: The headers of the request.
            peer: The verified client certificate (DER), or the user if it is known already.

        Raises:
            APIError: A credential is invalid (401).
        """
        if isinstance(peer, User):
            return peer
        if peer is not None and (user := self._certified(peer)) is not None:
            return user
        scheme, _, token = (headers.get("Authorization") or "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            if not self._anonymous:
                raise unauthorized()
            return ANONYMOUS
        try:
            return self.authenticate_token(token).user
        except (InvalidTokenError, APIError):
            raise unauthorized() from None

    def authenticate_token(self, token: str, audiences: Iterable[str] = ()) -> VerifiedToken:
        """Return the user of a bearer token. Raises `InvalidTokenError` or `APIError` for an invalid token."""
        wanted = tuple(audiences) or self.tokens.audiences
        if (user := self._static.get(token)) is not None:
            common = tuple(item for item in wanted if item in self.tokens.audiences)
            return VerifiedToken(user, common)
        return self.tokens.verify(token, wanted)

    def _certified(self, der: bytes) -> User | None:
        if der not in self._certificates:
            if len(self._certificates) >= _MAX_CACHED_CERTIFICATES:
                self._certificates.clear()
            self._certificates[der] = certificate_user(der)
        return self._certificates[der]
