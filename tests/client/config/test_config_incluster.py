from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from steersman.client.config import ConfigError, in_cluster_config, load_config
from steersman.testing import virtual_time

ENV = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def mounted(tmp_path: Path, pair) -> Path:
    (tmp_path / "token").write_text("one\n")
    (tmp_path / "ca.crt").write_bytes(pair[0])
    (tmp_path / "namespace").write_text("team\n")
    return tmp_path


def test_a_pod_finds_its_cluster(mounted: Path, pair) -> None:
    config = in_cluster_config(env=ENV, directory=mounted)
    assert (config.server, config.namespace) == ("https://10.0.0.1:443", "team")
    assert config.tls.ca_pem == pair[0]
    assert load_config(env=ENV, home=mounted / "nohome", service_account=mounted).server == config.server


def test_an_ipv6_service_gets_brackets(mounted: Path) -> None:
    env = ENV | {"KUBERNETES_SERVICE_HOST": "fd00::1"}
    assert in_cluster_config(env=env, directory=mounted).server == "https://[fd00::1]:443"


def test_the_namespace_falls_back_to_default(mounted: Path) -> None:
    assert in_cluster_config(env=ENV | {"POD_NAMESPACE": "p"}, directory=mounted).namespace == "p"
    (mounted / "namespace").unlink()
    assert in_cluster_config(env=ENV, directory=mounted).namespace == "default"


def test_the_rotated_token_is_picked_up_within_a_minute_and_after_a_401(mounted: Path) -> None:
    @virtual_time
    async def run() -> None:
        auth = in_cluster_config(env=ENV, directory=mounted).auth
        first = await auth.headers()
        assert first == {"Authorization": "Bearer one"}
        (mounted / "token").write_text("two")
        assert await auth.headers() is first
        await asyncio.sleep(59)
        second = await auth.headers()
        assert second == {"Authorization": "Bearer two"}
        (mounted / "token").write_text("three")
        assert await auth.headers(refresh=True) == {"Authorization": "Bearer three"}
        (mounted / "token").unlink()
        assert await auth.headers(refresh=True) == {"Authorization": "Bearer three"}

    run()


def test_outside_a_pod_and_without_a_service_account_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="this is not a Pod; use a kubeconfig file"):
        in_cluster_config(env={}, directory=tmp_path)
    with pytest.raises(ConfigError, match=r"No such file.*automountServiceAccountToken"):
        in_cluster_config(env=ENV, directory=tmp_path)
