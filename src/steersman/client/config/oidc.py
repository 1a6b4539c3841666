"""The `oidc` auth provider of kubeconfig files: an ID token, refreshed with a refresh token.

The token's own `exp` says when it is due. A refresh discovers the token endpoint at the issuer and posts the refresh
token (OpenID Connect Discovery 1.0 §4, Core 1.0 §12), one refresh for all callers. Refreshed tokens stay in memory:
the kubeconfig is never written. HTTP comes in as a small callable.
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
from steersman.telemetry.clock import Now, utc_now

_TIMEOUT = 30.0
_MAX_BODY = 1 << 20


class FetchError(Exception):
    """A fetch failed; the message is safe to show."""


Fetch = Callable[[str, bytes | None, bytes | None, Mapping[str, str]], Awaitable[bytes]]
"""`await fetch(url, data, ca_pem, headers)`: POST `data` (GET when None); the body of a 2xx, else `FetchError`."""


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
        """An error about this provider."""
        return CredentialError(problem, source=self.source, entry=self.entry, field="auth-provider", hint=hint)


async def fetch_with_aiohttp(url: str, data: bytes | None, ca_pem: bytes | None, headers: Mapping[str, str]) -> bytes:
    """The default `Fetch`: verified TLS, no redirects (they could carry the refresh token elsewhere), 30 s, 1 MiB."""
    import aiohttp  # only who refreshes pays for the import

    tls = ssl_context(TlsConfig(ca_pem=ca_pem)) if url.startswith("https:") else True
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT), trust_env=True) as session,
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
                if len(body) > _MAX_BODY:
                    raise FetchError("the answer is too large")
            if response.status // 100 != 2:
                raise FetchError(f"HTTP status {response.status}{_oauth_error(bytes(body))}")
            return bytes(body)
    except TimeoutError:
        raise FetchError(f"no answer within {_TIMEOUT:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise FetchError(type(error).__name__) from None


def oidc_auth(provider: OidcProvider, *, fetch: Fetch = fetch_with_aiohttp, now: Now = utc_now) -> RefreshingAuth:
    """An `Authenticator` over `provider`. Nothing is fetched while the ID token is good for 10 s more."""
    id_token, refresh_token = provider.id_token, provider.refresh_token

    async def obtain(forced: bool) -> Credentials:
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
    """Seconds until a JWT's `exp`; 0 when it has none or is no JWT. The signature is the API server's to check."""
    try:
        payload = token.split(".")[1]
        claims: Any = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return max(0.0, float(claims["exp"]) - now().timestamp())
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return 0.0


async def _refresh(provider: OidcProvider, refresh_token: str, fetch: Fetch) -> tuple[str, str]:
    """A new ID token, and the refresh token that replaces the old one ("" when it stays)."""
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
        raise provider.error(f"{url} did not answer with a JSON object", "check idp-issuer-url")
    return cast("dict[str, Any]", answer)


def _oauth_error(body: bytes) -> str:
    """The OAuth error code (RFC 6749 §5.2), which is one of a few words and no secret."""
    try:
        answer: Any = msgspec.json.decode(body)
        code = answer["error"]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError, TypeError):
        return ""
    return f" ({code})" if isinstance(code, str) and code.replace("_", "").isalpha() and len(code) < 40 else ""
