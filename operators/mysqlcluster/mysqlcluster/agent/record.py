"""The state that survives restarts of the agent: one file, which is replaced atomically before each action.

A second file reserves the space for the next record, so that a member whose volume is full can store a new epoch: a
failover needs the new epoch on the replicas that it fences.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

import msgspec

from mysqlcluster.agent.reserve import opened
from mysqlcluster.observation import Role

__all__ = ["RESERVED_BYTES", "Record", "load_record", "reserve_of", "save_record"]

RESERVED_BYTES = 4096
"""The size of the file with a record: one block of common file systems, and more than any record has."""


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


def reserve_of(file: Path) -> Path:
    """Return the file that reserves the space for the next record."""
    return file.with_suffix(".reserve")


def save_record(file: Path, record: Record) -> None:
    """Replace the record, and return when it is on disk.

    The record overwrites the reserved blocks, which then become the file, and new blocks are reserved. On a full volume
    these are the blocks of the previous record.

    Raises:
        OSError: The record is not stored; the previous one is still valid.
    """
    reserve, content = reserve_of(file), msgspec.json.encode(record).ljust(RESERVED_BYTES)
    with opened(reserve) as descriptor:
        if os.pwrite(descriptor, content, 0) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(reserve))
        os.fsync(descriptor)
    os.replace(reserve, file)
    directory = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    # The record is stored. Without a reserve the next one needs free space.
    with contextlib.suppress(OSError), opened(reserve) as descriptor:
        os.posix_fallocate(descriptor, 0, RESERVED_BYTES)
