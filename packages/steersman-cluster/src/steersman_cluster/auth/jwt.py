"""Signed tokens (RFC 7519, ES256) and the key set that verifies them (RFC 7517), through PyJWT.

The API server has one signing key. PyJWT signs and verifies; `from_json` reads the claims, because it limits their
depth, and `tokens` checks them against the stored objects. No error and no log line contains a token.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from steersman_cluster.objects import Object, from_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec
    from jwt import PyJWS

__all__ = ["InvalidTokenError", "SigningKey", "unverified"]

_ALGORITHM: Final = "ES256"
_COMPACT: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
"""The compact form; PyJWT ignores other characters, which would give one token many spellings."""


class InvalidTokenError(Exception):
    """The token is invalid or expired; the text contains no part of the token."""


class SigningKey:
    """The key that signs an API server's tokens; a new one is made when it is first needed."""

    def __init__(self, key: ec.EllipticCurvePrivateKey | None = None) -> None:
        self._given = key

    @cached_property
    def _key(self) -> ec.EllipticCurvePrivateKey:
        from steersman.pki import x509

        return self._given or x509.new_key()

    @cached_property
    def _public(self) -> ec.EllipticCurvePublicKey:
        return self._key.public_key()

    @cached_property
    def key_id(self) -> str:
        """The hash of the public key, by which tokens name it."""
        from cryptography.hazmat.primitives import serialization

        der = self._public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        return _encode(hashlib.sha256(der).digest())

    @cached_property
    def _signatures(self) -> PyJWS:
        from jwt import PyJWS  # loaded for the first token

        return PyJWS(algorithms=[_ALGORITHM])

    @classmethod
    def load(cls, pem: bytes) -> SigningKey:
        """Take up a key that was kept; raises ValueError where it is no P-256 key."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = serialization.load_pem_private_key(pem, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
            raise ValueError("the signing key is no P-256 key")
        return cls(key)

    @property
    def pem(self) -> bytes:
        """The private key, to be kept."""
        from steersman.pki import x509

        return x509.private_pem(self._key)

    def sign(self, claims: Object) -> str:
        """Return a token with these claims."""
        header = {"typ": "", "kid": self.key_id}  # the API server's tokens have no type
        return self._signatures.encode(_json(claims), self._key, algorithm=_ALGORITHM, headers=header)

    def verify(self, token: str) -> Object:
        """Return the claims of a token that this key signed. Raises `InvalidTokenError` for any other."""
        from jwt import InvalidTokenError as RefusedError

        if not _COMPACT.fullmatch(token):
            raise InvalidTokenError("the token is malformed")
        try:
            body: object = from_json(self._signatures.decode(token, self._public, algorithms=[_ALGORITHM]))
        except RefusedError as problem:
            raise InvalidTokenError(_reason(problem)) from None
        except (ValueError, RecursionError):
            raise InvalidTokenError("the token is malformed") from None
        if not isinstance(body, dict):
            raise InvalidTokenError("the token's claims are malformed")
        return cast(Object, body)

    def key_set(self) -> Object:
        """Return the public key as a JSON Web Key Set, as `/openid/v1/jwks` serves it."""
        from jwt.algorithms import ECAlgorithm

        key = ECAlgorithm.to_jwk(self._public, as_dict=True)
        return {"keys": [{"use": "sig", "kid": self.key_id, "alg": _ALGORITHM, **key}]}


def _reason(problem: Exception) -> str:
    """Return a text without the details of PyJWT, which may quote the header of the token."""
    from jwt import InvalidAlgorithmError, InvalidSignatureError

    if isinstance(problem, InvalidAlgorithmError):
        return f"the token is not signed with {_ALGORITHM}"
    if isinstance(problem, InvalidSignatureError):
        return "the token's signature is not ours"
    return "the token is malformed"


def unverified(token: str) -> Object | None:
    """The claims that a text shows if it is a JWT at all; nothing about them is proven."""
    pieces = token.split(".")
    if len(pieces) != 3:
        return None
    try:
        claims = from_json(_decode(pieces[1]))
    except ValueError:
        return None
    return cast(Object, claims) if isinstance(claims, dict) else None


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    # The alphabet is checked, so that one token has one form only.
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
