"""MariaDB 10.11 and later: mariadb-backup for copies, semi-synchronous replication built in.

The statements depend on these facts:

- A commit waits for one acknowledgement; MariaDB has no setting for more.
- Semi-synchronous replication as a source must be on at the primary only. On a replica, the SQL thread would also wait
  for acknowledgements.
- `read_only` does not stop accounts with the privileges `READ_ONLY ADMIN` or `SUPER`; only the local administrator has
  them.
- If semi-synchronous replication is turned off, commits that wait end as if they had been acknowledged. So a primary
  that must not commit is stopped, not reconfigured.
- A server that starts with GTIDs deletes the relay log when replication starts.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from mysqlcluster.engines.base import (
    HEARTBEAT_SECONDS,
    RECEIVE_TIMEOUT_SECONDS,
    Account,
    Layout,
    ReplicationSource,
    Row,
    ServerFacts,
    ServerOptions,
    Session,
)
from mysqlcluster.engines.sql import (
    checked,
    close_connection,
    configuration_text,
    environment,
    error_text,
    quoted,
    set_global,
)
from mysqlcluster.gtid import GtidSet

__all__ = ["MariaDB"]

SEMI_SYNC_TIMEOUT_MS = (1 << 63) - 1
"""A commit waits for its acknowledgement without a time limit, and never becomes asynchronous."""

POLL_SECONDS = 0.01


class MariaDB:
    """The engine of the flavor `mariadb`."""

    flavor = "mariadb"
    max_ack_count = 1
    exporter_privileges: tuple[str, ...] = ("PROCESS", "BINLOG MONITOR", "SLAVE MONITOR")

    def environment(self, layout: Layout) -> dict[str, str]:
        return environment(layout)

    def initialize_command(self, layout: Layout) -> list[str]:
        return [
            str(layout.root / "usr/bin/mariadb-install-db"),
            "--no-defaults",
            f"--basedir={layout.root}/usr",
            f"--datadir={layout.database}",
            f"--lc-messages-dir={layout.root}/usr/share/mysql",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            "--skip-name-resolve",
        ]

    def configuration(self, layout: Layout, options: ServerOptions) -> str:
        own: dict[str, str] = {
            "basedir": f"{layout.root}/usr",
            "lc_messages_dir": f"{layout.root}/usr/share/mysql",
            "datadir": str(layout.database),
            "socket": str(layout.socket),
            "pid_file": str(layout.data / "run" / "server.pid"),
            "log_error": str(layout.log),
            "port": str(options.port),
            "bind_address": options.address,
            "server_id": str(options.server_id),
            "report_host": options.name,
            "skip_name_resolve": "ON",
            "log_bin": "binlog",
            "relay_log": "relay",
            "log_slave_updates": "ON",
            "binlog_format": "ROW",
            "gtid_strict_mode": "ON",
            "sync_binlog": "1",
            "innodb_flush_log_at_trx_commit": "1",
            "sync_relay_log": "1",
            "read_only": "ON",
            "skip_slave_start": "ON",
            "rpl_semi_sync_master_enabled": "OFF",
            "rpl_semi_sync_slave_enabled": "OFF",
            "rpl_semi_sync_master_timeout": str(SEMI_SYNC_TIMEOUT_MS),
            "rpl_semi_sync_master_wait_point": "AFTER_SYNC",
            "slave_net_timeout": str(RECEIVE_TIMEOUT_SECONDS),
            "local_infile": "OFF",
        }
        if options.user:
            own["user"] = options.user
        if options.tls_certificate and options.tls_key and options.tls_authority:
            own |= {
                "ssl_cert": str(options.tls_certificate),
                "ssl_key": str(options.tls_key),
                "ssl_ca": str(options.tls_authority),
            }
        if options.init_file:
            own["init_file"] = str(options.init_file)
        defaults = {
            "innodb_buffer_pool_size": "64M",
            "performance_schema": "OFF",
            "max_binlog_size": "128M",
            "slave_parallel_threads": "4",
            "slave_parallel_mode": "optimistic",
        }
        merged = defaults | {name.replace("-", "_"): value for name, value in options.settings.items()} | own
        return configuration_text("mariadbd", merged)

    def server_command(self, layout: Layout) -> list[str]:
        return [str(layout.root / "usr/sbin/mariadbd"), f"--defaults-file={layout.configuration}"]

    def version_command(self, layout: Layout) -> list[str]:
        return [str(layout.root / "usr/sbin/mariadbd"), "--no-defaults", "--version"]

    def upgrade_command(self, layout: Layout) -> list[str]:
        program = str(layout.root / "usr/bin/mariadb-upgrade")
        return [program, "--no-defaults", "--user=root", f"--socket={layout.socket}", "--silent"]

    def version_of(self, directory: Path) -> str:
        for name in ("mariadb_backup_info", "xtrabackup_info"):
            file = directory / name
            if file.exists() and (found := re.search(r"^server_version = (\S+)", file.read_text(), re.MULTILINE)):
                return found[1]
        return ""

    def backup_command(self, layout: Layout, password_file: Path, scratch: Path) -> list[str]:
        return [
            str(layout.root / "usr/bin/mariadb-backup"),
            f"--defaults-file={password_file}",
            "--backup",
            "--stream=mbstream",
            f"--target-dir={scratch}",
            f"--datadir={layout.database}",
            f"--socket={layout.socket}",
        ]

    def unpack_command(self, layout: Layout, directory: Path) -> list[str]:
        return [str(layout.root / "usr/bin/mbstream"), "-x", "-C", str(directory)]

    def prepare_command(self, layout: Layout, directory: Path) -> list[str]:
        program = str(layout.root / "usr/bin/mariadb-backup")
        return [program, "--no-defaults", "--prepare", f"--target-dir={directory}"]

    def replay_commands(
        self, layout: Layout, password_file: Path, files: Sequence[Path]
    ) -> tuple[list[str], list[str]]:
        programs = layout.root / "usr/bin"
        printing = [str(programs / "mariadb-binlog"), "--no-defaults", *map(str, files)]
        executing = [
            str(programs / "mariadb"),
            f"--defaults-file={password_file}",
            f"--socket={layout.socket}",
            "--binary-mode",
            "--max-allowed-packet=1G",
        ]
        return printing, executing

    def position_of(self, directory: Path) -> GtidSet:
        for name in ("mariadb_backup_binlog_info", "xtrabackup_binlog_info"):
            file = directory / name
            if file.exists():
                words = file.read_text().split()
                return GtidSet.parse(words[2] if len(words) > 2 else "")
        raise ValueError(f"{directory} holds no copy of a server: mariadb_backup_binlog_info is missing")

    def password_statements(self, password: str) -> tuple[str, ...]:
        return ("SET SESSION sql_log_bin = 0", f"ALTER USER root@localhost IDENTIFIED BY {quoted(password)}")

    async def set_root_password(self, session: Session, password: str) -> None:
        for statement in self.password_statements(password):
            await session.run(statement)

    async def reload_certificates(self, session: Session) -> None:
        await session.run("SET SESSION sql_log_bin = 0")
        await session.run("FLUSH SSL")

    async def accept_replay(self, session: Session) -> None:
        """Do nothing: `read_only` does not stop the local administrator."""

    async def secure(self, session: Session) -> None:
        await session.run("SET SESSION sql_log_bin = 0")
        await session.run(
            "DELETE FROM mysql.global_priv WHERE NOT (User = 'root' AND Host = 'localhost') AND User <> 'mariadb.sys'"
        )
        await session.run("FLUSH PRIVILEGES")
        await session.run("RESET MASTER")

    async def read(self, session: Session) -> ServerFacts:
        (variables,) = await session.run(
            "SELECT @@version AS version, @@read_only AS read_only, @@gtid_binlog_state AS binlog_state,"
            " @@gtid_slave_pos AS slave_pos, @@rpl_semi_sync_master_enabled AS source,"
            " @@rpl_semi_sync_slave_enabled AS replica, @@max_connections AS max_connections"
        )
        status = {
            row["Variable_name"]: row["Value"]
            for row in await session.run(
                "SHOW GLOBAL STATUS WHERE Variable_name IN"
                " ('Threads_connected', 'Rpl_semi_sync_master_wait_sessions', 'Rpl_semi_sync_slave_status')"
            )
        }
        replication = await session.run("SHOW SLAVE STATUS")
        executed = GtidSet.parse(variables["binlog_state"] or "").union(GtidSet.parse(variables["slave_pos"] or ""))
        is_source = bool(variables["source"])
        facts = ServerFacts(
            version=variables["version"],
            read_only=bool(variables["read_only"]),
            executed=executed,
            semi_sync_source=is_source,
            semi_sync_replica=bool(variables["replica"]) and status.get("Rpl_semi_sync_slave_status") == "ON",
            ack_count=1 if is_source else 0,
            commits_waiting=int(status.get("Rpl_semi_sync_master_wait_sessions", 0)),
            connections=int(status.get("Threads_connected", 0)),
            max_connections=int(variables["max_connections"]),
        )
        return _with_replication(facts, replication[0]) if replication else facts

    async def set_executed(self, session: Session, history: GtidSet, position: GtidSet) -> None:
        await session.run("STOP SLAVE")
        await session.run("RESET SLAVE ALL")
        await session.run("RESET MASTER")
        await session.run(f"SET GLOBAL gtid_binlog_state = {quoted(str(history.union(position)))}")
        await session.run(f"SET GLOBAL gtid_slave_pos = {quoted(position.position())}")

    async def fence(self, session: Session) -> None:
        await session.run("STOP SLAVE IO_THREAD")

    async def set_source(self, session: Session, source: ReplicationSource, *, acknowledge: bool) -> None:
        await session.run("SET GLOBAL read_only = ON")
        await session.run("STOP SLAVE")
        await session.run("SET GLOBAL rpl_semi_sync_master_enabled = OFF")
        await session.run(f"SET GLOBAL rpl_semi_sync_slave_enabled = {'ON' if acknowledge else 'OFF'}")
        tls = ""
        if source.tls_authority is not None:
            tls = f", MASTER_SSL = 1, MASTER_SSL_VERIFY_SERVER_CERT = 1, MASTER_SSL_CA = {quoted(str(source.tls_authority))}"
        await self._continue_from_own_transactions(session)
        await session.run(
            f"CHANGE MASTER TO MASTER_HOST = {quoted(source.host)}, MASTER_PORT = {source.port:d},"
            f" MASTER_USER = {quoted(source.user)}, MASTER_PASSWORD = {quoted(source.password)},"
            f" MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1, MASTER_HEARTBEAT_PERIOD = {HEARTBEAT_SECONDS}{tls}"
        )
        await session.run("START SLAVE")

    async def _continue_from_own_transactions(self, session: Session) -> None:
        """Add the server's own transactions, which are in its binlog only, to the replica position."""
        (position,) = await session.run("SELECT @@gtid_current_pos AS current, @@gtid_slave_pos AS applied")
        if position["current"] != position["applied"]:
            await session.run(f"SET GLOBAL gtid_slave_pos = {quoted(position['current'])}")

    async def receive(self, session: Session, *, acknowledge: bool, restart: bool) -> None:
        if restart:
            await session.run("STOP SLAVE IO_THREAD")
        await session.run(f"SET GLOBAL rpl_semi_sync_slave_enabled = {'ON' if acknowledge else 'OFF'}")
        await session.run("START SLAVE IO_THREAD")

    async def start_applier(self, session: Session) -> None:
        await session.run("START SLAVE SQL_THREAD")

    async def stop_replication(self, session: Session) -> None:
        await session.run("STOP SLAVE")
        await session.run("SET GLOBAL rpl_semi_sync_slave_enabled = OFF")

    async def promote(self, session: Session, ack_count: int) -> None:
        await session.run("STOP SLAVE")
        await session.run("RESET SLAVE ALL")
        await session.run("SET GLOBAL rpl_semi_sync_slave_enabled = OFF")
        await self.set_ack_count(session, ack_count)
        await session.run("SET GLOBAL read_only = OFF")

    async def set_ack_count(self, session: Session, ack_count: int) -> None:
        await session.run(f"SET GLOBAL rpl_semi_sync_master_timeout = {SEMI_SYNC_TIMEOUT_MS}")
        await session.run(f"SET GLOBAL rpl_semi_sync_master_enabled = {'ON' if ack_count else 'OFF'}")

    async def refuse_writes(self, session: Session) -> None:
        await session.run("SET GLOBAL read_only = ON")
        while True:  # `read_only` does not wait for commits that wait for replicas; they are counted here
            waiting = await session.run("SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_master_wait_sessions'")
            if not waiting or int(waiting[0]["Value"]) == 0:
                return
            await asyncio.sleep(POLL_SECONDS)

    async def client_sessions(self, session: Session) -> list[int]:
        rows = await session.run(
            "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND USER <> 'system user'"
            " AND USER <> 'event_scheduler' AND COMMAND NOT IN ('Binlog Dump', 'Daemon', 'Slave_IO', 'Slave_SQL')"
            " AND NOT (USER = 'root' AND HOST = 'localhost')"
        )
        return [int(row["ID"]) for row in rows]

    async def kill(self, session: Session, connection: int) -> None:
        await close_connection(session, connection)

    async def set_variable(self, session: Session, name: str, value: str) -> bool:
        return await set_global(session, name, value)

    async def purge_binary_logs(self, session: Session, until: str) -> None:
        await session.run(f"PURGE BINARY LOGS TO {quoted(until)}")

    async def apply_account(self, session: Session, account: Account) -> None:
        user = f"{quoted(account.name)}@'%'"
        tls = "REQUIRE SSL" if account.require_tls else "REQUIRE NONE"
        known, new = await _password_hashes(session, account.name), _password_hash(account.password)
        if not known:
            await session.run(f"CREATE USER {user} IDENTIFIED BY {quoted(account.password)} {tls}")
        elif known[0] == new:
            await session.run(f"ALTER USER {user} {tls}")
        else:
            former = f"mysql_native_password USING {quoted(known[0])}"
            method = f"mysql_native_password USING {quoted(new)} OR {former}"
            await session.run(f"ALTER USER {user} IDENTIFIED VIA {method} {tls}")
        if account.privileges:
            await session.run(f"GRANT {', '.join(account.privileges)} ON *.* TO {user}")
        if account.database:
            name = checked(account.database)
            await session.run(f"CREATE DATABASE IF NOT EXISTS `{name}`")
            await session.run(f"GRANT ALL PRIVILEGES ON `{name}`.* TO {user}")

    async def retire_password(self, session: Session, account: Account) -> None:
        new = _password_hash(account.password)
        if await _password_hashes(session, account.name) != [new]:
            method = f"mysql_native_password USING {quoted(new)}"
            await session.run(f"ALTER USER {quoted(account.name)}@'%' IDENTIFIED VIA {method}")


