"""All of one API server's identity and authorisation, put together: what the API server asks, and its documents."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from steersman.pki import Authority
from steersman_cluster.auth.attributes import Attributes
from steersman_cluster.auth.authentication import Authenticator, Headers
from steersman_cluster.auth.impersonation import Impersonation, is_impersonating
from steersman_cluster.auth.jwt import SigningKey
from steersman_cluster.auth.rbac import Authorizer
from steersman_cluster.auth.reviews import Handler, Review
from steersman_cluster.auth.token_requests import TokenRequests
from steersman_cluster.auth.tokens import ISSUER, TokenIssuer
from steersman_cluster.objects import Object
from steersman_cluster.strategy import Reader, User

__all__ = ["Auth"]


class Auth:
    """Authentication and authorization of one API server, and its documents about them.

    Args:
        authority: Signs certificates; a new one by default.
        key: Signs tokens; a new one by default.
        static: Users by bearer token.
        now: Returns the time in seconds since the epoch.
    """

    def __init__(
        self,
        reader: Reader,
        *,
        authority: Authority | None = None,
        key: SigningKey | None = None,
        static: Mapping[str, User] | None = None,
        issuer: str = ISSUER,
        anonymous: bool = True,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.authority = authority or Authority.create()
        self.tokens = TokenIssuer(key or SigningKey(), reader, issuer=issuer, now=now)
        self.authenticator = Authenticator(self.tokens, static, anonymous=anonymous)
        self.authorizer = Authorizer(reader)
        self._impersonation = Impersonation(self.authorizer)
        self.reviews: dict[tuple[str, str], Handler] = Review(self.authenticator, self.authorizer).handlers()
        """Handlers of POST by (group, resource)."""
        self.token_request: Handler = TokenRequests(self.tokens).create
        """Handler of POST to the sub-resource `token` of serviceaccounts."""

    def identify(self, headers: Headers, attributes: Attributes, peer: bytes | User | None = None) -> tuple[User, User]:
        """Return the sender and the effective user of a request; they differ with impersonation.

        Raises:
            APIError: A credential is invalid (401), or the impersonation is incomplete (400) or not allowed (403).
        """
        user = self.authenticator.authenticate(headers, peer)
        if not is_impersonating(headers):
            return user, user
        return user, self._impersonation.resolve(user, headers, attributes)

    def authorize(self, user: User, attributes: Attributes) -> None:
        """Raise the 403 of the API server if the user is not allowed to send the request."""
        self.authorizer.check(user, attributes)

    def changed(self, group: str, resource: str, namespace: str, name: str) -> None:
        """Handle the write or deletion of an object; cheap for other kinds."""
        if group == "rbac.authorization.k8s.io":
            self.authorizer.changed(resource, namespace, name)

    def openid_configuration(self, server: str) -> Object:
        """`/.well-known/openid-configuration`; `server` is the API server's address, `https://…`."""
        return {
            "issuer": self.tokens.issuer,
            "jwks_uri": f"{server.rstrip('/')}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }

    def key_set(self) -> Object:
        """`/openid/v1/jwks`, served as `application/jwk-set+json`."""
        return self.tokens.key.key_set()
