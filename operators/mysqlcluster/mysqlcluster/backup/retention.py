"""Deletion of the binary logs of members that neither the archive nor another member needs."""

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
    """Stores the time of the last deletion of each cluster."""

    def __init__(self) -> None:
        """Start without a cluster."""
        self._next: dict[Key, float] = {}

    async def apply(self, want: Desired, status: MySQLClusterStatus, archived: str | None, ctx: Context) -> None:
        """Send the members the actions to delete binary logs, at most once a minute.

        Args:
            want: The cluster.
            status: The status with the executed transactions of its members.
            archived: The position of the archive; `None` if there is none, empty if it is unknown.
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
        """Remove a deleted cluster."""
        self._next.pop(key, None)
