"""The settings of an agent, from one JSON file, and the secrets from the directory of a mounted Secret."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from mysqlcluster.credentials import accepted_tokens, revision, token_revision
from mysqlcluster.engines import Layout, ServerOptions

__all__ = ["AgentSettings", "Secrets", "SettingsError", "load_settings", "read_secrets"]

MAX_FILE_BYTES = 1 << 20
ROOT_VARIABLE = "MYSQLCLUSTER_ROOT"
"""The environment variable with the root directory of the server's programs, for images where it is not `/`."""


class SettingsError(ValueError):
    """A settings file or a secret is missing or malformed; the message names the file."""


class AgentSettings(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The settings of one agent."""

    member: str
    """The name of the Pod."""
    server_id: int
    flavor: str
    data_directory: str
    secrets_directory: str
    root_directory: str = "/"
    """The root of the server's programs."""
    address: str = "127.0.0.1"
    """The address that the server and the agent listen on."""
    server_port: int = 3306
    agent_port: int = 8443
    metrics_port: int = 0
    """The port of the metrics of the server, without TLS; 0 disables them."""
    tls_directory: str = ""
    """A directory with `tls.crt`, `tls.key` and `ca.crt`. If empty, the agent listens on loopback only."""
    server_settings: Mapping[str, str] = {}
    peer_url: str = ""
    """The URL of another member's agent, with `{member}` for its name."""
    peers: Mapping[str, str] = {}
    """URLs of the agents for which `peer_url` does not hold, by member."""

    archiver_url: str = ""
    """The URL of the cluster's archiver, which a restore reads from."""

    def url_of(self, member: str) -> str:
        """Return the URL of another member's agent.

        Raises:
            SettingsError: Neither `peers` nor `peerUrl` gives one.
        """
        url = self.peers.get(member) or self.peer_url.format(member=member)
        if not url:
            raise SettingsError(f"no URL for the agent of {member}: set peerUrl or peers")
        return url

    @property
    def layout(self) -> Layout:
        """The directories of the server."""
        root = os.environ.get(ROOT_VARIABLE) or self.root_directory
        return Layout(Path(root), Path(self.data_directory))

    @property
    def server_options(self) -> ServerOptions:
        """The settings of the server."""
        tls = Path(self.tls_directory) if self.tls_directory else None
        return ServerOptions(
            server_id=self.server_id,
            name=self.member,
            address=self.address,
            port=self.server_port,
            settings=self.server_settings,
            user="root" if os.geteuid() == 0 else "",
            tls_certificate=tls / "tls.crt" if tls else None,
            tls_key=tls / "tls.key" if tls else None,
            tls_authority=tls / "ca.crt" if tls else None,
        )


class Secrets(msgspec.Struct, frozen=True):
    """The passwords of a cluster; no method prints them."""

    agent_token: str
    root_password: str
    replication_password: str
    application_password: str
    application_user: str = "app"
    application_database: str = "app"
    backup_password: str = ""
    exporter_password: str = ""
    agent_token_next: str = ""
    agent_token_former: str = ""
    accepted: tuple[str, ...] = ()
    """The tokens that the agent accepts; it is not a key of the Secret."""
    revision: str = ""
    """A hash of the passwords, equal to the operator's; it is not a key of the Secret."""
    token_revision: str = ""
    """A hash of the tokens, equal to the operator's; it is not a key of the Secret."""

    def __repr__(self) -> str:
        return f"Secrets(revision={self.revision!r})"


_DERIVED = {"accepted", "revision", "token_revision"}


class Listening(Protocol):
    """Settings of a process that listens."""

    @property
    def address(self) -> str:
        """The address that it listens on."""
        ...

    @property
    def tls_directory(self) -> str:
        """The directory of the certificate; empty without TLS."""
        ...


L = TypeVar("L", bound=Listening)


def load_settings(file: Path, kind: type[L]) -> L:
    """Return the settings of a file.

    Args:
        file: A file with JSON.
        kind: The class of the settings.

    Raises:
        SettingsError: The file is missing, too large or not the JSON of settings, or it has an address other than
        loopback without TLS.
    """
    try:
        content = file.read_bytes()[: MAX_FILE_BYTES + 1]
    except OSError as problem:
        raise SettingsError(f"{file}: {os.strerror(problem.errno or 0)}") from None
    if len(content) > MAX_FILE_BYTES:
        raise SettingsError(f"{file}: larger than {MAX_FILE_BYTES} bytes")
    try:
        settings = msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as problem:
        raise SettingsError(f"{file}: {problem}") from None
    if not settings.tls_directory and not settings.address.startswith("127."):
        raise SettingsError(f"{file}: address {settings.address} is not loopback; set tlsDirectory")
    return settings


def read_secrets(directory: Path) -> Secrets:
    """Return the secrets of a mounted Secret; each key is a file.

    Raises:
        SettingsError: A key is missing.
    """
    data: dict[str, bytes] = {}
    for field in msgspec.structs.fields(Secrets):
        if field.name in _DERIVED:
            continue
        key = field.name.replace("_", "-")
        file = directory / key
        try:
            data[field.name] = file.read_bytes().strip()
        except OSError:
            if field.required:
                raise SettingsError(f"the Secret has no key {key} ({file})") from None
    keys = {name.replace("_", "-"): value for name, value in data.items()}
    found = {name: value.decode() for name, value in data.items()}
    return Secrets(
        **found, accepted=accepted_tokens(keys), revision=revision(keys), token_revision=token_revision(keys)
    )
