"""The server variables of `spec.config`: the names that users may set, and the revision that members report."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

__all__ = ["RESERVED", "refusal", "refused", "revision", "spelled"]

RESERVED = frozenset(
    {
        "basedir", "bind_address", "binlog_expire_logs_auto_purge", "binlog_format", "datadir", "early_plugin_load",
        "enforce_gtid_consistency", "gtid_binlog_state", "gtid_domain_id", "gtid_executed", "gtid_mode", "gtid_next",
        "gtid_purged", "gtid_slave_pos", "gtid_strict_mode", "init_file", "init_replica", "init_slave",
        "innodb_flush_log_at_trx_commit", "lc_messages_dir", "local_infile", "log_bin", "log_error",
        "log_replica_updates", "log_slave_updates", "max_binlog_size", "mysqlx", "pid_file", "plugin_dir",
        "plugin_load", "plugin_load_add", "port", "read_only", "relay_log", "relay_log_recovery",
        "replica_net_timeout", "replica_preserve_commit_order", "replicate_do_db", "replicate_ignore_db",
        "report_host", "rpl_semi_sync_master_enabled", "rpl_semi_sync_master_timeout",
        "rpl_semi_sync_master_wait_no_slave", "rpl_semi_sync_master_wait_point", "rpl_semi_sync_replica_enabled",
        "rpl_semi_sync_slave_enabled", "rpl_semi_sync_source_enabled", "rpl_semi_sync_source_timeout",
        "rpl_semi_sync_source_wait_for_replica_count", "rpl_semi_sync_source_wait_no_replica",
        "rpl_semi_sync_source_wait_point", "secure_file_priv", "server_id", "skip_name_resolve",
        "skip_replica_start", "skip_slave_start", "slave_net_timeout", "socket", "sql_log_bin", "ssl_ca", "ssl_cert",
        "ssl_key", "super_read_only", "sync_binlog", "sync_relay_log", "tmpdir", "user",
    }
)  # fmt: skip
"""Variables that the safety of replication depends on, and paths and identities that the operator sets."""
PREFIXES = ("skip_", "loose_", "disable_", "enable_", "maximum_")
"""The server interprets an option with one of these prefixes as a form of the option without it."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,79}")


def spelled(name: str) -> str:
    """Return the canonical name of a variable: lower case, with underscores."""
    return name.lower().replace("-", "_")


def refusal(name: str, value: str) -> str:
    """Return why a user may not set a variable; empty if it is allowed."""
    one = spelled(name)
    if _NAME.fullmatch(one) is None:
        return "is not the name of a server variable"
    if one in RESERVED:
        return "is set by the operator; remove it"
    if one.startswith(PREFIXES):
        return "has a prefix that makes another option of it; set the variable itself"
    if any(letter in value for letter in "\n\r\0"):
        return "has a line break"
    return ""


def refused(config: Mapping[str, str]) -> Mapping[str, str]:
    """Return the refused variables of `spec.config` with the reasons; the others are applied."""
    found = {name: refusal(name, value) for name, value in config.items()}
    return {name: problem for name, problem in found.items() if problem}


def revision(settings: Mapping[str, str]) -> str:
    """Return a hash that changes when a variable changes."""
    digest = hashlib.sha256()
    for name, value in sorted((spelled(name), value) for name, value in settings.items()):
        digest.update(f"{len(name)}:{name}{len(value)}:{value}".encode())
    return digest.hexdigest()[:12]
