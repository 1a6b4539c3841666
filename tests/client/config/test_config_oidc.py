"""The oidc auth provider against a local identity provider, over HTTPS where it matters."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from steersman.client.config import CredentialError, load_config
from steersman.client.config.oidc import OidcProvider, oidc_auth, token_lifetime
from steersman.telemetry.clock import utc_now


def jwt(name: str, seconds: float) -> str:
    claims = json.dumps({"sub": name, "exp": time.time() + seconds}).encode()
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.c2ln"


class IdentityProvider:
    """Discovery and a token endpoint that rotates refresh tokens."""

    def __init__(self) -> None:
        self.url = ""
        self.discovery: dict[str, Any] = {}
        self.requests: list[tuple[dict[str, str], str]] = []
        self.answer: dict[str, Any] | None = None
        self.status = 200

    async def well_known(self, _request: web.Request) -> web.Response:
        return web.json_response({"token_endpoint": f"{self.url}/token"} | self.discovery)

    async def token(self, request: web.Request) -> web.Response:
        form = {key: str(value) for key, value in (await request.post()).items()}
        self.requests.append((form, request.headers.get("Authorization", "")))
        count = len(self.requests)
        answer = {"id_token": jwt(f"n{count}", 3600), "refresh_token": f"r{count}"}
        return web.json_response(self.answer or answer, status=self.status)


@pytest.fixture
async def idp(pair, tmp_path: Path) -> AsyncIterator[IdentityProvider]:
    provider = IdentityProvider()
    app = web.Application()
    app.router.add_get("/realm/.well-known/openid-configuration", provider.well_known)
    app.router.add_post("/realm/token", provider.token)
    (tmp_path / "server.pem").write_bytes(pair[0] + pair[1])
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "server.pem")
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    provider.url = f"https://localhost:{port}/realm"
    yield provider
    await runner.cleanup()


def provider_for(idp: IdentityProvider, ca: bytes | None, **fields: Any) -> OidcProvider:
    values: dict[str, Any] = {"issuer": idp.url, "client_id": "kube", "ca_pem": ca, "refresh_token": "r0"}
    return OidcProvider(**(values | fields))


async def test_a_valid_id_token_is_used_as_it_is(kubeconfig) -> None:
    token = jwt("jane", 600)
    config = {"idp-issuer-url": "https://idp.test", "client-id": "kube", "id-token": token}
    auth = load_config(kubeconfig(user={"auth-provider": {"name": "oidc", "config": config}}), env={}).auth
    assert await auth.headers() == {"Authorization": f"Bearer {token}"}


async def test_an_expired_token_is_refreshed_once_for_all_and_the_refresh_token_rotates(
    kubeconfig, idp: IdentityProvider, pair, b64
) -> None:
    config = {
        "idp-issuer-url": idp.url,
        "client-id": "kube",
        "client-secret": "p w",
        "id-token": jwt("old", -5),
        "refresh-token": "r0",
        "idp-certificate-authority-data": b64(pair[0]),
    }
    auth = load_config(kubeconfig(user={"auth-provider": {"name": "oidc", "config": config}}), env={}).auth
    found = await asyncio.gather(*(auth.headers() for _ in range(20)))
    assert len({headers["Authorization"] for headers in found}) == 1
    form, authorization = idp.requests[0]
    assert form == {"grant_type": "refresh_token", "refresh_token": "r0"}
    assert base64.b64decode(authorization.removeprefix("Basic ")) == b"kube:p+w"
    auth._refreshed_at = float("-inf")  # type: ignore[attr-defined]  # as if the last refresh were long ago
    await auth.headers(refresh=True)
    assert [form["refresh_token"] for form, _ in idp.requests] == ["r0", "r1"]


async def test_the_secret_goes_into_the_form_where_the_provider_prefers_it(idp: IdentityProvider, pair) -> None:
    idp.discovery = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    await oidc_auth(provider_for(idp, pair[0], client_secret="s")).headers()
    assert idp.requests[0][0]["client_secret"] == "s"
    assert idp.requests[0][1] == ""


@pytest.mark.parametrize(
    ("status", "answer", "discovery", "problem"),
    [
        (
            400,
            {"error": "invalid_grant", "error_description": "hunter2"},
            {},
            r"HTTP status 400 \(invalid_grant\)",
        ),
        (200, {"access_token": "hunter2"}, {}, "returned no id_token; the client needs the scope openid"),
        (200, {"id_token": "hunter2\n\nx"}, {}, "unusable id_token"),
        (200, None, {"token_endpoint": "http://plain.test/token"}, "names no usable token_endpoint"),
        (200, None, {"token_endpoint": None}, "names no usable token_endpoint"),
        (302, {}, {}, "HTTP status 302"),
    ],
)
async def test_a_failing_refresh_says_why_and_shows_no_secret(
    idp: IdentityProvider, pair, status: int, answer: Any, discovery: dict[str, Any], problem: str
) -> None:
    idp.status, idp.answer, idp.discovery = status, answer, discovery
    with pytest.raises(CredentialError, match=problem) as caught:
        await oidc_auth(provider_for(idp, pair[0], refresh_token="hunter2")).headers()
    assert "hunter2" not in str(caught.value)


async def test_an_identity_provider_that_is_not_trusted_gets_no_refresh_token(idp: IdentityProvider, pki) -> None:
    with pytest.raises(CredentialError, match="ClientConnectorCertificateError"):
        await oidc_auth(provider_for(idp, pki.pair("stranger")[0])).headers()
    assert idp.requests == []


async def test_without_a_refresh_token_the_user_is_told_to_log_in() -> None:
    provider = OidcProvider(issuer="https://idp.test", client_id="k", id_token=jwt("x", -1))
    with pytest.raises(CredentialError, match="id-token has expired and there is no refresh-token; log in again"):
        await oidc_auth(provider).headers()


@pytest.mark.parametrize("token", ["", "a", "a.b.c", "a.%%.c", "a.W10.c", "a.e30.c", "é.é.é"])
def test_what_is_no_token_has_no_lifetime(token: str) -> None:
    assert token_lifetime(token, utc_now) == 0.0
