"""The reports of the agents about the members of a cluster: frozen values, and their JSON form.

The operator reads the replicas first and the primary after the last replica has answered. So a transaction that a
replica has and the primary lacks is errant: it cannot be one that the primary executed after it was read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from mysqlcluster.gtid import GtidSet

__all__ = [
    "CHANGE",
    "HEARTBEAT",
    "STALLED_SECONDS",
    "CloneProgress",
    "MemberState",
    "Observation",
    "Role",
    "decode_member",
    "encode_member",
    "unreachable",
]

MAX_REPORT_BYTES = 1 << 20
ROUNDED_LAG_SECONDS = 8.0
"""Lag from which a change counts as a change of the condition."""
STALLED_SECONDS = 5.0
"""Time for which the same commits wait on a primary until it is checked whether their acknowledgements were lost."""
CHANGE, HEARTBEAT = b"c", b"h"
"""Bytes of an agent's stream: the condition of the member has changed, or it is as before."""


class Role(StrEnum):
    """The role of a server, set by its agent; a restart of the server resets it to `NONE`."""

    NONE = "None"
    """Read-only, without a replication source: the state after every start."""
    REPLICA = "Replica"
    PRIMARY = "Primary"


class CloneProgress(msgspec.Struct, frozen=True, rename="camel"):
    """The copy of another member's data that is in progress, or the last one."""

    source: str = ""
    """The member that the data comes from; empty if there has been no clone."""
    running: bool = False
    error: str = ""
    """Why the last clone failed; empty after success."""


class MemberState(msgspec.Struct, frozen=True, rename="camel"):
    """The state of one member at one time, as its agent reports it.

    The safety argument depends on these guarantees of the agent:

    - `epoch` is on disk before an action of that epoch has any effect, and never decreases.
    - A server starts read-only, with replication stopped and semi-synchronous acknowledgement off.
    - `executed` and `retrieved` are durable. `complete` is False as long as transactions that this member once
      acknowledged may be missing: an empty data directory, a relay log that a restart discarded, an unfinished clone.
    - A report that answers `Fence` was read after the I/O thread had stopped.
    """

    name: str
    reachable: bool = True
    """The agent answered in time. All other fields have their defaults when it did not."""
    server_up: bool = False
    """The server answers statements."""
    initialized: bool = False
    """The data directory contains a database; otherwise the member waits for `Initialize`, `Clone` or `Restore`."""
    complete: bool = False
    """No transaction that this member has acknowledged is missing; see the guarantees above."""
    epoch: int = 0
    role: Role = Role.NONE
    read_only: bool = True
    """Accounts without special privileges cannot write (`super_read_only` for MySQL)."""
    executed: GtidSet = GtidSet()
    retrieved: GtidSet = GtidSet()
    """The transactions received into the relay log; executed transactions may be missing here."""
    committing: GtidSet = GtidSet()
    """Transactions in the binary log of a source whose commits wait for acknowledgements. Replicas may already have
    them, so a comparison with `executed` alone would count them as errant."""
    source: str = ""
    """The name of the member that this member replicates from: the first label of the source's host name."""
    io_running: bool = False
    sql_running: bool = False
    io_error: str = ""
    sql_error: str = ""
    """The last errors of the replication threads; empty when the thread runs or was stopped on request."""
    semi_sync_source: bool = False
    """Commits wait for acknowledgements."""
    semi_sync_replica: bool = False
    """Received transactions are acknowledged to the source."""
    ack_count: int = 0
    """The number of acknowledgements that a commit waits for, if `semi_sync_source` is True."""
    commits_waiting: int = 0
    """The number of sessions that wait for an acknowledgement."""
    commit_seconds: float = 0.0
    """The time for which the same commits wait; 0 if none waits."""
    lag_seconds: float | None = None
    """None when it is not known, such as while a thread is stopped."""
    version: str = ""
    restart_required: tuple[str, ...] = ()
    """Variables with a configured value that takes effect only after a restart."""
    settings_revision: str = ""
    """The revision of `spec.config` that this member has applied, or has refused with `settings_error`."""
    settings_error: str = ""
    """Why the server refused a variable; it keeps the previous values."""
    draining: bool = False
    """The member is not ready, so that clients reconnect elsewhere."""
    drained: bool = False
    """The drain has ended: the agent has closed the remaining connections."""
    clone: CloneProgress = CloneProgress()
    disk_used_ratio: float = 0.0
    probe_seconds: float = 0.0
    """The time that the statements of this report took."""
    connections: int = 0
    max_connections: int = 0
    starts: int = 0
    """The number of starts of the server in this data directory."""
    accounts_revision: str = ""
    """The revision of the passwords that this member has set as the primary."""
    tls_revision: str = ""
    """The revision of the certificates that the server uses for new connections; empty without TLS."""
    token_revision: str = ""
    """The revision of the tokens that the agent accepts."""
    replication_revision: str = ""
    """The revision of the passwords with which this member has connected to its source."""

    @property
    def received(self) -> GtidSet:
        """The transactions that this member has, executed or not."""
        return self.executed.union(self.retrieved)

    @property
    def logged(self) -> GtidSet:
        """The transactions that this member can have sent to its replicas."""
        return self.executed.union(self.committing)

    @property
    def condition(self) -> MemberState:
        """This state without the values that change in a healthy cluster; a change of the rest needs a decision.

        Shares are rounded: of connections to tenths, of the volume to hundredths. A lag of 8 seconds or more is rounded
        down to a power of two.
        """
        return msgspec.structs.replace(
            self,
            executed=GtidSet(),
            retrieved=GtidSet(),
            committing=GtidSet(),
            commits_waiting=0,
            commit_seconds=float(self.commit_seconds >= STALLED_SECONDS),
            lag_seconds=_rounded_lag(self.lag_seconds),
            probe_seconds=0.0,
            connections=10 * self.connections // max(1, self.max_connections),
            disk_used_ratio=round(self.disk_used_ratio, 2),
        )

    @property
    def usable(self) -> bool:
        """Whether the server answers and has a database."""
        return self.reachable and self.server_up and self.initialized and not self.clone.running

    def is_fenced(self, epoch: int) -> bool:
        """Return whether this member cannot acknowledge transactions of an epoch before `epoch`."""
        return self.reachable and self.server_up and self.epoch == epoch and not self.io_running

    def follows(self, source: str, epoch: int) -> bool:
        """Return whether this member replicates from `source` with both threads, in `epoch`."""
        running = self.io_running and self.sql_running
        return (
            self.reachable and self.role is Role.REPLICA and self.epoch == epoch and self.source == source and running
        )


