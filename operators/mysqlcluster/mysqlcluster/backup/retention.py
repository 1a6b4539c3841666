"""Lets the members of clusters delete the binary logs that nothing needs any more."""

from __future__ import annotations

from steersman import Context, Key
from steersman.k8s import Secret

from mysqlcluster import names
from mysqlcluster.agents import perform
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLClusterStatus
from mysqlcluster.backup.purging import purges
from mysqlcluster.connections import source_of_agents
from mysqlcluster.desired import Desired

__all__ = ["BinlogRetention"]

INTERVAL_SECONDS = 60.0


class BinlogRetention:
    """Remembers when each cluster was looked at."""

    def __init__(self) -> None:
        """Begin with no cluster."""
        self._next: dict[Key, float] = {}

    async def apply(self, want: Desired, status: MySQLClusterStatus, archived: str | None, ctx: Context) -> None:
        """Let the members delete binary logs, once a minute.

        Args:
            want: The cluster.
            status: What its members have executed.
            archived: The position of the archive; `None` if there is none, empty if it is not known.
            ctx: The context of the reconcile.
        """
        now = ctx.now().timestamp()
        if status.transition is not None or now < self._next.get(want.key, 0.0):
            return
        actions = purges(status.members, status.epoch, archived)
        secret, tls = ctx.get(Secret, want.secret), ctx.get(Secret, names.tls_name(want.key.name))
        if not actions or secret is None or tls is None or "ca.crt" not in tls.data:
            return
        self._next[want.key] = now + INTERVAL_SECONDS
        agents = await source_of_agents().of(want.key, secret.data["agent-token"].decode(), tls.data["ca.crt"].decode())
        for problem in await perform(agents, actions):
            ctx.log.debug("purge_refused", error=problem)

    def forget(self, key: Key) -> None:
        """Forget a cluster that is gone."""
        self._next.pop(key, None)
