from __future__ import annotations

import pytest

from steersman.client.config import ConfigError
from steersman.client.config.proxy import proxy_from_environment

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("server", "no_proxy", "proxied"),
    [
        ("https://kube.test", "", True),
        ("https://kube.test", "*", False),
        ("https://kube.test", "kube.test", False),
        ("https://KUBE.test", "Kube.Test", False),
        ("https://a.kube.test", "kube.test", False),
        ("https://xkube.test", "kube.test", True),
        ("https://a.kube.test", "x, .kube.test", False),
        ("https://kube.test", ".kube.test", True),
        ("https://a.kube.test", "*.kube.test", False),
        ("https://kube.test:6443", "kube.test:6443", False),
        ("https://kube.test:6443", "kube.test:443", True),
        ("https://kube.test", "kube.test:443", False),
        ("https://10.1.2.3:6443", "10.0.0.0/8", False),
        ("https://11.1.2.3:6443", "10.0.0.0/8", True),
        ("https://10.1.2.3:6443", "10.1.2.3", False),
        ("https://10.1.2.3:6443", "10.1.2.3:1", True),
        ("https://10.1.2.3:6443", "2.3", True),
        ("https://[fd00::1]:6443", "fd00::/8", False),
        ("https://[fd00::1]:6443", "fd00::1", False),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", False),
        ("https://kube.test", "10.0.0.0/99,,", True),
        ("https://localhost:6443", "", False),
        ("https://127.0.0.9:6443", "", False),
        ("https://[::1]:6443", "", False),
        ("http://kube.test", "", False),
    ],
)
def test_no_proxy_is_read_as_go_reads_it(server: str, no_proxy: str, proxied: bool) -> None:
    found = proxy_from_environment(server, {"HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy})
    assert found == (PROXY if proxied else None)


def test_upper_case_wins_and_a_missing_scheme_is_http() -> None:
    assert proxy_from_environment("https://k", {"https_proxy": "p:1"}) == "http://p:1"
    assert proxy_from_environment("https://k", {"https_proxy": "p:1", "HTTPS_PROXY": PROXY}) == PROXY
    assert proxy_from_environment("http://k", {"HTTP_PROXY": PROXY, "no_proxy": "other"}) == PROXY


def test_an_unusable_proxy_is_refused_without_showing_its_password() -> None:
    with pytest.raises(ConfigError, match="environment, HTTPS_PROXY: not a usable proxy URL") as caught:
        proxy_from_environment("https://k", {"HTTPS_PROXY": "gopher://u:hunter2@p"})
    assert "hunter2" not in str(caught.value)
