"""Tokens, passwords, certificates in data and files, and the shared refresh."""

from __future__ import annotations

import asyncio
import base64
import ssl
from pathlib import Path

import pytest

from steersman.client.config import ClientCertificate, CredentialError, TlsConfig, load_config, ssl_context
from steersman.client.config.refresh import Credentials, RefreshingAuth, bearer
from steersman.testing import virtual_time


async def test_a_token_and_a_password_become_headers(kubeconfig) -> None:
    token = load_config(kubeconfig(user={"token": " abc\n"}), env={}).auth
    headers = await token.headers()
    assert headers == {"Authorization": "Bearer abc"}
    assert await token.headers(refresh=True) is headers  # nothing newer
    basic = load_config(kubeconfig(user={"username": "jane", "password": "p:w"}), env={}).auth
    assert await basic.headers() == {"Authorization": "Basic " + base64.b64encode(b"jane:p:w").decode()}


async def test_a_token_file_outranks_the_token_once_it_can_be_read(kubeconfig, tmp_path: Path) -> None:
    auth = load_config(kubeconfig(user={"token": "inline", "tokenFile": "t"}), env={}).auth
    assert await auth.headers() == {"Authorization": "Bearer inline"}
    (tmp_path / "t").write_text("filed\n")
    assert await auth.headers(refresh=True) == {"Authorization": "Bearer filed"}


async def test_certificate_data_beside_a_token(kubeconfig, pair, b64) -> None:
    user = {"client-certificate-data": b64(pair[0]), "client-key-data": b64(pair[1]), "token": "abc"}
    auth = load_config(kubeconfig(user=user), env={}).auth
    assert await auth.headers() == {"Authorization": "Bearer abc"}
    certificate = auth.client_certificate()
    assert certificate is not None
    assert certificate is auth.client_certificate()
    assert certificate == ClientCertificate(*pair)


def test_rotated_certificate_files_give_a_new_certificate_once_both_have_changed(
    kubeconfig, tmp_path: Path, pair, pki
) -> None:
    path = kubeconfig(user={"client-certificate": "pki/c.pem", "client-key": "pki/k.pem"})
    (tmp_path / "pki").mkdir()
    cert, key = tmp_path / "pki/c.pem", tmp_path / "pki/k.pem"
    cert.write_bytes(pair[0])
    key.write_bytes(pair[1])

    @virtual_time
    async def run() -> None:
        auth = load_config(path, env={}).auth
        await auth.headers()
        first = auth.client_certificate()
        await asyncio.sleep(60)
        await auth.headers()
        assert auth.client_certificate() is first  # unchanged files, the same object
        new = pki.pair()
        cert.write_bytes(new[0])
        await asyncio.sleep(60)
        await auth.headers()
        assert auth.client_certificate() is first  # half a rotation
        key.write_bytes(new[1])
        await asyncio.sleep(60)
        await auth.headers()
        second = auth.client_certificate()
        assert second == ClientCertificate(*new)
        assert second is not None
        assert first is not None
        assert second.version != first.version

    run()


async def test_one_file_may_hold_certificate_and_key(kubeconfig, tmp_path: Path, pair) -> None:
    (tmp_path / "both.pem").write_bytes(b"# kubelet\n" + pair[0] + pair[1])
    user = {"client-certificate": "both.pem", "client-key": "both.pem"}
    assert load_config(kubeconfig(user=user), env={}).auth.client_certificate() == ClientCertificate(*pair)


def test_the_tls_context_verifies_unless_told_otherwise(pair) -> None:
    trusted = ssl_context(TlsConfig(ca_pem=pair[0]), ClientCertificate(*pair))
    assert trusted.verify_mode is ssl.CERT_REQUIRED
    assert trusted.check_hostname is True
    assert len(trusted.get_ca_certs()) == 1
    assert ssl_context(TlsConfig(insecure=True)).verify_mode is ssl.CERT_NONE


class Source:
    """Counts how often credentials were obtained; each takes `seconds`."""

    def __init__(self, *, lifetime: float | None = None, seconds: float = 1.0) -> None:
        self.calls = 0
        self.cancelled = 0
        self.lifetime = lifetime
        self.seconds = seconds
        self.broken = False

    async def __call__(self, *, forced: bool) -> Credentials:
        self.calls += 1
        call = self.calls
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.broken:
            raise CredentialError("the provider is down")
        return Credentials(bearer(str(call)), None, self.lifetime)


@virtual_time
async def test_concurrent_callers_share_one_refresh() -> None:
    source = Source()
    auth = RefreshingAuth(source)
    found = await asyncio.gather(*(auth.headers() for _ in range(100)))
    assert source.calls == 1
    assert all(headers is found[0] for headers in found)
    await asyncio.sleep(60)
    again = await asyncio.gather(*(auth.headers(refresh=True) for _ in range(100)))
    assert source.calls == 2
    assert again[0] == bearer("2")


@virtual_time
async def test_a_late_401_of_the_old_credentials_does_not_refresh_again() -> None:
    source = Source()
    auth = RefreshingAuth(source)
    await auth.headers()
    await auth.headers(refresh=True)
    assert source.calls == 1
    await asyncio.sleep(6)
    await auth.headers(refresh=True)
    assert source.calls == 2


@virtual_time
async def test_credentials_are_renewed_shortly_before_they_expire() -> None:
    source = Source(lifetime=600)
    auth = RefreshingAuth(source)
    first = await auth.headers()
    await asyncio.sleep(589)
    assert await auth.headers() is first
    await asyncio.sleep(2)
    assert await auth.headers() == bearer("2")


@virtual_time
async def test_a_failed_renewal_keeps_credentials_that_are_still_valid() -> None:
    source = Source(lifetime=600, seconds=0)
    auth = RefreshingAuth(source)
    first = await auth.headers()
    source.broken = True
    await asyncio.sleep(595)
    assert await auth.headers() is first
    await asyncio.sleep(10)
    with pytest.raises(CredentialError, match="provider is down"):
        await auth.headers()
    calls = source.calls
    with pytest.raises(CredentialError):
        await auth.headers()
    assert source.calls == calls  # a burst of callers does not start a burst of attempts
    source.broken = False
    await asyncio.sleep(2)
    assert await auth.headers() == bearer(str(source.calls))


@virtual_time
async def test_a_cancelled_caller_does_not_cancel_the_refresh_of_the_others() -> None:
    source = Source(seconds=5)
    auth = RefreshingAuth(source)
    one, two = asyncio.create_task(auth.headers()), asyncio.create_task(auth.headers())
    await asyncio.sleep(1)
    one.cancel()
    assert await two == bearer("1")
    assert (source.calls, source.cancelled) == (1, 0)


@virtual_time
async def test_a_refresh_that_nobody_waits_for_is_called_off() -> None:
    source = Source(seconds=5)
    auth = RefreshingAuth(source)
    one = asyncio.create_task(auth.headers())
    await asyncio.sleep(1)
    one.cancel()
    await asyncio.sleep(0)
    assert await auth.headers() == bearer("2")
    assert source.cancelled == 1


def test_credentials_obtained_in_one_loop_serve_the_next() -> None:
    source = Source(seconds=0)
    auth = RefreshingAuth(source)
    assert asyncio.run(auth.headers()) is asyncio.run(auth.headers())
    assert source.calls == 1
