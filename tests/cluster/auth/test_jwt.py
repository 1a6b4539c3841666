"""The signatures of ServiceAccount tokens, which PyJWT verifies."""

import base64
import hashlib
import hmac
import json

import jwt
import pytest

from steersman_cluster.auth.jwt import InvalidTokenError, SigningKey, unverified

CLAIMS = {"iss": "https://kubernetes.default.svc", "sub": "system:serviceaccount:default:op"}


@pytest.fixture(scope="module")
def key() -> SigningKey:
    return SigningKey()


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def public_pem(key: SigningKey) -> bytes:
    from cryptography.hazmat.primitives import serialization

    public = serialization.load_pem_private_key(key.pem, None).public_key()
    return public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def test_another_library_verifies_a_token_with_the_published_key_set(key: SigningKey):
    (published,) = jwt.PyJWKSet.from_dict(key.key_set()).keys
    token = key.sign(CLAIMS)
    assert jwt.decode(token, published, algorithms=["ES256"]) == CLAIMS
    assert jwt.get_unverified_header(token) == {"alg": "ES256", "kid": published.key_id}
    assert unverified(token) == key.verify(token) == CLAIMS


@pytest.mark.parametrize("header", [{"alg": "none"}, {"alg": "HS256"}, {"alg": "ES384"}, {}, {"alg": ["ES256"]}])
def test_a_token_with_another_algorithm_is_refused(key: SigningKey, header: dict[str, object]):
    body = f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(CLAIMS).encode())}"
    signature = hmac.new(public_pem(key), body.encode(), hashlib.sha256).digest()
    with pytest.raises(InvalidTokenError):
        key.verify(f"{body}.{encoded(signature)}")


def test_changed_claims_are_refused(key: SigningKey):
    header, _, signature = key.sign(CLAIMS).split(".")
    with pytest.raises(InvalidTokenError, match="the token's signature is not ours"):
        key.verify(f"{header}.{encoded(json.dumps(CLAIMS | {'sub': 'admin'}).encode())}.{signature}")


@pytest.mark.parametrize("spelling", ["{0}=", "{0}\n", " {0}", "{0}.", "{0}!"])
def test_a_token_has_one_spelling(key: SigningKey, spelling: str):
    with pytest.raises(InvalidTokenError, match="malformed"):
        key.verify(spelling.format(key.sign(CLAIMS)))


def test_deep_headers_and_claims_are_refused(key: SigningKey):
    depth = 100_000
    nested = b'{"a":' + b"[" * depth + b"]" * depth + b"}"
    for token in (f"{encoded(nested)}.e30.e30", f"{encoded(b'{}')}.{encoded(nested)}.e30"):
        with pytest.raises(InvalidTokenError):
            key.verify(token)
        assert unverified(token) in (None, {})
