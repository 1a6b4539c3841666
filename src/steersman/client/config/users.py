"""Converts a kubeconfig's user entry to an `Authenticator` and an `Impersonation`.

A user has one way to authenticate. A client certificate may be combined with a token or password; exec and
auth-provider may not be combined. Errors name the fields that exclude each other.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from steersman.client.config.base import (
    ANONYMOUS,
    NO_HEADERS,
    Authenticator,
    ClientCertificate,
    Impersonation,
)
from steersman.client.config.exec_plugin import API_VERSIONS, INTERACTIVE_MODES, ExecPlugin, exec_auth
from steersman.client.config.files import FileAuth, StaticAuth, check_token, read_bytes, read_token
from steersman.client.config.kubeconfig import Entry
from steersman.client.config.oidc import Fetch, OidcProvider, fetch_with_aiohttp, oidc_auth
from steersman.client.config.refresh import bearer
from steersman.client.config.tls import check_ca, check_client_certificate
from steersman.telemetry.clock import Now


def authenticator(user: Entry, cluster: Entry, *, now: Now, fetch: Fetch = fetch_with_aiohttp) -> Authenticator:
    """Return the authenticator of `user` for `cluster`. Raises `ConfigError`."""
    _refuse_competitors(user)
    if (plugin := user.inner("exec")) is not None:
        return exec_auth(exec_plugin(plugin, cluster), now=now)
    if (provider := user.inner("auth-provider")) is not None:
        return oidc_auth(oidc_provider(provider), fetch=fetch, now=now)
    certificate, in_files = _certificate(user, now)
    token, token_file = user.text("token"), user.file_path("tokenFile")
    headers = NO_HEADERS
    if user.text("username") or user.text("password"):
        pair = f"{user.text('username')}:{user.text('password')}".encode()
        headers = {"Authorization": "Basic " + base64.b64encode(pair).decode()}
    elif token:
        headers = bearer(check_token(token, source=str(user.file), entry=user.label))
    if token_file is not None:
        return FileAuth(
            token=lambda: read_token(token_file, source=str(user.file), entry=user.label),
            certificate=certificate,
            fallback=token.strip() or None,
        )
    if certificate is None:
        return StaticAuth(headers) if headers else ANONYMOUS
    if in_files:
        return FileAuth(certificate=certificate, headers=headers)
    return StaticAuth(headers, certificate())


def impersonation(user: Entry) -> Impersonation | None:
    """Return the impersonated user, or None. Raises `ConfigError` for groups, uid or extra without a user."""
    extra_entry = user.inner("as-user-extra")
    extra = {key: extra_entry.texts(key) for key in extra_entry.fields} if extra_entry else {}
    found = Impersonation(user=user.text("as"), uid=user.text("as-uid"), groups=user.texts("as-groups"), extra=extra)
    if found.user:
        return found
    if found.uid or found.groups or found.extra:
        raise user.error(
            "as-uid, as-groups and as-user-extra need a user to impersonate", "as", "set as, or remove them"
        )
    return None


def exec_plugin(plugin: Entry, cluster: Entry) -> ExecPlugin:
    """Return the plugin of an `exec` entry. Raises `ConfigError`."""
    command, version = plugin.text("command"), plugin.text("apiVersion")
    if not command:
        raise plugin.error("the plugin has no command", "command", "name the program to run")
    if version not in API_VERSIONS:
        problem = f"unsupported apiVersion {version[:80]!r}" if version else "the plugin has no apiVersion"
        raise plugin.error(problem, "apiVersion", f"use {' or '.join(API_VERSIONS)}")
    mode = plugin.text("interactiveMode")
    if not mode and version.endswith("/v1"):
        raise plugin.error("interactiveMode is required by v1", "interactiveMode", f"use one of {INTERACTIVE_MODES}")
    if mode and mode not in INTERACTIVE_MODES:
        raise plugin.error(
            f"unknown interactiveMode {mode[:40]!r}", "interactiveMode", f"use one of {INTERACTIVE_MODES}"
        )
    env: list[tuple[str, str]] = []
    for variable in plugin.inners("env"):
        if not (name := variable.text("name")) or "=" in name:
            raise variable.error("the variable needs a name without '='", "name")
        env.append((name, variable.text("value")))
    if os.sep in command:  # relative to the kubeconfig file; a bare name is searched on PATH
        command = str(plugin.file.parent / command)
    return ExecPlugin(
        command=command,
        api_version=version,
        args=plugin.texts("args"),
        env=tuple(env),
        install_hint=plugin.text("installHint"),
        interactive_mode=mode or "IfAvailable",
        cluster=_cluster_info(cluster) if plugin.flag("provideClusterInfo") else None,
        source=str(plugin.file),
        entry=plugin.label,
    )


def oidc_provider(provider: Entry) -> OidcProvider:
    """Return the provider of an `auth-provider` entry. Raises `ConfigError` for all providers but oidc."""
    if (name := provider.text("name")) != "oidc":
        problem = f"the auth provider {name[:40]!r} is not supported"
        raise provider.error(problem, "name", "use an exec plugin (Kubernetes removed it in 1.26)")
    config = provider.inner("config")
    if config is None:
        raise provider.error("the oidc provider has no config", "config")
    for required in ("idp-issuer-url", "client-id"):
        if not config.text(required):
            raise config.error("the oidc provider requires this field", required)
    issuer = config.text("idp-issuer-url")
    if not issuer.startswith(("https://", "http://")):
        raise config.error("not an http(s) URL", "idp-issuer-url", "write https://issuer")
    if id_token := config.text("id-token"):
        id_token = check_token(id_token, source=str(config.file), entry=config.label, field=config.where("id-token"))
    return OidcProvider(
        issuer=issuer,
        client_id=config.text("client-id"),
        client_secret=config.text("client-secret"),
        id_token=id_token,
        refresh_token=config.text("refresh-token"),
        ca_pem=ca_bundle(config, "idp-certificate-authority"),
        source=str(provider.file),
        entry=provider.label,
    )


def ca_bundle(entry: Entry, name: str) -> bytes | None:
    """Return a CA given as `name` (a path) or `name`-data (base64). Raises `ConfigError` if both are set."""
    path, data = entry.file_path(name), entry.data(f"{name}-data")
    if path is not None and data is not None:
        raise entry.error(f"{name} and {name}-data exclude each other", name, "remove one")
    source = str(entry.file)
    if path is not None:
        data = read_bytes(path, source=source, entry=entry.label, field=entry.where(name))
        return check_ca(data, source=source, entry=entry.label, field=entry.where(name))
    if data is not None:
        return check_ca(data, source=source, entry=entry.label, field=entry.where(f"{name}-data"))
    return None


def _refuse_competitors(user: Entry) -> None:
    given = {
        "token": bool(user.text("token") or user.text("tokenFile")),
        "username/password": bool(user.text("username") or user.text("password")),
        "client-certificate": any(
            user.text(name + suffix) for name in ("client-certificate", "client-key") for suffix in ("", "-data")
        ),
        "exec": user.inner("exec") is not None,
        "auth-provider": user.inner("auth-provider") is not None,
    }
    present = [name for name, is_given in given.items() if is_given]
    alone = given["exec"] or given["auth-provider"] or not given["client-certificate"]
    if len(present) > (1 if alone else 2):
        raise user.error(f"{' and '.join(present)} exclude each other", hint="keep one way to authenticate")


def _certificate(user: Entry, now: Now) -> tuple[Callable[[], ClientCertificate] | None, bool]:
    """Return a function that reads the client certificate, and whether it reads files that may be rotated."""
    cert_path, cert_data = user.file_path("client-certificate"), user.data("client-certificate-data")
    key_path, key_data = user.file_path("client-key"), user.data("client-key-data")
    cert_field = "client-certificate-data" if cert_data else "client-certificate"
    key_field = "client-key-data" if key_data else "client-key"
    if (cert_path and cert_data) or (key_path and key_data):
        both = "client-certificate" if cert_path and cert_data else "client-key"
        raise user.error(f"{both} and {both}-data exclude each other", both, "remove one")
    has_cert, has_key = bool(cert_path or cert_data), bool(key_path or key_data)
    if not has_cert and not has_key:
        return None, False
    if not has_key:
        raise user.error("a client certificate without its key", "client-key", "add client-key or client-key-data")
    if not has_cert:
        raise user.error("a client key without its certificate", "client-certificate", "add client-certificate")
    place: dict[str, Any] = {"source": str(user.file), "entry": user.label}

    def content(path: Path | None, data: bytes | None, name: str) -> bytes:
        return read_bytes(path, field=name, **place) if path is not None else data or b""

    def read() -> ClientCertificate:
        return check_client_certificate(
            content(cert_path, cert_data, cert_field),
            content(key_path, key_data, key_field),
            cert_field=cert_field,
            key_field=key_field,
            now=now,
            **place,
        )

    return read, cert_path is not None or key_path is not None


def _cluster_info(cluster: Entry) -> dict[str, Any]:
    """Return `spec.cluster` of the ExecCredential; zero values are left out, like in Go."""
    ca = ca_bundle(cluster, "certificate-authority")
    info: dict[str, Any] = {
        "server": cluster.text("server"),
        "tls-server-name": cluster.text("tls-server-name"),
        "insecure-skip-tls-verify": cluster.flag("insecure-skip-tls-verify"),
        "certificate-authority-data": base64.b64encode(ca).decode() if ca else None,
        "proxy-url": cluster.text("proxy-url"),
        "disable-compression": cluster.flag("disable-compression"),
        "config": cluster.exec_config,
    }
    return {key: value for key, value in info.items() if value or (key == "config" and value is not None)}
