"""The settings of an archiver, from one JSON file; credentials and keys come from the directories of mounted Secrets."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from mysqlcluster.agent.settings import ROOT_VARIABLE, SettingsError, load_settings
from mysqlcluster.backup.archive import Archive
from mysqlcluster.backup.dialects import dialect_of
from mysqlcluster.backup.s3 import S3Store
from mysqlcluster.backup.sealing import KEY_BYTES
from mysqlcluster.backup.stores import DirectoryStore, Store
from mysqlcluster.credentials import FORMER_TOKEN, NEXT_TOKEN, TOKEN

__all__ = [
    "ArchiveSettings",
    "ArchiverSettings",
    "S3Settings",
    "archive_of",
    "load_archiver_settings",
    "read_token",
    "read_tokens",
]

MAX_SECRET_BYTES = 1 << 14


class S3Settings(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A bucket."""

    bucket: str
    credentials_directory: str
    """A directory with `accessKeyId` and `secretAccessKey`."""
    endpoint: str = ""
    prefix: str = ""
    region: str = "us-east-1"


class ArchiveSettings(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The location of the archive of a cluster."""

    location: str
    """The path of the cluster within the target."""
    directory: str = ""
    """The directory of the target; empty with `s3`."""
    s3: S3Settings | None = None
    key_directory: str = ""
    """A directory with `key`, 32 bytes in base64; empty without encryption."""


class ArchiverSettings(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The settings of one archiver."""

    cluster: str
    flavor: str
    scratch_directory: str
    secrets_directory: str
    root_directory: str = "/"
    tls_directory: str = ""
    address: str = "127.0.0.1"
    port: int = 8444
    peer_url: str = ""
    """The URL of a member's agent, with `{member}` for its name."""
    peers: Mapping[str, str] = {}
    archive: ArchiveSettings | None = None
    """The archive that this cluster's backups are written to."""
    source: ArchiveSettings | None = None
    """The archive that this cluster is restored from."""

    def url_of(self, member: str) -> str:
        """Return the URL of a member's agent."""
        return self.peers.get(member) or self.peer_url.format(member=member)


def load_archiver_settings(file: Path) -> ArchiverSettings:
    """Return the settings of a file.

    Raises:
        SettingsError: The file is not valid; see `load_settings`.
    """
    settings = load_settings(file, ArchiverSettings)
    root = os.environ.get(ROOT_VARIABLE)
    return msgspec.structs.replace(settings, root_directory=root) if root else settings


def archive_of(settings: ArchiveSettings, flavor: str, *, writes: bool) -> Archive:
    """Return the archive that settings describe.

    Args:
        settings: The settings.
        flavor: The flavor of the cluster.
        writes: Whether this process writes; then it removes the unfinished files of a killed process.

    Raises:
        SettingsError: A credential or the key is missing or malformed.
        StoreError: The target cannot be used.
    """
    store: Store
    if settings.s3 is not None:
        credentials = Path(settings.s3.credentials_directory)
        prefix = "/".join(filter(None, (settings.s3.prefix.strip("/"), settings.location)))
        store = S3Store(
            endpoint=settings.s3.endpoint,
            bucket=settings.s3.bucket,
            prefix=prefix,
            region=settings.s3.region,
            access_key=_secret(credentials / "accessKeyId"),
            secret_key=_secret(credentials / "secretAccessKey"),
        )
    else:
        directory = DirectoryStore(Path(settings.directory) / settings.location)
        if writes:
            directory.clean()
        store = directory
    key = _key(Path(settings.key_directory) / "key") if settings.key_directory else None
    return Archive(store, key, dialect_of(flavor))


def _key(file: Path) -> bytes:
    try:
        key = base64.b64decode(_secret(file), validate=True)
    except binascii.Error:
        raise SettingsError(f"{file}: the key is not base64") from None
    if len(key) != KEY_BYTES:
        raise SettingsError(f"{file}: the key has {len(key)} bytes; it must have {KEY_BYTES}")
    return key


def read_token(directory: Path) -> str:
    """Read the token that the archiver sends to agents; raises `SettingsError`."""
    return _secret(directory / TOKEN)


def read_tokens(directory: Path) -> Mapping[str, bytes]:
    """Read all tokens of the mounted Secret, by key; raises `SettingsError`."""
    present = [key for key in (TOKEN, NEXT_TOKEN, FORMER_TOKEN) if key == TOKEN or (directory / key).exists()]
    return {key: _secret(directory / key).encode() for key in present}


def _secret(file: Path) -> str:
    try:
        return file.read_bytes()[:MAX_SECRET_BYTES].strip().decode()
    except (OSError, UnicodeDecodeError) as problem:
        raise SettingsError(f"the Secret has no usable key {file.name}: {type(problem).__name__}") from None
