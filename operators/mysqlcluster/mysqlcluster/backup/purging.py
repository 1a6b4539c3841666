"""The choice of the binary logs that a member deletes: the archive and every member have them. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from mysqlcluster.actions import PurgeBinlogs
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MemberStatus
from mysqlcluster.gtid import GtidError, GtidSet

__all__ = ["KEEP_SECONDS", "LOST_MEMBER_SECONDS", "LogFile", "first_kept", "purges"]

KEEP_SECONDS = 3600
"""A binary log that is younger than this always stays."""
LOST_MEMBER_SECONDS = 7 * 86400
"""A binary log that is younger than this stays while the position of a member is unknown."""


class LogFile(NamedTuple):
    """One binary log."""

    name: str
    position: str
    """The GTID position before the file."""
    changed: float
    """Unix time of the last write."""


def purges(
    members: Sequence[MemberStatus], epoch: int, archived: str | None, keep_seconds: int = KEEP_SECONDS
) -> tuple[PurgeBinlogs, ...]:
    """Return the actions by which the members delete binary logs.

    Args:
        members: The members and their executed transactions.
        epoch: The stored epoch.
        archived: The position of the archive; `None` if the cluster has none, empty if it is unknown.
        keep_seconds: A file that is younger than this stays.
    """
    if archived == "":
        return ()
    held = [each.gtid for each in members if each.gtid]
    keep = keep_seconds if len(held) == len(members) else max(keep_seconds, LOST_MEMBER_SECONDS)
    if archived is not None:
        held.append(archived)
    return tuple(
        PurgeBinlogs(member=each.name, epoch=epoch, held=tuple(held), keep_seconds=keep)
        for each in members
        if each.gtid and each.role in ("primary", "replica")
    )


def first_kept(files: Sequence[LogFile], held: Sequence[str], keep_seconds: int, now: float) -> str:
    """Return the name of the oldest file that stays; empty if all files stay. The newest file always stays.

    Args:
        files: All files, oldest first.
        held: GTID sets; a file is needed unless each set contains all its transactions.
        keep_seconds: A file that is younger than this stays.
        now: The time in seconds.

    Raises:
        GtidError: A set cannot be read.
    """
    sets = [GtidSet.parse(each) for each in held]
    if not sets:
        raise GtidError("no GTID set says which transactions are held elsewhere")
    kept = ""
    for file, following in pairwise(files):
        end = GtidSet.parse(following.position)
        if now - file.changed < keep_seconds or not all(each.contains(end) for each in sets):
            break
        kept = following.name
    return kept
