"""Selection of the configuration like kubectl: explicit file, `$KUBECONFIG`, `~/.kube/config`, the ServiceAccount.

The environment and the home directory are arguments.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from steersman.client.config.base import ANONYMOUS, Config, TlsConfig, check_server
from steersman.client.config.errors import ConfigError
from steersman.client.config.incluster import SERVICE_ACCOUNT, in_cluster_config, is_in_cluster
from steersman.client.config.kubeconfig import Entry, Kubeconfig, load_kubeconfig
from steersman.client.config.oidc import Fetch, fetch_with_aiohttp
from steersman.client.config.proxy import check_proxy, proxy_from_environment
from steersman.client.config.users import authenticator, ca_bundle, impersonation
from steersman.telemetry.clock import Now, utc_now


def load_config(
    kubeconfig: str | os.PathLike[str] | None = None,
    context: str | None = None,
    *,
    env: Mapping[str, str] | None = None,
    home: Path | None = None,
    service_account: Path = SERVICE_ACCOUNT,
    now: Now = utc_now,
    fetch: Fetch = fetch_with_aiohttp,
) -> Config:
    """Load the configuration from the first of these sources that exists.

    1. `kubeconfig`, which must exist; 2. the merged files of `$KUBECONFIG`, without missing ones; 3. `~/.kube/config`;
    4. the Pod's ServiceAccount, unless a `context` is given. It reads files, but opens no connection and runs no
    plugin. Raises `ConfigError` with the file, the entry, the field and what to do.
    """
    env = os.environ if env is None else env
    if kubeconfig is not None:
        merged = load_kubeconfig([Path(kubeconfig)], must_exist=True)
        return config_from(merged, context, env=env, now=now, fetch=fetch)
    files = _default_files(env, home)
    merged = load_kubeconfig(files)
    if not merged.empty:
        return config_from(merged, context, env=env, now=now, fetch=fetch)
    if is_in_cluster(env) and context is None:
        return in_cluster_config(env=env, directory=service_account)
    raise ConfigError(
        f"no Kubernetes configuration found (searched {', '.join(map(str, files)) or 'nothing: no home directory'})",
        hint="set KUBECONFIG, pass a kubeconfig file, or run in a Pod with a ServiceAccount",
    )


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


def _default_files(env: Mapping[str, str], home: Path | None) -> list[Path]:
    if listed := env.get("KUBECONFIG"):
        return [Path(item) for item in listed.split(os.pathsep) if item]
    if home is None:
        try:
            home = Path.home()
        except RuntimeError:  # no home directory, as in some containers
            return []
    return [home / ".kube" / "config"]


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
