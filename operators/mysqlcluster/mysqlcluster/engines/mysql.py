"""MySQL 9.7 and later: the clone plugin for copies, semi-synchronous replication by plugins.

The statements depend on these facts:

- The plugins are named `semisync_source` and `semisync_replica`, and so are their variables.
- `super_read_only` implies `read_only`; turning it off leaves `read_only` on.
- A transaction that waits for acknowledgements is in the binary log and in `gtid_owned`, not yet in `gtid_executed`.
- A copy that the clone plugin writes to a local directory contains its GTIDs. The server recovers it when it starts.
- A server upgrades the system tables itself when it starts.
- With `relay_log_recovery` a server discards the relay log when it starts, and receives it from its source again.
- An account that authenticates by `caching_sha2_password` without TLS needs the public key of its server.
"""

from __future__ import annotations

import asyncio
import json
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

__all__ = ["MySQL", "owned_gtids"]

APPLIER_WAITS = "Replica has read all relay log"
"""State of the applier thread that waits for more of the relay log."""
APPLIER_POLL_SECONDS = 0.01
"""Time between reads of the status while the applier stops."""
SEMI_SYNC_TIMEOUT_MS = (1 << 32) - 1
"""The longest timeout that the server accepts, seven weeks; after it a commit becomes asynchronous."""
VERSION_FILE = "copied_version"
"""The file in a copy that contains the version of the donor."""

# The server writes one local copy at a time. Blocks of zeros, which tar skips, reset the recipient's idle timeout.
_BACKUP_SCRIPT = """set -e
client() { "$1/usr/bin/mysql" --defaults-file="$2" --socket="$3" --batch --skip-column-names --execute="$5"; }
(flock 9; client "$@" "CLONE LOCAL DATA DIRECTORY = '$4'") 9>"$3.copy" &
while kill -0 $! 2>/dev/null; do head -c 512 /dev/zero; sleep 0.1; done
wait $!
client "$@" 'SELECT @@version' > "$4/VERSION_FILE"
exec tar --create --file=- --directory="$4" .
""".replace("VERSION_FILE", VERSION_FILE)


