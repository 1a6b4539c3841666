"""A model of the state machine's environment: servers, agents and operators as small hashable values.

The servers have the guarantees in `mysqlcluster.observation` and `mysqlcluster.actions`. A transaction is a bit; a log
is a set of bits. Replication copies one transaction at a time, and an acknowledgement counts from then on, even if the
source receives it much later. Operators read a snapshot in which any member may be missing, act on it at any later
time, and may stop between any two of their effects.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace as evolve

from mysqlcluster.actions import (
    Action,
    ApplyRelayLog,
    Clone,
    ConfirmComplete,
    Demote,
    Drain,
    Fence,
    Promote,
    SetAckCount,
    SetSource,
    StopReplication,
)
from mysqlcluster.gtid import GtidSet
from mysqlcluster.machine import ClusterState, Policy, Quorum, decide
from mysqlcluster.observation import MemberState, Observation, Role, unreachable

ORIGIN = "00000000-0000-0000-0000-000000000001"
NO_SOURCE = -1


class Member(NamedTuple):
    alive: bool = True
    epoch: int = 1
    role: Role = Role.NONE
    log: int = 0
    relay: int = 0
    """Received and not executed; always 0 in this model, where replicas execute at once."""
    source: int = NO_SOURCE
    """The source that the I/O thread receives from; `NO_SOURCE` when it is stopped."""
    acknowledges: bool = False
    ack_count: int = 0
    complete: bool = True
    promoted: int = 1
    """The epoch in which the member was last promoted."""
    drained: bool = False
    connected: bool = True
    """Whether the member is reachable; False during a network partition or while its process is paused."""

    @property
    def answers(self) -> bool:
        return self.alive and self.connected


class Operator(NamedTuple):
    read: int = 0
    """Version of the state that the pending effects were decided on."""
    pending: tuple[ClusterState | Action, ...] = ()


class ModelState(NamedTuple):
    members: tuple[Member, ...]
    state: ClusterState
    version: int
    operators: tuple[Operator, ...]
    acks: tuple[tuple[int, int], ...] = ()
    """For each transaction the member that wrote it, and a bit for each member that has acknowledged it."""
    acked: int = 0
    promoted: int = 1
    """Highest epoch in which a member was promoted."""
    faults: int = 0
    looks: int = 0
    lost_disks: int = 0


class Limits(NamedTuple):
    writes: int
    faults: int
    """Total of crashes, restarts of operators with pending effects, and lost disks."""
    disks: int = 0
    versions: int = 12
    missing: int = 1
    """The number of running members that may be missing in a snapshot."""


class ViolationError(AssertionError):
    """An invariant does not hold."""


def names(count: int) -> tuple[str, ...]:
    return tuple(f"db-{number}" for number in range(count))


def policy_for(count: int) -> Policy:
    return Policy(names(count), detection_seconds=0.0, min_interval_seconds=0.0, catch_up_seconds=0.0)


def start(count: int, operators: int, *, quorum: int | None = None) -> ModelState:
    """Return a healthy cluster in epoch 1, the first member as primary; members beyond the quorum replicate."""
    voters = count if quorum is None else quorum
    acks = voters // 2
    members = [Member(role=Role.PRIMARY, ack_count=acks)]
    members += [Member(role=Role.REPLICA, source=0, acknowledges=number < voters) for number in range(1, count)]
    state = ClusterState(primary="db-0", epoch=1, quorum=Quorum(names(voters), acks))
    return ModelState(tuple(members), state, 0, (Operator(),) * operators)


@lru_cache(None)
def gtids(log: int) -> GtidSet:
    return GtidSet({ORIGIN: [(bit + 1, bit + 1) for bit in range(log.bit_length()) if log >> bit & 1]})


@lru_cache(None)
def observed(name: str, member: Member, connected: bool) -> MemberState:
    if not member.answers:
        return unreachable(name)
    configured = member.source != NO_SOURCE
    running = configured and connected
    return MemberState(
        name,
        server_up=True,
        initialized=True,
        complete=member.complete,
        epoch=member.epoch,
        role=member.role,
        draining=member.drained,
        drained=member.drained,
        read_only=member.role is not Role.PRIMARY,
        executed=gtids(member.log),
        retrieved=gtids(member.relay),
        source=f"db-{member.source}" if configured else "",
        io_running=running,
        sql_running=configured,
        semi_sync_source=member.role is Role.PRIMARY and member.ack_count > 0,
        semi_sync_replica=member.acknowledges,
        ack_count=member.ack_count,
    )


@lru_cache(None)
def decided(policy: Policy, state: ClusterState, members: tuple[MemberState, ...]) -> tuple[ClusterState | Action, ...]:
    decision = decide(policy, state, Observation(members, 100.0))
    return (decision.store,) if decision.store is not None else decision.actions


class Model:
    """The successors of a state, and the invariants of each; subclasses change one guarantee or rule."""

    def __init__(self, count: int, limits: Limits, *, wanted: int | None = None, switch_to: str = "") -> None:
        self.policy = evolve(policy_for(wanted or count), switch_to=switch_to)
        self.names = names(count)
        self.limits = limits

    def decided(self, state: ClusterState, members: tuple[MemberState, ...]) -> tuple[ClusterState | Action, ...]:
        return decided(self.policy, state, members)

    def accepts(self, member: Member, action: Action) -> bool:
        return action.epoch >= member.epoch

    def successors(self, current: ModelState) -> Iterator[tuple[str, ModelState]]:
        yield from self._data(current)
        yield from self._faults(current)
        for index, operator in enumerate(current.operators):
            if operator.pending:
                yield f"operator {index}: {describe(operator.pending[0])}", self._effect(current, index)
            else:
                yield from self._looks(current, index)

    def _data(self, current: ModelState) -> Iterator[tuple[str, ModelState]]:
        for index, member in enumerate(current.members):
            if not member.alive:
                continue
            if member.role is Role.PRIMARY and len(current.acks) < self.limits.writes:
                bit = len(current.acks)
                written = with_member(current, index, member._replace(log=member.log | 1 << bit))
                yield f"{index} writes {bit}", self.settled(written._replace(acks=(*current.acks, (index, 0))))
            if member.source != NO_SOURCE and member.connected and current.members[member.source].answers:
                missing = current.members[member.source].log & ~(member.log | member.relay)
                if missing:
                    bit = (missing & -missing).bit_length() - 1
                    received = with_member(current, index, self.received(member, 1 << bit))
                    if member.acknowledges:
                        received = acknowledge(received, index, member.source, 1 << bit)
                    yield f"{index} receives {bit} from {member.source}", self.settled(received)

    def _faults(self, current: ModelState) -> Iterator[tuple[str, ModelState]]:
        for index, member in enumerate(current.members):
            if not member.alive:
                yield f"{index} starts", with_member(current, index, member._replace(alive=True))
                continue
            if not member.connected:
                yield f"{index} is connected again", with_member(current, index, member._replace(connected=True))
            elif current.faults < self.limits.faults:
                cut = with_member(current, index, member._replace(connected=False))
                yield f"{index} is cut off", cut._replace(faults=current.faults + 1)
            if current.faults < self.limits.faults:
                down = self.restarted(member)._replace(
                    alive=False, role=Role.NONE, source=NO_SOURCE, acknowledges=False, ack_count=0
                )
                yield f"{index} crashes", with_member(current, index, down)._replace(faults=current.faults + 1)
                if current.lost_disks < self.limits.disks:
                    gone = down._replace(log=0, relay=0, epoch=0, complete=False)
                    lost = with_member(current, index, gone)
                    yield (
                        f"{index} loses its disk",
                        lost._replace(faults=current.faults + 1, lost_disks=current.lost_disks + 1),
                    )
        for index, operator in enumerate(current.operators):
            if operator.pending and current.faults < self.limits.faults:
                fresh = with_operator(current, index, Operator())
                yield f"operator {index} restarts", fresh._replace(faults=current.faults + 1)

    def _looks(self, current: ModelState, index: int) -> Iterator[tuple[str, ModelState]]:
        if current.version >= self.limits.versions:
            return
        full = tuple(
            observed(name, member, member.source != NO_SOURCE and current.members[member.source].answers)
            for name, member in zip(self.names, current.members, strict=True)
        )
        views = [("", full)]
        if self.limits.missing:
            views += [
                (f" without {hidden}", (*full[:hidden], unreachable(self.names[hidden]), *full[hidden + 1 :]))
                for hidden, member in enumerate(current.members)
                if member.answers
            ]
        for text, view in views:
            if pending := self.decided(current.state, view):
                looked = with_operator(current, index, Operator(current.version, pending))
                yield f"operator {index} looks{text}", looked

    def _effect(self, current: ModelState, index: int) -> ModelState:
        operator = current.operators[index]
        effect, *rest = operator.pending
        if isinstance(effect, ClusterState):
            current = with_operator(current, index, Operator())
            if operator.read != current.version:
                return current  # a conflict: the operator reads again
            if effect.epoch < current.state.epoch:
                raise ViolationError(f"the stored epoch falls from {current.state.epoch} to {effect.epoch}")
            return current._replace(state=effect, version=current.version + 1)
        current = with_operator(current, index, operator._replace(pending=tuple(rest)))
        number = self.names.index(effect.member)
        member = current.members[number]
        if not member.answers or not self.accepts(member, effect):
            return current
        if isinstance(effect, Promote) and (member.epoch != effect.epoch or not member.complete):
            return current
        return self.settled(self.act(current, number, member._replace(epoch=max(effect.epoch, member.epoch)), effect))

    def act(self, current: ModelState, number: int, member: Member, action: Action) -> ModelState:
        match action:
            case Fence() | StopReplication():
                return with_member(current, number, self.fenced(member))
            case Drain():
                return with_member(current, number, member._replace(drained=True))
            case ApplyRelayLog():
                return with_member(current, number, member)
            case Demote():
                return with_member(current, number, member._replace(role=Role.NONE, source=NO_SOURCE, ack_count=0))
            case Promote():
                promoted = Member(
                    epoch=member.epoch,
                    role=Role.PRIMARY,
                    log=member.log,
                    ack_count=action.ack_count,
                    promoted=action.epoch,
                )
                return with_member(current, number, promoted)._replace(promoted=max(current.promoted, action.epoch))
            case SetSource():
                source = self.names.index(action.source)
                follower = member._replace(
                    role=Role.REPLICA, source=source, acknowledges=action.acknowledge, ack_count=0, drained=False
                )
                return with_member(current, number, follower)
            case SetAckCount():
                if member.role is not Role.PRIMARY:
                    return with_member(current, number, member)
                return with_member(current, number, member._replace(ack_count=action.ack_count))
            case Clone():
                donor = current.members[self.names.index(action.source)]
                if not donor.answers or not gtids(donor.log).contains(GtidSet.parse(action.required)):
                    return current
                copied = Member(epoch=member.epoch, log=donor.log)
                return with_member(current, number, copied)
            case ConfirmComplete():
                holds = gtids(member.log | member.relay).contains(GtidSet.parse(action.received))
                return with_member(current, number, member._replace(complete=member.complete or holds))
            case _:
                raise NotImplementedError(type(action).__name__)

    def received(self, member: Member, bit: int) -> Member:
        """Return a member that has received a transaction."""
        return member._replace(log=member.log | bit)

    def restarted(self, member: Member) -> Member:
        """Return a member whose server was stopped."""
        return member

    def fenced(self, member: Member) -> Member:
        return member._replace(source=NO_SOURCE, role=Role.NONE if member.role is Role.REPLICA else member.role)

    def settled(self, current: ModelState) -> ModelState:
        """Mark transactions with enough acknowledgements as acknowledged to the client, and check the invariants."""
        acked = current.acked
        for bit, (writer, voters) in enumerate(current.acks):
            member = current.members[writer]
            if acked >> bit & 1 or not member.alive or member.role is not Role.PRIMARY:
                continue
            if voters.bit_count() >= member.ack_count:
                acked |= 1 << bit
        current = current._replace(acked=acked)
        primaries = [(index, each) for index, each in enumerate(current.members) if each.role is Role.PRIMARY]
        for index, member in primaries:
            if member.promoted >= current.promoted and acked & ~member.log:
                raise ViolationError(f"the primary {index} lacks acknowledged transactions {acked & ~member.log:b}")
        able = [index for index, member in primaries if self._can_acknowledge(current, index, member)]
        if len(able) > 1:
            raise ViolationError(f"members {able} can acknowledge at the same time")
        return current

    def _can_acknowledge(self, current: ModelState, index: int, member: Member) -> bool:
        voters = sum(each.answers and each.source == index and each.acknowledges for each in current.members)
        return member.answers and voters >= member.ack_count


def acknowledge(current: ModelState, replica: int, source: int, bits: int) -> ModelState:
    if current.members[source].role is not Role.PRIMARY:
        return current
    acks = tuple(
        (writer, voters | 1 << replica) if writer == source and bits >> bit & 1 else (writer, voters)
        for bit, (writer, voters) in enumerate(current.acks)
    )
    return current._replace(acks=acks)


def with_member(current: ModelState, index: int, member: Member) -> ModelState:
    return current._replace(members=(*current.members[:index], member, *current.members[index + 1 :]))


def with_operator(current: ModelState, index: int, operator: Operator) -> ModelState:
    operators = (*current.operators[:index], operator, *current.operators[index + 1 :])
    return current._replace(operators=operators)


def describe(effect: ClusterState | Action) -> str:
    if isinstance(effect, ClusterState):
        step = effect.transition.step if effect.transition else "none"
        return f"stores epoch {effect.epoch}, primary {effect.primary}, step {step}"
    return f"{type(effect).__name__} {effect.member} in {effect.epoch}"
