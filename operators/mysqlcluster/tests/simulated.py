"""Simulated servers and agents in memory with the guarantees of `mysqlcluster.actions`."""

from __future__ import annotations

from collections.abc import Callable

import cryptography.x509  # noqa: F401 - so that the operator creates certificates in this process
from msgspec.structs import replace

from mysqlcluster.actions import (
    Action,
    Clone,
    ConfirmComplete,
    CreateAccounts,
    Demote,
    Drain,
    Fence,
    Initialize,
    Promote,
    Reconnect,
    Restart,
    SetAckCount,
    SetSource,
    SetVariables,
    StopReplication,
)
from mysqlcluster.agents import ActionError
from mysqlcluster.gtid import GtidSet
from mysqlcluster.observation import MemberState, Role, unreachable
from mysqlcluster.server_settings import revision

ORIGIN = "00000000-0000-0000-0000-000000000001"


class SimulatedServers:
    """The members of one cluster; it implements both `AgentSource` and `Agents`."""

    def __init__(self, *names: str) -> None:
        self.members = {
            name: MemberState(name, server_up=True, version="11.8.9", settings_revision=revision({})) for name in names
        }
        self.down: set[str] = set()
        self.acknowledged = 0
        self.mounted = ""
        """The revision of the Secret that the agents see."""
        self.static: set[str] = {"innodb_log_file_size"}
        """Variables that change only with a restart."""
        self.actions: list[Action] = []
        self.watched = False
        """Whether the agents have streams of changes; the operator's function for changes is in `changed`."""
        self.changed: Callable[[], None] = lambda: None
        self.reports = 0
        """Number of reports that the operator has read."""

    async def of(self, key, token, authority):
        return self

    async def keep(self, clusters):
        pass

    async def close(self):
        pass

    def watch(self, members, primary, changed):
        self.changed = changed
        return self.watched

    async def state(self, member: str, seconds: float | None = None) -> MemberState:
        self.reports += 1
        self._replicate()
        return unreachable(member) if member in self.down else self._seen(member)

    async def act(self, action: Action) -> MemberState:
        self.perform(action)
        return await self.state(action.member)

    def perform(self, action: Action) -> None:
        """Perform an action; raises `ActionError` if the member is down or refuses it."""
        member = self.members[action.member]
        if action.member in self.down:
            raise ActionError("no answer")
        if action.epoch < member.epoch:
            raise ActionError(f"epoch {action.epoch} is before {member.epoch}")
        if isinstance(action, Promote) and (member.epoch != action.epoch or not member.complete):
            raise ActionError("not fenced in this epoch, or not complete")
        self.actions.append(action)
        self.members[action.member] = replace(self._after(member, action), epoch=action.epoch)

    def _after(self, member: MemberState, action: Action) -> MemberState:
        match action:
            case Initialize():
                return replace(member, initialized=True, complete=True)
            case CreateAccounts():
                self.mounted = action.revision
                return replace(member, accounts_revision=action.revision)
            case Reconnect():
                return replace(member, replication_revision=action.revision)
            case Clone():
                donor = self.members[action.source]
                return replace(member, initialized=True, complete=True, executed=donor.executed)
            case Fence() | StopReplication():
                role = Role.NONE if member.role is Role.REPLICA else member.role
                return replace(member, io_running=False, role=role)
            case Demote():
                return replace(member, role=Role.NONE, read_only=True, semi_sync_source=False)
            case Promote() | SetAckCount():
                waits = action.ack_count
                return replace(
                    member,
                    role=Role.PRIMARY,
                    read_only=False,
                    source="",
                    io_running=False,
                    ack_count=waits,
                    semi_sync_source=waits > 0,
                )
            case SetSource():
                return replace(
                    member,
                    role=Role.REPLICA,
                    read_only=True,
                    source=action.source,
                    io_running=True,
                    sql_running=True,
                    replication_revision=self.mounted,
                    semi_sync_replica=action.acknowledge,
                    draining=False,
                    drained=False,
                    lag_seconds=0.0,
                )
            case SetVariables():
                fixed = [name for name in action.values if name in self.static]
                return replace(member, settings_revision=action.revision, restart_required=tuple(fixed))
            case Drain():
                return replace(member, draining=True, drained=True)
            case Restart():
                self.start(member.name)
                return replace(self.members[member.name], restart_required=())
            case ConfirmComplete():
                holds = member.received.contains(GtidSet.parse(action.received))
                return replace(member, complete=member.complete or holds)
            case _:
                return member

    def _seen(self, name: str) -> MemberState:
        member = self.members[name]
        return replace(member, io_running=member.io_running and member.source not in self.down)

    def _replicate(self) -> None:
        for name, member in self.members.items():
            if name not in self.down and member.io_running and member.source not in self.down:
                source = self.members[member.source]
                self.members[name] = replace(member, executed=member.executed.union(source.executed))

    def crash(self, name: str) -> None:
        """Stop a server and its agent."""
        self.down.add(name)

    def start(self, name: str) -> None:
        """Start a member again: read-only, with replication stopped."""
        self.down.discard(name)
        self.members[name] = replace(
            self.members[name],
            role=Role.NONE,
            read_only=True,
            io_running=False,
            sql_running=False,
            semi_sync_source=False,
            semi_sync_replica=False,
        )

    def write(self) -> bool:
        """Commit one transaction on the primary, and return whether enough replicas acknowledge it."""
        for name, member in self.members.items():
            if name not in self.down and member.role is Role.PRIMARY and not member.read_only:
                voters = [
                    other
                    for other, each in self.members.items()
                    if other not in self.down and each.source == name and each.io_running and each.semi_sync_replica
                ]
                number = self.acknowledged + 1
                executed = member.executed.union(GtidSet({ORIGIN: [(number, number)]}))
                if len(voters) >= member.ack_count:
                    self.members[name] = replace(member, executed=executed)
                    self.acknowledged = number
                    self._replicate()
                    return True
        return False
