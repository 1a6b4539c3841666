"""ServiceAccount tokens: making them, and finding out whether one still is good.

A token is good while its ServiceAccount, and the Pod, Secret or Node that it is bound to, exist with the same uid;
this is looked up at each use, so that a deletion takes effect at once (a minute after it began, as on a real server).
Follows the API server's `pkg/serviceaccount`.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from steersman_cluster.auth.jwt import InvalidTokenError, SigningKey, unverified
from steersman_cluster.errors import not_found
from steersman_cluster.json_access import get_object
from steersman_cluster.objects import Object, meta, name_of, namespace_of, uid_of
from steersman_cluster.strategy import Reader, User

__all__ = ["ISSUER", "TokenIssuer", "VerifiedToken", "account_groups", "account_name", "split_account"]

ISSUER = "https://kubernetes.default.svc.cluster.local"
_LEGACY_ISSUER = "kubernetes/serviceaccount"
_LEEWAY = 60.0
_MAX_CACHED_TOKENS = 4096
_PREFIX = "system:serviceaccount:"


def account_name(namespace: str, name: str) -> str:
    """The user name of a ServiceAccount."""
    return f"{_PREFIX}{namespace}:{name}"


def account_groups(namespace: str) -> tuple[str, str]:
    """The groups of every ServiceAccount in a namespace."""
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def split_account(user: str) -> tuple[str, str] | None:
    """Namespace and name of the ServiceAccount with that user name; `None` where it is no ServiceAccount's."""
    namespace, colon, name = user.removeprefix(_PREFIX).partition(":")
    if not user.startswith(_PREFIX) or not colon or not namespace or not name or ":" in name:
        return None
    return namespace, name


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """The user and the audiences of a verified token."""

    user: User
    audiences: tuple[str, ...]


