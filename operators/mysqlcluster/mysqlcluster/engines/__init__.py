"""The differences between MySQL and MariaDB: commands, configuration and statements.

`Engine` is the protocol between the agent and a server; `engine_of` returns its implementation for a flavor. An engine
has no state.
"""

from mysqlcluster.engines.base import Engine, Layout, ReplicationSource, ServerFacts, ServerOptions
from mysqlcluster.engines.mariadb import MariaDB
from mysqlcluster.engines.mysql import MySQL

__all__ = ["Engine", "Layout", "MariaDB", "MySQL", "ReplicationSource", "ServerFacts", "ServerOptions", "engine_of"]


def engine_of(flavor: str) -> Engine:
    """Return the engine of a flavor.

    Raises:
        ValueError: There is no engine of that name.
    """
    engines: dict[str, Engine] = {"mariadb": MariaDB(), "mysql": MySQL()}
    if flavor not in engines:
        raise ValueError(f"flavor {flavor!r}: use one of {', '.join(engines)}")
    return engines[flavor]
