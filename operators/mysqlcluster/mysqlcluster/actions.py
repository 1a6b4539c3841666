"""Actions: the requests of the operator to the agents. Each is a frozen value for one agent and one epoch.

An agent stores the epoch of an action on disk before it acts, and refuses every action of a lower epoch. Actions are
idempotent: the operator repeats them after a crash, a lost response or a timeout. The response contains the state of
the member after the action. An action contains no passwords; the agent reads them from the mounted Secret.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

__all__ = [
    "Action",
    "AnyAction",
    "ApplyRelayLog",
    "Clone",
    "ConfirmComplete",
    "CreateAccounts",
    "Demote",
    "Drain",
    "Fence",
    "Initialize",
    "Promote",
    "PurgeBinlogs",
    "Reconnect",
    "Restart",
    "Restore",
    "SetAckCount",
    "SetSource",
    "SetVariables",
    "StopReplication",
    "decode_action",
    "encode_action",
]

MAX_ACTION_BYTES = 256 << 10


class Action(msgspec.Struct, frozen=True, kw_only=True, tag_field="action", rename="camel", forbid_unknown_fields=True):
    """The base of all actions."""

    member: str
    """The Pod whose agent acts; an agent refuses an action for another Pod."""
    epoch: int


class Initialize(Action, frozen=True, tag="Initialize"):
    """Create the database of a new cluster in an empty data directory; refused if the directory holds one."""


class Restore(Action, frozen=True, tag="Restore"):
    """Start to fill an empty data directory from a backup and the binlog archive, as `MemberState.clone` reports."""

    backup: str
    """The name of the backup. With a point in time or a GTID, any backup of the same archive may be the base."""
    until_time: str = ""
    """RFC 3339. Transactions that committed before it are restored; without time and GTID, the backup alone."""
    until_gtid: str = ""
    """The GTID set at which the restore ends."""


class Clone(Action, frozen=True, tag="Clone"):
    """Start to replace all data with a copy of another member. `MemberState.clone` reports the progress.

    `complete` and `initialized` are False until the copy has ended and the server runs on it. A copy that holds what
    the donor executed when it began is complete, so the donor must hold all acknowledged transactions: the primary, or
    a replica that has caught up with `required`.
    """

    source: str
    """The member to copy from."""
    required: str = ""
    """GTID set that the copy must hold before it is complete."""
    keep_copy: bool = False
    """Move the old data aside on the same volume, as far as the space suffices, instead of deleting it."""


class Fence(Action, frozen=True, tag="Fence"):
    """Stop the I/O thread and report the received transactions. The SQL thread continues.

    After the action this member acknowledges no transaction until a `SetSource` of this epoch or a later one.
    """


class ApplyRelayLog(Action, frozen=True, tag="ApplyRelayLog"):
    """Start to execute all received transactions, with the I/O thread stopped."""


class Promote(Action, frozen=True, tag="Promote"):
    """Accept writes: turn semi-synchronous replication on, remove the replication source, then turn `read_only` off.

    The agent refuses unless its stored epoch is already this one, the member is complete, and all received transactions
    are executed. Otherwise a delayed request could promote a member whose volume was replaced.
    """

    ack_count: int
    """Acknowledgements per commit; 0 commits without waiting."""


class Demote(Action, frozen=True, tag="Demote"):
    """Refuse writes, close client connections, and report when no commit is in progress.

    If a commit still waits for an acknowledgement after a timeout, the agent restarts the server, which starts
    read-only. No transaction commits after the report.
    """

    drain_seconds: float = 1.0
    """Time that open transactions have to end before their connections are closed."""


class SetSource(Action, frozen=True, tag="SetSource"):
    """Replicate from a member, read-only, by GTID.

    If the member already replicates from it, only the epoch and `acknowledge` change, and the relay log stays. Otherwise
    the server deletes its relay log: a member that has not executed all of it before is no longer `complete`.
    """

    source: str
    """The member to replicate from."""
    host: str
    """Its DNS name."""
    port: int = 3306
    acknowledge: bool = True
    """Acknowledge received transactions; False for a member that is not part of the quorum yet."""


class StopReplication(Action, frozen=True, tag="StopReplication"):
    """Stop both replication threads."""


class SetAckCount(Action, frozen=True, tag="SetAckCount"):
    """Change the number of acknowledgements that a commit on the primary waits for."""

    ack_count: int


class ConfirmComplete(Action, frozen=True, tag="ConfirmComplete"):
    """Mark a member complete if it has received this GTID set, read from the primary after the member started."""

    received: str


class PurgeBinlogs(Action, frozen=True, tag="PurgeBinlogs"):
    """Delete binary logs if the archive and all members have their transactions; the newest one stays."""

    held: tuple[str, ...]
    """GTID sets of the archive and of all members; a file is deleted if each set contains all its transactions."""
    keep_seconds: int
    """A file that is younger than this stays."""


class SetVariables(Action, frozen=True, tag="SetVariables"):
    """Replace the variables of `spec.config`: dynamic variables are set, the others change with the next restart.

    Variables that this action omits return to their defaults with the next restart. The member reports the revision,
    and the reason for refused variables in `MemberState.settings_error`.
    """

    values: Mapping[str, str]
    revision: str


class Restart(Action, frozen=True, tag="Restart"):
    """Start to restart the server process; the container keeps running.

    The server starts read-only with replication stopped.
    """

    reason: str


class CreateAccounts(Action, frozen=True, tag="CreateAccounts"):
    """Create or update the accounts on the primary from the mounted Secret; replicas receive them by replication.

    The former passwords remain valid until an action with `retire_old`.
    """

    revision: str
    """The revision of the Secret that the agent must see before it acts."""
    retire_old: bool = False


class Reconnect(Action, frozen=True, tag="Reconnect"):
    """Connect a replica to its source again with the password of the mounted Secret.

    Before that, the agent stops the I/O thread and waits until all received transactions are executed, because the
    server deletes the relay log.
    """

    revision: str
    """The revision of the Secret that the agent must see before it acts."""


class Drain(Action, frozen=True, tag="Drain"):
    """Start to disconnect clients before the member is removed.

    The agent reports that it is not ready, and closes the remaining connections after `drain_seconds`. Then
    `MemberState.drained` is True. A `SetSource` cancels the drain.
    """

    drain_seconds: float = 10.0


AnyAction = (
    Initialize
    | Restore
    | Clone
    | Fence
    | ApplyRelayLog
    | Promote
    | Demote
    | SetSource
    | StopReplication
    | SetAckCount
    | ConfirmComplete
    | PurgeBinlogs
    | SetVariables
    | Restart
    | CreateAccounts
    | Reconnect
    | Drain
)

_decoder = msgspec.json.Decoder[AnyAction](AnyAction)


def encode_action(action: Action) -> bytes:
    """Return the JSON body of a request to an agent."""
    return msgspec.json.encode(action)


def decode_action(data: bytes) -> AnyAction:
    """Return the action in a request body.

    Raises:
        ValueError: if the body is too large or is not the JSON of an action.
    """
    if len(data) > MAX_ACTION_BYTES:
        raise ValueError(f"the request has {len(data)} bytes; the limit is {MAX_ACTION_BYTES}")
    return _decoder.decode(data)