class MySQL:
    """The engine of the flavor `mysql`."""

    flavor = "mysql"
    max_ack_count = 8
    exporter_privileges: tuple[str, ...] = ("PROCESS", "REPLICATION CLIENT")

    def environment(self, layout: Layout) -> dict[str, str]:
        return environment(layout)

    def initialize_command(self, layout: Layout) -> list[str]:
        return [
            str(layout.root / "usr/sbin/mysqld"),
            "--no-defaults",
            "--initialize-insecure",
            f"--basedir={layout.root}/usr",
            f"--datadir={layout.database}",
            f"--lc-messages-dir={layout.root}/usr/share/mysql",
            f"--plugin-dir={layout.root}/usr/lib/mysql/plugin",
            "--user=root",
        ]

    def configuration(self, layout: Layout, options: ServerOptions) -> str:
        own: dict[str, str] = {
            "basedir": f"{layout.root}/usr",
            "lc_messages_dir": f"{layout.root}/usr/share/mysql",
            "plugin_dir": f"{layout.root}/usr/lib/mysql/plugin",
            "plugin_load_add": "semisync_source.so;semisync_replica.so;mysql_clone.so",
            "datadir": str(layout.database),
            "socket": str(layout.socket),
            "pid_file": str(layout.data / "run" / "server.pid"),
            "log_error": str(layout.log),
            "port": str(options.port),
            "bind_address": options.address,
            "mysqlx": "OFF",
            "server_id": str(options.server_id),
            "report_host": options.name,
            "skip_name_resolve": "ON",
            "log_bin": "binlog",
            "binlog_expire_logs_auto_purge": "OFF",
            "relay_log": "relay",
            "log_replica_updates": "ON",
            "gtid_mode": "ON",
            "enforce_gtid_consistency": "ON",
            "sync_binlog": "1",
            "innodb_flush_log_at_trx_commit": "1",
            "sync_relay_log": "1",
            "relay_log_recovery": "ON",
            "replica_preserve_commit_order": "ON",
            "super_read_only": "ON",
            "skip_replica_start": "ON",
            "rpl_semi_sync_source_enabled": "OFF",
            "rpl_semi_sync_replica_enabled": "OFF",
            "rpl_semi_sync_source_timeout": str(SEMI_SYNC_TIMEOUT_MS),
            "rpl_semi_sync_source_wait_point": "AFTER_SYNC",
            "rpl_semi_sync_source_wait_no_replica": "ON",
            "replica_net_timeout": str(RECEIVE_TIMEOUT_SECONDS),
            "local_infile": "OFF",
            "secure_file_priv": "NULL",
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
            "replica_parallel_workers": "4",
        }
        merged = defaults | {name.replace("-", "_"): value for name, value in options.settings.items()} | own
        return configuration_text("mysqld", merged)

    def server_command(self, layout: Layout) -> list[str]:
        return [str(layout.root / "usr/sbin/mysqld"), f"--defaults-file={layout.configuration}"]

    def version_command(self, layout: Layout) -> list[str]:
        return [str(layout.root / "usr/sbin/mysqld"), "--no-defaults", "--version"]

    def upgrade_command(self, layout: Layout) -> list[str]:
        return []

    def version_of(self, directory: Path) -> str:
        file = directory / VERSION_FILE
        return file.read_text().strip() if file.exists() else ""

    def backup_command(self, layout: Layout, password_file: Path, scratch: Path) -> list[str]:
        arguments = (str(layout.root), str(password_file), str(layout.socket), str(scratch / "copy"))
        return ["/bin/sh", "-c", _BACKUP_SCRIPT, "copy", *arguments]

    def unpack_command(self, layout: Layout, directory: Path) -> list[str]:
        return ["tar", "--extract", "--ignore-zeros", "--file=-", f"--directory={directory}"]

    def prepare_command(self, layout: Layout, directory: Path) -> list[str]:
        return []

    def replay_commands(
        self, layout: Layout, password_file: Path, files: Sequence[Path]
    ) -> tuple[list[str], list[str]]:
        programs = layout.root / "usr/bin"
        printing = [str(programs / "mysqlbinlog"), "--no-defaults", *map(str, files)]
        executing = [
            str(programs / "mysql"),
            f"--defaults-file={password_file}",
            f"--socket={layout.socket}",
            "--binary-mode",
            "--max-allowed-packet=1G",
        ]
        return printing, executing

    def position_of(self, directory: Path) -> GtidSet:
        if not (directory / "mysql.ibd").exists():
            raise ValueError(f"{directory} holds no copy of a server: mysql.ibd is missing")
        return GtidSet()  # the server reads the position from its own tables

    def password_statements(self, password: str) -> tuple[str, ...]:
        change = f"ALTER USER root@localhost IDENTIFIED BY {quoted(password)}"
        writable, again = "SET GLOBAL super_read_only = OFF", "SET GLOBAL super_read_only = ON"
        return ("SET SESSION sql_log_bin = 0", writable, change, again)

    async def set_root_password(self, session: Session, password: str) -> None:
        (variables,) = await session.run("SELECT @@super_read_only AS read_only")
        if not variables["read_only"]:
            for statement in self.password_statements(password):
                if "super_read_only" not in statement:
                    await session.run(statement)
            return
        # `super_read_only` waits for commits, and with `replica_preserve_commit_order` the applier would wait for it.
        replication = await session.run("SHOW REPLICA STATUS")
        applies = bool(replication) and replication[0]["Replica_SQL_Running"] == "Yes"
        if applies:
            await session.run("STOP REPLICA SQL_THREAD")
        try:
            for statement in self.password_statements(password):
                await session.run(statement)
        finally:
            if applies:
                await session.run("START REPLICA SQL_THREAD")

    async def reload_certificates(self, session: Session) -> None:
        await session.run("SET SESSION sql_log_bin = 0")
        await session.run("ALTER INSTANCE RELOAD TLS")

    async def accept_replay(self, session: Session) -> None:
        await session.run("SET GLOBAL super_read_only = OFF")

    async def secure(self, session: Session) -> None:
        await session.run("RESET BINARY LOGS AND GTIDS")

    async def read(self, session: Session) -> ServerFacts:
        (variables,) = await session.run(
            "SELECT @@version AS version, @@super_read_only AS read_only, @@gtid_executed AS executed,"
            " @@GLOBAL.gtid_owned AS owned, @@rpl_semi_sync_source_enabled AS source,"
            " @@rpl_semi_sync_replica_enabled AS replica, @@rpl_semi_sync_source_wait_for_replica_count AS acks,"
            " @@max_connections AS max_connections"
        )
        status = {
            row["Variable_name"]: row["Value"]
            for row in await session.run(
                "SHOW GLOBAL STATUS WHERE Variable_name IN"
                " ('Threads_connected', 'Rpl_semi_sync_source_wait_sessions', 'Rpl_semi_sync_replica_status')"
            )
        }
        replication = await session.run("SHOW REPLICA STATUS")
        is_source = bool(variables["source"])
        facts = ServerFacts(
            version=variables["version"],
            read_only=bool(variables["read_only"]),
            executed=GtidSet.parse(variables["executed"]),
            committing=owned_gtids(variables["owned"]),
            semi_sync_source=is_source,
            semi_sync_replica=bool(variables["replica"]) and status.get("Rpl_semi_sync_replica_status") == "ON",
            ack_count=int(variables["acks"]) if is_source else 0,
            commits_waiting=int(status.get("Rpl_semi_sync_source_wait_sessions", 0)),
            connections=int(status.get("Threads_connected", 0)),
            max_connections=int(variables["max_connections"]),
        )
        return _with_replication(facts, replication[0]) if replication else facts

    async def set_executed(self, session: Session, history: GtidSet, position: GtidSet) -> None:
        await _stop_replica(session)
        await session.run("RESET REPLICA ALL")

    async def fence(self, session: Session) -> None:
        await session.run("STOP REPLICA IO_THREAD")

    async def set_source(self, session: Session, source: ReplicationSource, *, acknowledge: bool) -> None:
        await session.run("SET GLOBAL super_read_only = ON")
        await _stop_replica(session)
        await session.run("SET GLOBAL rpl_semi_sync_source_enabled = OFF")
        await session.run(f"SET GLOBAL rpl_semi_sync_replica_enabled = {'ON' if acknowledge else 'OFF'}")
        tls = ", SOURCE_SSL = 0, GET_SOURCE_PUBLIC_KEY = 1"
        if source.tls_authority is not None:
            authority = quoted(str(source.tls_authority))
            tls = f", SOURCE_SSL = 1, SOURCE_SSL_VERIFY_SERVER_CERT = 1, SOURCE_SSL_CA = {authority}"
        await session.run(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = {quoted(source.host)}, SOURCE_PORT = {source.port:d},"
            f" SOURCE_USER = {quoted(source.user)}, SOURCE_PASSWORD = {quoted(source.password)},"
            " SOURCE_AUTO_POSITION = 1, SOURCE_CONNECT_RETRY = 1, SOURCE_RETRY_COUNT = 0,"
            f" SOURCE_HEARTBEAT_PERIOD = {HEARTBEAT_SECONDS}{tls}"
        )
        await session.run("START REPLICA")

    async def receive(self, session: Session, *, acknowledge: bool, restart: bool) -> None:
        if restart:
            await session.run("STOP REPLICA IO_THREAD")
        await session.run(f"SET GLOBAL rpl_semi_sync_replica_enabled = {'ON' if acknowledge else 'OFF'}")
        await session.run("START REPLICA IO_THREAD")

    async def start_applier(self, session: Session) -> None:
        await session.run("START REPLICA SQL_THREAD")

    async def stop_replication(self, session: Session) -> None:
        await _stop_replica(session)
        await session.run("SET GLOBAL rpl_semi_sync_replica_enabled = OFF")

    async def promote(self, session: Session, ack_count: int) -> None:
        await _stop_replica(session)
        await session.run("RESET REPLICA ALL")
        await session.run("SET GLOBAL rpl_semi_sync_replica_enabled = OFF")
        await self.set_ack_count(session, ack_count)
        await session.run("SET GLOBAL read_only = OFF")

    async def set_ack_count(self, session: Session, ack_count: int) -> None:
        await session.run(f"SET GLOBAL rpl_semi_sync_source_timeout = {SEMI_SYNC_TIMEOUT_MS}")
        await session.run(f"SET GLOBAL rpl_semi_sync_source_wait_for_replica_count = {max(1, ack_count):d}")
        await session.run(f"SET GLOBAL rpl_semi_sync_source_enabled = {'ON' if ack_count else 'OFF'}")

    async def refuse_writes(self, session: Session) -> None:
        await session.run("SET GLOBAL super_read_only = ON")  # waits for commits in progress

    async def client_sessions(self, session: Session) -> list[int]:
        rows = await session.run("SHOW PROCESSLIST")
        (own,) = await session.run("SELECT CONNECTION_ID() AS id")
        return [int(row["Id"]) for row in rows if row["Id"] != own["id"] and _is_client(row)]

    async def kill(self, session: Session, connection: int) -> None:
        await close_connection(session, connection)

    async def set_variable(self, session: Session, name: str, value: str) -> bool:
        return await set_global(session, name, value)

    async def purge_binary_logs(self, session: Session, until: str) -> None:
        await session.run(f"PURGE BINARY LOGS TO {quoted(until)}")

    async def apply_account(self, session: Session, account: Account) -> None:
        user = f"{quoted(account.name)}@'%'"
        tls = "REQUIRE SSL" if account.require_tls else "REQUIRE NONE"
        known = await session.run(
            "SELECT ATTRIBUTE->>'$.revision' AS revision FROM information_schema.USER_ATTRIBUTES"
            " WHERE USER = %s AND HOST = %s",
            account.name,
            "%",
        )
        password = f"IDENTIFIED BY {quoted(account.password)}"
        # The revision changes together with the password, so that a repetition does not retain the new password.
        attribute = f"ATTRIBUTE {quoted(json.dumps({'revision': account.revision}))}"
        if not known:
            await session.run(f"CREATE USER {user} {password} {tls} {attribute}")
        elif known[0]["revision"] == account.revision:
            await session.run(f"ALTER USER {user} {tls}")
        else:
            await session.run(f"ALTER USER {user} {password} RETAIN CURRENT PASSWORD {tls} {attribute}")
        if account.privileges:
            await session.run(f"GRANT {', '.join(account.privileges)} ON *.* TO {user}")
        if account.database:
            name = checked(account.database)
            await session.run(f"CREATE DATABASE IF NOT EXISTS `{name}`")
            await session.run(f"GRANT ALL PRIVILEGES ON `{name}`.* TO {user}")

    async def retire_password(self, session: Session, account: Account) -> None:
        await session.run(f"ALTER USER {quoted(account.name)}@'%' DISCARD OLD PASSWORD")


