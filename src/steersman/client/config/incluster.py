"""The configuration of a program that runs in a Pod: its ServiceAccount's token, CA and namespace.

The kubelet rotates the token, so its file is read again. The environment and the directory are arguments.

Source: https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from steersman.client.config.base import Config, TlsConfig, check_server
from steersman.client.config.errors import ConfigError
from steersman.client.config.files import FileAuth, read_bytes, read_token
from steersman.client.config.proxy import proxy_from_environment
from steersman.client.config.tls import check_ca

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def is_in_cluster(env: Mapping[str, str]) -> bool:
    """Return whether the environment is that of a Pod."""
    return bool(env.get("KUBERNETES_SERVICE_HOST") and env.get("KUBERNETES_SERVICE_PORT"))


def in_cluster_config(*, env: Mapping[str, str] | None = None, directory: Path = SERVICE_ACCOUNT) -> Config:
    """Return the configuration inside a Pod.

    The namespace is that of `$POD_NAMESPACE`, of the mounted file, or "default". Raises `ConfigError` outside a Pod and
    if no ServiceAccount token is mounted.
    """
    env = os.environ if env is None else env
    if not is_in_cluster(env):
        raise ConfigError(
            "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is not a Pod",
            source="environment",
            hint="use a kubeconfig file",
        )
    host, port = env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"]
    bracketed = f"[{host}]" if ":" in host and not host.startswith("[") else host
    server = check_server(f"https://{bracketed}:{port}", source="environment", field="KUBERNETES_SERVICE_HOST")
    entry = "ServiceAccount"
    token_path, ca_path = directory / "token", directory / "ca.crt"
    try:
        auth = FileAuth(token=lambda: read_token(token_path, entry=entry, field="token"))
        ca = check_ca(read_bytes(ca_path, entry=entry, field="ca.crt"), source=str(ca_path), entry=entry)
    except ConfigError as error:
        hint = "set automountServiceAccountToken: true on the Pod"
        raise ConfigError(error.problem, source=str(directory), entry=entry, field=error.field, hint=hint) from None
    return Config(
        server=server,
        tls=TlsConfig(ca_pem=ca),
        auth=auth,
        namespace=_namespace(env, directory / "namespace"),
        proxy=proxy_from_environment(server, env),
        context="in-cluster",
    )


def _namespace(env: Mapping[str, str], path: Path) -> str:
    if namespace := env.get("POD_NAMESPACE", "").strip():
        return namespace
    try:
        return path.read_text(encoding="utf-8").strip() or "default"
    except (OSError, ValueError):
        return "default"
