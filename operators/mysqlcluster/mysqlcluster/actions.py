"""What the operator asks of the agents: frozen values, one agent and one epoch each.

An agent stores the epoch of an action on disk before it acts, and refuses every action of a lower epoch. Actions are
idempotent: the operator repeats them after a crash, a lost answer or a timeout. The answer to each is the member's state
after it. Passwords are no part of an action; the agent reads them from the mounted Secret.
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
    """Fill an empty data directory from a backup and the binlog archive; progress is `MemberState.clone`."""

    backup: str
    """The name of the backup; with a point, any backup of the same archive may be the base."""
    until_time: str = ""
    """RFC 3339; the last transaction that is restored committed before it. Empty without a GTID: the backup itself."""
    until_gtid: str = ""
    """A GTID set that is restored, and nothing after it."""


class Clone(Action, frozen=True, tag="Clone"):
    """Replace all data with a copy of another member's; starts it and returns. Progress is `MemberState.clone`.

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
    """Stop the I/O thread and report what was received. The SQL thread goes on.

    From here on this member acknowledges nothing until a `SetSource` of this epoch or a later one.
    """


class ApplyRelayLog(Action, frozen=True, tag="ApplyRelayLog"):
    """Execute all that was received, with the I/O thread stopped; starts it and returns."""


class Promote(Action, frozen=True, tag="Promote"):
    """Accept writes: semi-synchronous acknowledgement on, replication configuration removed, then `read_only` off.

    Refused unless the stored epoch is this one already, the member is complete, and everything received has been
    executed. A late request would otherwise promote a member whose volume was replaced.
    """

    ack_count: int
    """Acknowledgements per commit; 0 commits without waiting."""


class Demote(Action, frozen=True, tag="Demote"):
    """Refuse writes, close client connections, and report when no commit is under way any more.

    Commits that hang on an acknowledgement end the attempt after a timeout: the agent restarts the server, which
    starts read-only. Nothing commits after the report.
    """

    drain_seconds: float = 1.0
    """Time that open transactions have to end before their connections are closed."""


class SetSource(Action, frozen=True, tag="SetSource"):
    """Replicate from a member, read-only, by GTID.

    Where the member does so already, only the epoch and the acknowledgement change; the threads are not restarted.
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
    """Change the number of acknowledgements per commit of the primary, without a gap."""

    ack_count: int


class ConfirmComplete(Action, frozen=True, tag="ConfirmComplete"):
    """Mark a member complete that has `received` at least this, read from the primary after the member had started."""

    received: str


class PurgeBinlogs(Action, frozen=True, tag="PurgeBinlogs"):
    """Delete binary logs whose transactions all are held elsewhere; the newest one stays."""

    held: tuple[str, ...]
    """GTID sets of the archive and of all members; a file is deleted if each holds all its transactions."""
    keep_seconds: int
    """Age below which a file stays."""


class SetVariables(Action, frozen=True, tag="SetVariables"):
    """Make these the variables of `spec.config`: dynamic ones are set, the others wait for a restart.

    Variables that are missing here return to their defaults with the next restart. The member reports the revision, and
    in `MemberState.settings_error` why the server refused them.
    """

    values: Mapping[str, str]
    revision: str


class Restart(Action, frozen=True, tag="Restart"):
    """Restart the server, not the container; starts it and returns.

    The server starts read-only with replication stopped.
    """

    reason: str


class CreateAccounts(Action, frozen=True, tag="CreateAccounts"):
    """Create or update the accounts on the primary from the mounted Secret; replicas receive them by replication.

    The password before remains valid until `retire_old`.
    """

    revision: str
    """The revision of the Secret that the agent must see before it acts."""
    retire_old: bool = False


class Drain(Action, frozen=True, tag="Drain"):
    """Let clients leave before the member is removed; starts it and returns.

    The agent reports not ready at once, and closes the connections that are left after `drain_seconds`. The end is
    `MemberState.drained`; a `SetSource` ends it, too.
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
    | Drain
)

_decoder = msgspec.json.Decoder[AnyAction](AnyAction)


def encode_action(action: Action) -> bytes:
    """Return the JSON body of a request to an agent."""
    return msgspec.json.encode(action)


def decode_action(data: bytes) -> AnyAction:
    """Return the action that a request body holds.

    Raises:
        ValueError: if the body is too large or is not the JSON of an action.
    """
    if len(data) > MAX_ACTION_BYTES:
        raise ValueError(f"the request has {len(data)} bytes; the limit is {MAX_ACTION_BYTES}")
    return _decoder.decode(data)
