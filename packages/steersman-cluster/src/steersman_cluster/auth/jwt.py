"""Signed tokens (RFC 7519, ES256) and the key set that verifies them (RFC 7517).

Only what an API server needs: one signing key, compact form, no encryption. Whether the claims still hold is decided
elsewhere. A token is a credential: it is never put into an error or a log.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from steersman_cluster.objects import Object, from_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

__all__ = ["InvalidTokenError", "SigningKey", "unverified"]


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
    def _header(self) -> str:
        return _encode(_json({"alg": "ES256", "kid": self.key_id}))

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
        """A token with these claims."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

        body = f"{self._header}.{_encode(_json(claims))}"
        r, s = decode_dss_signature(self._key.sign(body.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{body}.{_encode(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"

    def verify(self, token: str) -> Object:
        """The claims of a token that this key signed. Raises `InvalidTokenError` for any other."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

        body, _, signature = token.rpartition(".")
        try:
            raw = _decode(signature)
            header = from_json(_decode(body.partition(".")[0]))
        except ValueError:
            raise InvalidTokenError("the token is malformed") from None
        if not isinstance(header, dict) or cast(Object, header).get("alg") != "ES256" or len(raw) != 64:
            raise InvalidTokenError("the token is not signed with ES256")
        der = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
        try:
            self._public.verify(der, body.encode(), ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            raise InvalidTokenError("the token's signature is not ours") from None
        claims = unverified(token)
        if claims is None:
            raise InvalidTokenError("the token's claims are malformed")
        return claims

    def key_set(self) -> Object:
        """The public key as a JSON Web Key Set, as `/openid/v1/jwks` serves it."""
        numbers = self._public.public_numbers()
        key = {
            "use": "sig",
            "kty": "EC",
            "kid": self.key_id,
            "crv": "P-256",
            "alg": "ES256",
            "x": _encode(numbers.x.to_bytes(32, "big")),
            "y": _encode(numbers.y.to_bytes(32, "big")),
        }
        return {"keys": [key]}


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