def _password_hash(password: str) -> str:
    """Return the hash of a password as `mysql_native_password` stores it."""
    return "*" + hashlib.sha1(hashlib.sha1(password.encode()).digest()).hexdigest().upper()


async def _password_hashes(session: Session, name: str) -> list[str]:
    """Return the hashes of the passwords that an account accepts, the newest first; none if it does not exist."""
    rows = await session.run("SELECT Priv FROM mysql.global_priv WHERE User = %s AND Host = %s", name, "%")
    if not rows:
        return []
    stored = msgspec.json.decode(rows[0]["Priv"], type=_Privileges)
    # An empty element of `auth_or` means the method of the whole object.
    return [each.authentication_string or stored.authentication_string for each in stored.auth_or] or [
        stored.authentication_string
    ]


class _Method(msgspec.Struct):
    authentication_string: str = ""


class _Privileges(msgspec.Struct):
    authentication_string: str = ""
    auth_or: list[_Method] = []


def _with_replication(facts: ServerFacts, row: Row) -> ServerFacts:
    behind = row["Seconds_Behind_Master"]
    return msgspec.structs.replace(
        facts,
        retrieved=GtidSet.parse(row["Gtid_IO_Pos"] or ""),
        source_host=row["Master_Host"] or "",
        io_running=row["Slave_IO_Running"] == "Yes",
        sql_running=row["Slave_SQL_Running"] == "Yes",
        io_error=error_text(row["Last_IO_Errno"], row["Last_IO_Error"]),
        sql_error=error_text(row["Last_SQL_Errno"], row["Last_SQL_Error"]),
        lag_seconds=None if behind is None else float(behind),
    )
