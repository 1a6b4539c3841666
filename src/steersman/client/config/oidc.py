"""The `oidc` auth provider of kubeconfig files: an ID token that is renewed with a refresh token.

The claim `exp` of the token decides when it expires. A refresh discovers the token endpoint of the issuer and posts the
refresh token (OpenID Connect Discovery 1.0 section 4, Core 1.0 section 12), once for all callers. Renewed tokens stay
in memory: the kubeconfig is not written. The HTTP request is an argument.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec

from steersman.client.config.base import TlsConfig
from steersman.client.config.errors import ConfigError, CredentialError
from steersman.client.config.files import check_token
from steersman.client.config.refresh import Credentials, RefreshingAuth, bearer
from steersman.client.config.tls import ssl_context
from steersman.extras import require
from steersman.telemetry.clock import Now, utc_now

_TIMEOUT_SECONDS = 30.0
_MAX_BODY_BYTES = 1 << 20


class FetchError(Exception):
    """A request failed; the message has no secrets."""


Fetch = Callable[[str, bytes | None, bytes | None, Mapping[str, str]], Awaitable[bytes]]
"""`await fetch(url, data, ca_pem, headers)`: POST `data` (GET if None), return the body of a 2xx, else `FetchError`."""


@dataclass(frozen=True)
class OidcProvider:
    """One `users[].user.auth-provider` entry named oidc."""

    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    id_token: str = field(default="", repr=False)
    refresh_token: str = field(default="", repr=False)
    ca_pem: bytes | None = field(default=None, repr=False)
    source: str = ""
    entry: str = ""

    def error(self, problem: str, hint: str = "") -> CredentialError:
        """Return an error about this provider."""
        return CredentialError(problem, source=self.source, entry=self.entry, field="auth-provider", hint=hint)


async def fetch_with_aiohttp(url: str, data: bytes | None, ca_pem: bytes | None, headers: Mapping[str, str]) -> bytes:
    """Send a request with aiohttp: verified TLS, no redirects (they could leak the refresh token), 30 s, 1 MiB."""
    require("the auth provider oidc", "aiohttp", "aiohttp")
    import aiohttp  # imported on demand

    tls = ssl_context(TlsConfig(ca_pem=ca_pem)) if url.startswith("https:") else True
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS), trust_env=True) as session,
            session.request(
                "GET" if data is None else "POST",
                url,
                data=data,
                headers=headers,
                ssl=tls,
                allow_redirects=False,
            ) as response,
        ):
            body = bytearray()
            async for chunk in response.content.iter_chunked(1 << 16):
                body += chunk
                if len(body) > _MAX_BODY_BYTES:
                    raise FetchError("the response is too large")
            if response.status // 100 != 2:
                raise FetchError(f"HTTP status {response.status}{_oauth_error(bytes(body))}")
            return bytes(body)
    except TimeoutError:
        raise FetchError(f"no response within {_TIMEOUT_SECONDS:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise FetchError(type(error).__name__) from None


def oidc_auth(provider: OidcProvider, *, fetch: Fetch = fetch_with_aiohttp, now: Now = utc_now) -> RefreshingAuth:
    """Return an `Authenticator` for `provider`. It sends no request while the ID token is valid for 10 s more."""
    id_token, refresh_token = provider.id_token, provider.refresh_token

    async def obtain(*, forced: bool) -> Credentials:
        nonlocal id_token, refresh_token
        lifetime = token_lifetime(id_token, now) if id_token else 0.0
        if forced or lifetime <= 10:
            if not refresh_token:
                hint = "log in again, e.g. with your provider's kubectl plugin"
                why = "was refused" if forced else "has expired" if id_token else "is missing"
                raise provider.error(f"the id-token {why} and there is no refresh-token", hint)
            id_token, rotated = await _refresh(provider, refresh_token, fetch)
            refresh_token = rotated or refresh_token
            lifetime = token_lifetime(id_token, now)
        return Credentials(bearer(id_token), None, lifetime)

    return RefreshingAuth(obtain)


def token_lifetime(token: str, now: Now) -> float:
    """Return the seconds until a JWT's `exp`; 0 if it has none or is not a JWT. The API server checks the signature."""
    try:
        payload = token.split(".")[1]
        claims: Any = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return max(0.0, float(claims["exp"]) - now().timestamp())
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return 0.0


async def _refresh(provider: OidcProvider, refresh_token: str, fetch: Fetch) -> tuple[str, str]:
    """Return a new ID token, and the refresh token that replaces the old one ("" if it stays)."""
    well_known = provider.issuer.rstrip("/") + "/.well-known/openid-configuration"
    discovery = await _json(provider, fetch, well_known, None, {})
    endpoint = discovery.get("token_endpoint")
    if not isinstance(endpoint, str) or urlsplit(endpoint).scheme not in (
        "https",
        urlsplit(provider.issuer).scheme,
    ):
        raise provider.error(f"{well_known} names no usable token_endpoint", "correct idp-issuer-url")
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    methods: Any = discovery.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
    if provider.client_secret and "client_secret_post" not in methods:
        pair = f"{quote_plus(provider.client_id)}:{quote_plus(provider.client_secret)}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    else:
        form["client_id"] = provider.client_id
        if provider.client_secret:
            form["client_secret"] = provider.client_secret
    answer = await _json(provider, fetch, endpoint, urlencode(form).encode(), headers)
    id_token, rotated = answer.get("id_token"), answer.get("refresh_token")
    if not isinstance(id_token, str):
        raise provider.error(f"{endpoint} returned no id_token", "the client needs the scope openid")
    try:
        return check_token(id_token), rotated if isinstance(rotated, str) else ""
    except ConfigError:
        raise provider.error(f"{endpoint} returned an unusable id_token") from None


async def _json(
    provider: OidcProvider, fetch: Fetch, url: str, data: bytes | None, headers: Mapping[str, str]
) -> dict[str, Any]:
    try:
        body = await fetch(url, data, provider.ca_pem, headers)
    except FetchError as error:
        hint = "log in again if the session has ended, else check idp-issuer-url and idp-certificate-authority"
        raise provider.error(f"{url}: {error}", hint) from None
    try:
        answer: Any = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise provider.error(f"{url} did not return a JSON object", "check idp-issuer-url")
    return cast("dict[str, Any]", answer)


def _oauth_error(body: bytes) -> str:
    """Return the OAuth error code (RFC 6749 section 5.2), which is one of a few words and not secret."""
    try:
        answer: Any = msgspec.json.decode(body)
        code = answer["error"]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError, TypeError):
        return ""
    return f" ({code})" if isinstance(code, str) and code.replace("_", "").isalpha() and len(code) < 40 else ""
