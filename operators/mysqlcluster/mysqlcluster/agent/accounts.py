"""The accounts of a cluster, with the least privileges that each needs."""

from __future__ import annotations

from mysqlcluster.agent.settings import Secrets
from mysqlcluster.engines import Engine
from mysqlcluster.engines.base import Account

__all__ = ["accounts_of"]


def accounts_of(engine: Engine, secrets: Secrets, *, require_tls: bool) -> tuple[Account, ...]:
    """Return the accounts of the Secret; none has a privilege to write while `read_only` is on."""
    replication = Account("replication", secrets.replication_password, ("REPLICATION SLAVE",), require_tls=require_tls)
    application = Account(
        secrets.application_user,
        secrets.application_password,
        database=secrets.application_database,
        require_tls=require_tls,
    )
    if not secrets.exporter_password:
        return (replication, application)
    exporter = Account("exporter", secrets.exporter_password, engine.exporter_privileges, require_tls=require_tls)
    return (replication, application, exporter)