class Observation(msgspec.Struct, frozen=True):
    """All members in order of their ordinals, and the time of the reading in seconds since the epoch of UNIX."""

    members: tuple[MemberState, ...]
    time: float

    def get(self, name: str) -> MemberState:
        """Return the state of a member; `unreachable` if it was not read."""
        return next((member for member in self.members if member.name == name), unreachable(name))

    def select(self, names: Sequence[str]) -> tuple[MemberState, ...]:
        """Return the states of these members, in the order of `names`."""
        return tuple(map(self.get, names))


def _rounded_lag(seconds: float | None) -> float:
    return 2.0 ** int(math.log2(seconds)) if seconds is not None and seconds >= ROUNDED_LAG_SECONDS else 0.0


def unreachable(name: str) -> MemberState:
    """Return the state of a member whose agent did not answer in time."""
    return MemberState(name, reachable=False)


def _to_wire(value: Any) -> Any:
    if isinstance(value, GtidSet):
        return str(value)
    raise NotImplementedError(f"a member's report cannot hold {type(value).__name__}")


def _from_wire(wanted: type, value: Any) -> Any:
    if wanted is GtidSet and isinstance(value, str):
        return GtidSet.parse(value)
    raise NotImplementedError(f"a member's report cannot hold {wanted.__name__}")


_encoder = msgspec.json.Encoder(enc_hook=_to_wire)
_decoder = msgspec.json.Decoder(MemberState, dec_hook=_from_wire)


def encode_member(state: MemberState) -> bytes:
    """Return the JSON of the agent's response."""
    return _encoder.encode(state)


def decode_member(data: bytes) -> MemberState:
    """Return the state that an agent has reported.

    Raises:
        ValueError: if the report is too large or is not the JSON of a member.
    """
    if len(data) > MAX_REPORT_BYTES:
        raise ValueError(f"the report of a member has {len(data)} bytes; the limit is {MAX_REPORT_BYTES}")
    return _decoder.decode(data)
