"""Objects in one SQLite file, so that a cluster survives the end of its process, even a SIGKILL.

Each write is a transaction in the write-ahead log, which the operating system has before the client receives the
response: a killed process loses no acknowledged write. A power failure may lose writes; this is not a production
store.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from steersman_cluster.storage.items import GroupResource, Item

__all__ = ["DataError", "Database"]

_SCHEMA = """
create table if not exists objects (
    api_group text not null, resource text not null, namespace text not null, name text not null,
    revision integer not null, value blob not null,
    primary key (api_group, resource, namespace, name)
) without rowid;
create table if not exists facts (name text primary key, value blob not null) without rowid;
"""
_VERSION = 1
_ADVICE = "choose another --data"


class DataError(Exception):
    """The data directory cannot be used; the message says what failed and what to do."""


def _check(path: Path) -> None:
    """Create the directory and check that it is writable, because SQLite gives no reason."""
    directory = path.parent
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    except FileExistsError:
        raise DataError(f"{directory} is no directory; {_ADVICE}") from None
    except OSError as problem:
        raise DataError(f"{directory} cannot be made: {problem.strerror}; {_ADVICE}") from None
    if path.exists() and not path.is_file():
        raise DataError(f"{path} is no file, and the data of a cluster is one; {_ADVICE}")
    if not os.access(directory, os.W_OK | os.X_OK) or (path.exists() and not os.access(path, os.R_OK | os.W_OK)):
        raise DataError(f"{path if path.exists() else directory} cannot be written; {_ADVICE}")


class Database:
    """One file. Not for two processes at a time: the second is refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _check(path)
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0.2)
        except sqlite3.OperationalError as problem:
            raise DataError(f"{path} cannot be used: {problem}; {_ADVICE}") from None
        try:
            self._prepare()
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        """Take the file for this process, and check that it is the data of a cluster. Raises `DataError`."""
        path = self.path
        try:
            path.chmod(0o600)
            self._db.execute("pragma locking_mode=exclusive")
            self._db.execute("pragma journal_mode=wal")
            self._db.execute("pragma synchronous=normal")
            self._db.executescript(_SCHEMA)
        except sqlite3.OperationalError as problem:
            if "locked" in str(problem):
                raise DataError(
                    f"{path} is in use by another cluster: stop that one, or choose another --data"
                ) from None
            raise DataError(f"{path} cannot be used: {problem}; {_ADVICE}") from None
        except sqlite3.DatabaseError as problem:
            raise DataError(f"{path} is no data of a cluster: {problem}; move it away to start afresh") from None
        except OSError as problem:
            raise DataError(f"{path} cannot be used: {problem.strerror}; {_ADVICE}") from None
        version = self.fact("version")
        if version is None:
            self.remember("version", str(_VERSION).encode())
        elif int(version) != _VERSION:
            raise DataError(f"{path} is of data version {version.decode()}, and this Steersman reads {_VERSION}")

    def load(self) -> Iterator[tuple[GroupResource, Item]]:
        """Everything stored."""
        rows = self._db.execute("select api_group, resource, namespace, name, revision, value from objects")
        for group, resource, namespace, name, revision, value in rows:
            yield (group, resource), Item(namespace, name, revision, value)

    def put(self, resource: GroupResource, item: Item) -> None:
        """Write one object and the revision that it brings; durable against a crash of the process when it returns."""
        self._db.execute(
            "insert or replace into objects values (?, ?, ?, ?, ?, ?)",
            (*resource, item.namespace, item.name, item.revision, item.value),
        )

    def delete(self, resource: GroupResource, namespace: str, name: str, revision: int) -> None:
        """Remove one object and remember the revision of that."""
        db = self._db
        db.execute("begin")
        try:
            db.execute(
                "delete from objects where api_group = ? and resource = ? and namespace = ? and name = ?",
                (*resource, namespace, name),
            )
            db.execute("insert or replace into facts values ('revision', ?)", (str(revision).encode(),))
            db.execute("commit")
        except BaseException:
            if db.in_transaction:
                db.execute("rollback")
            raise

    def fact(self, name: str) -> bytes | None:
        """A value that belongs to the cluster rather than to an object (keys, the revision)."""
        row = self._db.execute("select value from facts where name = ?", (name,)).fetchone()
        return None if row is None else bytes(row[0])

    def remember(self, name: str, value: bytes) -> None:
        """Set such a value."""
        self._db.execute("insert or replace into facts values (?, ?)", (name, value))

    def close(self) -> None:
        """Fold the log into the file and close it."""
        self._db.close()
