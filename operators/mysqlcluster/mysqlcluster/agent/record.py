"""The state that survives restarts of the agent: one file, which is replaced atomically before each action."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from mysqlcluster.observation import Role

__all__ = ["Record", "load_record", "save_record"]


class Record(msgspec.Struct, frozen=True, rename="camel"):
    """The state of an agent on disk."""

    epoch: int = 0
    role: Role = Role.NONE
    """The last role that an action set; after a restart of the server the role in force is `NONE`."""
    initialized: bool = False
    complete: bool = False
    has_relay_log: bool = False
    """The relay log may contain transactions that are not executed; the next start of the server discards it."""
    starts: int = 0
    accounts_revision: str = ""
    data_version: str = ""
    """Version of the system tables in the data."""


def load_record(file: Path) -> Record:
    """Return the record in a file; an empty record if the file does not exist.

    Raises:
        ValueError: The file is not a record, so the epoch is unknown.
    """
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return Record()
    try:
        return msgspec.json.decode(content, type=Record)
    except msgspec.DecodeError as problem:
        raise ValueError(f"{file} is not the record of an agent: {problem}") from None


def save_record(file: Path, record: Record) -> None:
    """Replace the record, and return when it is on disk."""
    fresh = file.with_suffix(".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, msgspec.json.encode(record))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(fresh, file)
    directory = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