class TokenIssuer:
    """Signs the tokens of ServiceAccounts and verifies them against the stored objects.

    Not thread-safe: it belongs to the event loop of the API server.

    Args:
        now: Returns the time in seconds since the epoch.
    """

    def __init__(
        self,
        key: SigningKey,
        reader: Reader,
        *,
        issuer: str = ISSUER,
        audiences: Sequence[str] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        self.issuer = issuer
        self.audiences = tuple(audiences) or (issuer,)
        self.key = key
        self._reader = reader
        self._now = now
        self._verified: dict[str, Object] = {}

    def bound(
        self,
        account: Object,
        *,
        seconds: int,
        audiences: Sequence[str] = (),
        pod: Object | None = None,
        secret: Object | None = None,
        node: Object | None = None,
        warn_after: int = 0,
    ) -> str:
        """A token for a ServiceAccount that ends after `seconds`, and with the object it is bound to."""
        return self.issue(
            account, seconds=seconds, audiences=audiences, pod=pod, secret=secret, node=node, warn_after=warn_after
        )[0]

    def issue(
        self,
        account: Object,
        *,
        seconds: int,
        audiences: Sequence[str] = (),
        pod: Object | None = None,
        secret: Object | None = None,
        node: Object | None = None,
        warn_after: int = 0,
    ) -> tuple[str, str]:
        """The claims of `bound` and the token's id, which the audit log records."""
        now = int(self._now())
        private: Object = {"namespace": namespace_of(account), "serviceaccount": _reference(account)}
        for name, owner in (("pod", pod), ("secret", secret), ("node", node)):
            if owner is not None:
                private[name] = _reference(owner)
        if warn_after:
            private["warnafter"] = now + warn_after
        claims: Object = {
            "iss": self.issuer,
            "sub": account_name(namespace_of(account), name_of(account)),
            "aud": list(audiences or self.audiences),
            "iat": now,
            "nbf": now,
            "exp": now + seconds,
            "jti": str(uuid4()),
            "kubernetes.io": private,
        }
        return self.key.sign(claims), claims["jti"]

    def legacy(self, account: Object, secret: Object) -> str:
        """A token without end for a Secret of type `kubernetes.io/service-account-token`; it ends with the Secret."""
        namespace, prefix = namespace_of(account), "kubernetes.io/serviceaccount"
        return self.key.sign(
            {
                "iss": _LEGACY_ISSUER,
                "sub": account_name(namespace, name_of(account)),
                f"{prefix}/namespace": namespace,
                f"{prefix}/secret.name": name_of(secret),
                f"{prefix}/service-account.name": name_of(account),
                f"{prefix}/service-account.uid": uid_of(account),
            }
        )

    def is_service_account_token(self, token: str) -> bool:
        """Return whether a text claims to be a ServiceAccount's token; nothing is verified."""
        claims = unverified(token)
        return claims is not None and claims.get("iss") in (self.issuer, _LEGACY_ISSUER)

    def verify(self, token: str, audiences: Sequence[str] = ()) -> VerifiedToken:
        """Return the user of a token. Raises `InvalidTokenError`, or a 404 `APIError` without its ServiceAccount.

        `audiences` are those that the token should be for, at least one of them; by default the API server's.
        """
        claims = self._verified.get(token)
        if claims is None:
            claims = self.key.verify(token)
            if len(self._verified) >= _MAX_CACHED_TOKENS:
                self._verified.clear()
            self._verified[token] = claims
        wanted = tuple(audiences) or self.audiences
        if claims.get("iss") == _LEGACY_ISSUER:
            return VerifiedToken(self._legacy_user(claims, token), _common(wanted, self.audiences))
        if claims.get("iss") != self.issuer:
            raise InvalidTokenError("the token is of another issuer")
        meant = claims.get("aud") or ()
        matching = _common(wanted, (meant,) if isinstance(meant, str) else meant)
        if not matching:
            raise InvalidTokenError(
                f"token audiences {_go_slice(meant)} is invalid for the target audiences {_go_slice(wanted)}"
            )
        return VerifiedToken(self._bound_user(claims), matching)

    def _bound_user(self, claims: Object) -> User:
        now = self._now()
        if now - _LEEWAY > claims.get("exp", 0):
            raise InvalidTokenError("service account token has expired")
        if now + _LEEWAY < claims.get("nbf", 0):
            raise InvalidTokenError("service account token is not valid yet")
        private = get_object(claims, "kubernetes.io")
        namespace = private.get("namespace") or ""
        account = self._account(namespace, get_object(private, "serviceaccount"))
        extra: dict[str, tuple[str, ...]] = {}
        prefix = "authentication.kubernetes.io"
        if identity := claims.get("jti"):
            extra[f"{prefix}/credential-id"] = (f"JTI={identity}",)
        if secret := get_object(private, "secret"):
            self._owner(
                "secrets", namespace, secret, "secret UID ({}) does not match service account secret ref claim ({})"
            )
        node = get_object(private, "node")
        if pod := get_object(private, "pod"):
            self._owner("pods", namespace, pod, "pod UID ({}) does not match service account pod ref claim ({})")
            extra[f"{prefix}/pod-name"] = (pod["name"],)
            extra[f"{prefix}/pod-uid"] = (pod["uid"],)
        elif node:
            self._owner("nodes", "", node, "node UID ({}) does not match service account node ref claim ({})")
        if node:
            extra[f"{prefix}/node-name"] = (node["name"],)
            if node.get("uid"):
                extra[f"{prefix}/node-uid"] = (node["uid"],)
        return _user(account, extra)

    def _legacy_user(self, claims: Object, token: str) -> User:
        prefix = "kubernetes.io/serviceaccount"
        namespace = claims.get(f"{prefix}/namespace") or ""
        secret = self._reader.get("", "secrets", namespace, claims.get(f"{prefix}/secret.name") or "")
        if secret is None or self._is_gone(secret) or _secret_token(secret) != token:
            raise InvalidTokenError("service account token has been invalidated")
        reference = {
            "name": claims.get(f"{prefix}/service-account.name") or "",
            "uid": claims.get(f"{prefix}/service-account.uid") or "",
        }
        return _user(self._account(namespace, reference), {})

    def _account(self, namespace: str, reference: Object) -> Object:
        name = reference.get("name") or ""
        account = self._reader.get("", "serviceaccounts", namespace, name)
        if account is None:
            raise not_found("", "serviceaccounts", name)
        if uid_of(account) != reference.get("uid"):
            text = f"service account UID ({uid_of(account)}) does not match claim ({reference.get('uid') or ''})"
            raise InvalidTokenError(text)
        if self._is_gone(account):
            raise InvalidTokenError(f"service account {namespace}/{name} has been deleted")
        return account

    def _owner(self, resource: str, namespace: str, reference: Object, differs: str) -> None:
        found = self._reader.get("", resource, namespace, reference.get("name") or "")
        if found is None:
            raise InvalidTokenError("service account token has been invalidated")
        if uid_of(found) != reference.get("uid"):
            raise InvalidTokenError(differs.format(uid_of(found), reference.get("uid") or ""))
        if self._is_gone(found):
            raise InvalidTokenError("service account token has been invalidated")

    def _is_gone(self, obj: Object) -> bool:
        deleted = meta(obj).get("deletionTimestamp")
        return bool(deleted) and datetime.fromisoformat(deleted).timestamp() < self._now() - _LEEWAY


def _reference(obj: Object) -> Object:
    uid = uid_of(obj)
    return {"name": name_of(obj), "uid": uid} if uid else {"name": name_of(obj)}


def _user(account: Object, extra: dict[str, tuple[str, ...]]) -> User:
    namespace = namespace_of(account)
    groups = (*account_groups(namespace), "system:authenticated")
    return User(account_name(namespace, name_of(account)), uid_of(account), groups, extra)


def _secret_token(secret: Object) -> str:
    try:
        return base64.b64decode(get_object(secret, "data").get("token") or "").decode()
    except ValueError:
        return ""


def _common(wanted: Sequence[str], offered: Sequence[str]) -> tuple[str, ...]:
    return tuple(audience for audience in wanted if audience in offered)


def _go_slice(values: Sequence[str]) -> str:
    return f"[{' '.join(json.dumps(value) for value in values)}]"
