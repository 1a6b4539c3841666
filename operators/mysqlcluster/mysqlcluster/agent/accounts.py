"""The accounts of a cluster, with the least privileges that each needs."""

from __future__ import annotations

import msgspec

from mysqlcluster.agent.settings import Secrets
from mysqlcluster.engines import Engine
from mysqlcluster.engines.base import Account

__all__ = ["accounts_of"]


def accounts_of(engine: Engine, secrets: Secrets, *, require_tls: bool) -> tuple[Account, ...]:
    """Return the accounts of the Secret; none has a privilege to write while `read_only` is on."""
    found = [
        Account("replication", secrets.replication_password, ("REPLICATION SLAVE",)),
        Account(secrets.application_user, secrets.application_password, database=secrets.application_database),
    ]
    if secrets.exporter_password:
        found.append(Account("exporter", secrets.exporter_password, engine.exporter_privileges))
    return tuple(msgspec.structs.replace(each, require_tls=require_tls, revision=secrets.revision) for each in found)
