"""The protocol between the agent and a database server, independent of the flavor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from mysqlcluster.gtid import GtidSet

__all__ = [
    "HEARTBEAT_SECONDS",
    "RECEIVE_TIMEOUT_SECONDS",
    "Account",
    "Engine",
    "Layout",
    "ReplicationSource",
    "Row",
    "ServerFacts",
    "ServerOptions",
    "Session",
]

Row = Mapping[str, Any]

HEARTBEAT_SECONDS = 1
"""Time without transactions after which a source sends a heartbeat to its replicas."""
RECEIVE_TIMEOUT_SECONDS = 3
"""Time without data after which a replica closes the connection to its source. The host of a source can disappear
without closing its connections. A failover waits until no replica receives, and so for this time."""


class Session(Protocol):
    """A connection to the local server."""

    async def run(self, statement: str, *arguments: Any) -> list[Row]:
        """Run one statement, and return its rows with the column names as keys."""
        ...


class Layout(msgspec.Struct, frozen=True):
    """The directories of a server: `root` contains its programs, `data` all files that it writes."""

    root: Path
    data: Path

    @property
    def database(self) -> Path:
        """The data directory of the server."""
        return self.data / "database"

    @property
    def socket(self) -> Path:
        """The UNIX socket that the agent connects to."""
        return self.data / "run" / "server.sock"

    @property
    def configuration(self) -> Path:
        """The configuration file that the agent writes."""
        return self.data / "run" / "server.cnf"

    @property
    def log(self) -> Path:
        """The error log of the server."""
        return self.data / "run" / "server.log"


class ServerOptions(msgspec.Struct, frozen=True):
    """The settings of one server, which result from the cluster and the member."""

    server_id: int
    """Unique in the cluster, from 1."""
    name: str
    """The member's name, which the server reports to its source."""
    address: str = "127.0.0.1"
    port: int = 3306
    settings: Mapping[str, str] = {}
    """Settings of `spec.config`; the agent's own take precedence."""
    user: str = ""
    """The operating system user that runs the server; MariaDB requires this option if the user is root."""
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_authority: Path | None = None
    init_file: Path | None = None
    """Statements that the server executes when it starts."""


class ReplicationSource(msgspec.Struct, frozen=True):
    """The server that a replica reads from."""

    host: str
    port: int
    user: str
    password: str
    tls_authority: Path | None = None


class ServerFacts(msgspec.Struct, frozen=True):
    """The state of one server, as its status variables and tables report it."""

    version: str
    read_only: bool
    executed: GtidSet
    retrieved: GtidSet = GtidSet()
    committing: GtidSet = GtidSet()
    """Transactions in the binary log whose commits wait for acknowledgements; empty if `executed` includes them."""
    source_host: str = ""
    io_running: bool = False
    sql_running: bool = False
    io_error: str = ""
    sql_error: str = ""
    semi_sync_source: bool = False
    semi_sync_replica: bool = False
    ack_count: int = 0
    commits_waiting: int = 0
    lag_seconds: float | None = None
    connections: int = 0
    max_connections: int = 0