def owned_gtids(text: str) -> GtidSet:
    """Return the transactions of `gtid_owned`, such as `UUID:4#17:5#18`, without the numbers of their threads.

    Raises:
        GtidError: The text is not such a list.
    """
    return GtidSet.parse(re.sub(r"#\d+", "", text))


def _is_client(row: Row) -> bool:
    if row["User"] in ("system user", "event_scheduler") or row["Command"] in ("Daemon", "Binlog Dump GTID"):
        return False
    return not (row["User"] == "root" and row["Host"] == "localhost")


async def _stop_replica(session: Session) -> None:
    """Stop both replication threads.

    An applier that has a part of a transaction defers the end of `STOP REPLICA` by a minute, for the other part. When
    the receiver has stopped, the other part cannot come: the applier's connection is closed, which rolls the part back.
    """
    await session.run("STOP REPLICA IO_THREAD")
    while await _waits_for_other_part(session):
        for thread in await session.run("SHOW PROCESSLIST"):
            if thread["User"] == "system user" and (thread["State"] or "").startswith(APPLIER_WAITS):
                await close_connection(session, thread["Id"])
        await asyncio.sleep(APPLIER_POLL_SECONDS)
    await session.run("STOP REPLICA")


async def _waits_for_other_part(session: Session) -> bool:
    """Return whether the applier has executed the relay log, and this log ends inside a transaction."""
    for row in await session.run("SHOW REPLICA STATUS"):
        running = row["Replica_SQL_Running"] == "Yes"
        return running and (row["Replica_SQL_Running_State"] or "").startswith(APPLIER_WAITS) and _has_part(row)
    return False


def _has_part(row: Row) -> bool:
    """Return whether the relay log ends inside a transaction."""
    executed = row["Relay_Source_Log_File"], row["Exec_Source_Log_Pos"]
    return (row["Source_Log_File"], row["Read_Source_Log_Pos"]) != executed


def _with_replication(facts: ServerFacts, row: Row) -> ServerFacts:
    behind = row["Seconds_Behind_Source"]
    return msgspec.structs.replace(
        facts,
        retrieved=GtidSet.parse(row["Retrieved_Gtid_Set"] or ""),
        source_host=row["Source_Host"] or "",
        io_running=row["Replica_IO_Running"] == "Yes",
        sql_running=row["Replica_SQL_Running"] == "Yes",
        io_error=error_text(row["Last_IO_Errno"], row["Last_IO_Error"]),
        sql_error=error_text(row["Last_SQL_Errno"], row["Last_SQL_Error"]),
        lag_seconds=None if behind is None else float(behind),
    )
