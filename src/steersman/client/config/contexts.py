"""Converts one context of a kubeconfig to a `Config`. It is loaded where a kubeconfig exists, so not in most Pods."""

from __future__ import annotations

from collections.abc import Mapping

from steersman.client.config.base import ANONYMOUS, Config, TlsConfig, check_server
from steersman.client.config.kubeconfig import Entry, Kubeconfig
from steersman.client.config.oidc import Fetch, fetch_with_aiohttp
from steersman.client.config.proxy import check_proxy, proxy_from_environment
from steersman.client.config.users import authenticator, ca_bundle, impersonation
from steersman.telemetry.clock import Now, utc_now

__all__ = ["config_from"]


def config_from(
    merged: Kubeconfig,
    context: str | None,
    *,
    env: Mapping[str, str],
    now: Now = utc_now,
    fetch: Fetch = fetch_with_aiohttp,
) -> Config:
    """Return the configuration of one context of a kubeconfig. Raises `ConfigError`."""
    chosen = merged.context(context)
    cluster = merged.cluster_of(chosen)
    user = merged.user_of(chosen)
    server = check_server(cluster.text("server"), source=str(cluster.file), entry=cluster.label)
    return Config(
        server=server,
        tls=_tls(cluster),
        auth=authenticator(user, cluster, now=now, fetch=fetch) if user else ANONYMOUS,
        namespace=chosen.text("namespace") or "default",
        proxy=_proxy(cluster, server, env),
        impersonate=impersonation(user) if user else None,
        context=chosen.name,
        disable_compression=cluster.flag("disable-compression"),
    )


def _tls(cluster: Entry) -> TlsConfig:
    ca = ca_bundle(cluster, "certificate-authority")
    insecure = cluster.flag("insecure-skip-tls-verify")
    if insecure and ca is not None:
        raise cluster.error(
            "insecure-skip-tls-verify and a certificate authority exclude each other",
            "insecure-skip-tls-verify",
            "remove insecure-skip-tls-verify (recommended) or the certificate authority",
        )
    return TlsConfig(ca_pem=ca, server_name=cluster.text("tls-server-name") or None, insecure=insecure)


def _proxy(cluster: Entry, server: str, env: Mapping[str, str]) -> str | None:
    if url := cluster.text("proxy-url"):
        return check_proxy(url, source=str(cluster.file), entry=cluster.label)
    return proxy_from_environment(server, env)