class Engine(Protocol):
    """The commands and statements of one flavor."""

    flavor: str
    max_ack_count: int
    """The most acknowledgements that a commit can wait for."""
    exporter_privileges: tuple[str, ...]
    """The privileges that the metrics exporter needs."""

    def initialize_command(self, layout: Layout) -> list[str]:
        """Return the command that initializes an empty data directory; the account `root` then has no password."""
        ...

    def configuration(self, layout: Layout, options: ServerOptions) -> str:
        """Return the configuration file: read-only at start, replication stopped, durable commits, GTIDs."""
        ...

    def server_command(self, layout: Layout) -> list[str]:
        """Return the command that runs the server in the foreground."""
        ...

    def environment(self, layout: Layout) -> dict[str, str]:
        """Return the environment of all commands."""
        ...

    def version_command(self, layout: Layout) -> list[str]:
        """Return the command that prints the version of the server."""
        ...

    def upgrade_command(self, layout: Layout) -> list[str]:
        """Return the command that upgrades the system tables of the running server, without writing to the binary log.

        Empty if the server does so itself. The password is in the environment, as `MYSQL_PWD`.
        """
        ...

    def version_of(self, directory: Path) -> str:
        """Return the server version of a prepared copy; empty if the copy does not contain it."""
        ...

    def backup_command(self, layout: Layout, password_file: Path, scratch: Path) -> list[str]:
        """Return the command that writes a consistent copy of the running server to its standard output."""
        ...

    def unpack_command(self, layout: Layout, directory: Path) -> list[str]:
        """Return the command that unpacks such a copy from its standard input into a directory."""
        ...

    def prepare_command(self, layout: Layout, directory: Path) -> list[str]:
        """Return the command that makes an unpacked copy consistent; empty if the server does so when it starts."""
        ...

    def replay_commands(
        self, layout: Layout, password_file: Path, files: Sequence[Path]
    ) -> tuple[list[str], list[str]]:
        """Return the command that prints the statements of binary logs, and the one that executes them."""
        ...

    def position_of(self, directory: Path) -> GtidSet:
        """Return the GTID position of a prepared copy; empty if the server reads it from the copy itself.

        Raises:
            ValueError: The directory contains no copy.
        """
        ...

    def password_statements(self, password: str) -> tuple[str, ...]:
        """Return the statements that a server executes when it starts, to set its local administrator's password.

        They do not write to the binary log.
        """
        ...

    async def set_root_password(self, session: Session, password: str) -> None:
        """Change the password of the local administrator, without writing to the binary log."""
        ...

    async def reload_certificates(self, session: Session) -> None:
        """Use the certificate files for new connections, without writing to the binary log."""
        ...

    async def accept_replay(self, session: Session) -> None:
        """Let the local administrator execute transactions of a binary log; a restart ends it."""
        ...

    async def secure(self, session: Session) -> None:
        """Remove all other accounts from a new database, and begin its history."""
        ...

    async def read(self, session: Session) -> ServerFacts:
        """Return the state of the server."""
        ...

    async def set_executed(self, session: Session, history: GtidSet, position: GtidSet) -> None:
        """Set the transactions that the data of a copy contains, before replication starts."""
        ...

    async def fence(self, session: Session) -> None:
        """Stop the thread that receives transactions, and wait until it has stopped."""
        ...

    async def set_source(self, session: Session, source: ReplicationSource, *, acknowledge: bool) -> None:
        """Replicate from a source, read-only. The server deletes its relay log."""
        ...

    async def receive(self, session: Session, *, acknowledge: bool, restart: bool) -> None:
        """Start the thread that receives transactions, and keep the relay log.

        `acknowledge` takes effect when the thread connects; `restart` lets a running thread connect again.
        """
        ...

    async def start_applier(self, session: Session) -> None:
        """Start the SQL thread alone: execute received transactions without receiving more."""
        ...

    async def stop_replication(self, session: Session) -> None:
        """Stop both replication threads."""
        ...

    async def promote(self, session: Session, ack_count: int) -> None:
        """End replication, wait for acknowledgements of each commit if `ack_count` is positive, and accept writes."""
        ...

    async def set_ack_count(self, session: Session, ack_count: int) -> None:
        """Change the number of acknowledgements of a primary; 0 turns waiting off."""
        ...

    async def refuse_writes(self, session: Session) -> None:
        """Turn read-only on, and return when no commit is in progress."""
        ...

    async def client_sessions(self, session: Session) -> list[int]:
        """Return the ids of client connections, without replication, internal threads and this session."""
        ...

    async def kill(self, session: Session, connection: int) -> None:
        """Close one client connection, if it still exists."""
        ...

    async def set_variable(self, session: Session, name: str, value: str) -> bool:
        """Set a dynamic variable; returns `False` if only a restart can change it."""
        ...

    async def purge_binary_logs(self, session: Session, until: str) -> None:
        """Delete the binary logs before a file, except those that a replica still reads."""
        ...

    async def apply_account(self, session: Session, account: Account) -> None:
        """Create or update an account with its password and privileges; a former password remains valid."""
        ...

    async def retire_password(self, session: Session, account: Account) -> None:
        """End the validity of the former password of an account."""
        ...


class Account(msgspec.Struct, frozen=True):
    """An account of the server; `host` is `%` for every address."""

    name: str
    password: str
    privileges: tuple[str, ...] = ()
    """Privileges on all databases, such as `SELECT`."""
    database: str = ""
    """A database on which the account has all privileges; it is created if it does not exist."""
    require_tls: bool = False
    revision: str = ""
    """The revision of the passwords, which the server stores with the account."""

    def __repr__(self) -> str:
        return f"Account({self.name!r})"
