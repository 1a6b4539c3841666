"""The full backup and the segments for a restore of MariaDB to a point in the history, and the gaps. Pure functions.

`set_plan` has the same functions for MySQL. A member's history can end with transactions that were never acknowledged. If the archive has followed such a member, a
later segment begins a domain at a number that an earlier segment also contains. From that number on, the earlier
transactions are abandoned, and a restore omits them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import floor
from typing import Literal, NamedTuple

import msgspec

from mysqlcluster.backup.binlog import Transaction
from mysqlcluster.backup.catalog import ArchiveMark, BackupManifest, SegmentHeader
from mysqlcluster.backup.positions import Gtid, Position, advance, covers, format_position, parse_position

__all__ = [
    "Gap",
    "PlanError",
    "PlannedSegment",
    "Replay",
    "RestorePlan",
    "Target",
    "check_mark",
    "gaps",
    "named_backup",
    "newest",
    "plan",
    "removable",
    "text_of",
]


class PlanError(ValueError):
    """The archive cannot restore the requested point; the message gives the reason and a point that it can restore."""


class Target(NamedTuple):
    """What to restore: the backup itself, or the state at a time or GTID."""

    backup: str
    """Name of a full backup, or empty for the newest backup before the point."""
    time: float | None = None
    """Unix time; transactions that committed before it are restored."""
    gtid: str = ""


class Gap(NamedTuple):
    """Transactions that the archive lacks."""

    missing: str
    """The transactions, such as `after 0-1-10 up to 0-1-14`."""
    after_time: int
    until_time: int
    segment: int
    """The segment that begins after the gap."""

    def __str__(self) -> str:
        return (
            f"transactions {self.missing}, between {text_of(self.after_time)} and {text_of(self.until_time)},"
            " are missing"
        )


class PlannedSegment(msgspec.Struct, frozen=True, rename="camel"):
    """A segment that is replayed."""

    number: int
    cut: Mapping[int, int] = {}
    """Of MariaDB: by domain, the number of the first abandoned transaction."""
    abandoned: str = ""
    """Of MySQL: the GTID set of the abandoned transactions."""


class RestorePlan(msgspec.Struct, frozen=True, rename="camel"):
    """The full copy and the segments that a restore reads, in order."""

    backup: BackupManifest
    segments: tuple[PlannedSegment, ...] = ()
    until_time: int | None = None
    """Replay ends before the first transaction of this second or a later one."""
    until_gtid: str = ""
    """Replay ends at this position."""


def plan(
    target: Target, backups: Sequence[BackupManifest], segments: Sequence[SegmentHeader], mark: ArchiveMark | None
) -> RestorePlan:
    """Return the plan of a restore to a target.

    Args:
        target: What to restore.
        backups: All full backups of the archive.
        segments: All segments, in order of their numbers.
        mark: The time until which the archive is complete.

    Raises:
        PlanError: There is no usable backup, the archive has a gap, or it ends before the target.
    """
    usable = [each for each in backups if each.verified]
    if target.time is None and not target.gtid:
        return RestorePlan(named_backup(target.backup, backups))
    wanted: Position = parse_position(target.gtid)
    second = floor(target.time) if target.time is not None else None
    base = _base(target, usable, wanted)
    position = parse_position(base.position)
    chosen: list[PlannedSegment] = []
    last_time = floor(base.ended)
    for header, cut in zip(segments, _cuts(segments), strict=True):
        if second is None and covers(position, wanted):
            break
        if covers(position, _kept_end(header, cut)):
            last_time = max(last_time, header.last_time)
            continue
        if not covers(position, header.start):
            raise PlanError(f"the archive has a gap: {_gap(position, header, last_time)}")
        chosen.append(PlannedSegment(header.number, cut))
        for gtid in _kept_end(header, cut).values():
            position = advance(position, gtid)
        last_time = max(last_time, header.last_time)
        # The greatest time of a segment may belong to an abandoned transaction.
        if second is not None and header.last_time >= second and _kept_end(header, cut) == header.end:
            break
    else:
        _check_end(second, wanted, position, mark)
    return RestorePlan(base, tuple(chosen), second, format_position(wanted))


def named_backup(name: str, backups: Sequence[BackupManifest]) -> BackupManifest:
    """Return the backup of that name; raises `PlanError` if there is none."""
    found = next((each for each in backups if each.name == name), None)
    if found is None:
        have = ", ".join(each.name for each in backups) or "none"
        raise PlanError(f"the target has no backup {name}; it has {have}")
    return found


def _base(target: Target, usable: Sequence[BackupManifest], wanted: Position) -> BackupManifest:
    """Return the newest backup that ends before the target."""
    fit = [
        each
        for each in usable
        if (target.time is None or each.ended < target.time)
        and (not wanted or covers(wanted, parse_position(each.position)))
    ]
    return newest(fit, usable)


def newest(fit: Sequence[BackupManifest], usable: Sequence[BackupManifest]) -> BackupManifest:
    """Return the newest backup that a restore can start from.

    Raises:
        PlanError: There is none in `fit`; the message names the first of all usable backups.
    """
    if fit:
        return max(fit, key=lambda each: each.ended)
    if not usable:
        raise PlanError("the target has no verified backup")
    first = min(usable, key=lambda each: each.ended)
    raise PlanError(
        f"no verified backup ends before the point; the first, {first.name}, ends at {text_of(first.ended)}"
        f" with {first.position or 'no transaction'}"
    )


def _check_end(second: int | None, wanted: Position, position: Position, mark: ArchiveMark | None) -> None:
    reached = format_position(position)
    if second is not None:
        check_mark(second, mark, reached, complete=mark is None or covers(position, parse_position(mark.position)))
    elif not covers(position, wanted):
        raise PlanError(f"the archive ends at {reached or 'its start'}, before {format_position(wanted)}")


def check_mark(second: int, mark: ArchiveMark | None, reached: str, *, complete: bool) -> None:
    """Check that the archive reaches a time.

    Args:
        second: The time.
        mark: The time until which the archive is complete.
        reached: The position at the end of the segments.
        complete: The segments contain the position of the mark.

    Raises:
        PlanError: The archive ends before the time, or its segments before its mark.
    """
    if mark is None or mark.time < second:
        end = text_of(mark.time) if mark is not None else "nowhere"
        raise PlanError(f"the archive leads to {end} only; choose a point before it")
    if not complete:
        raise PlanError(
            f"the segments lead to {reached or 'nothing'}, and the archive had {mark.position}: two"
            " archivers may be writing; try again in a few minutes"
        )


def _cuts(segments: Sequence[SegmentHeader]) -> list[dict[int, int]]:
    """Return for each segment, by domain, the least number that a later segment begins with."""
    cuts: list[dict[int, int]] = []
    least: dict[int, int] = {}
    for header in reversed(segments):
        cuts.append(dict(least))
        for domain, number in header.first.items():
            least[domain] = min(number, least.get(domain, number))
    return cuts[::-1]


def _kept_end(header: SegmentHeader, cut: Mapping[int, int]) -> Position:
    """Return the end of a segment without its abandoned transactions."""
    return {
        domain: gtid if gtid.number < cut.get(domain, gtid.number + 1) else gtid._replace(number=cut[domain] - 1)
        for domain, gtid in header.end.items()
    }


def gaps(segments: Sequence[SegmentHeader]) -> tuple[Gap, ...]:
    """Return the gaps between segments, in order."""
    found: list[Gap] = []
    position: Position = {}
    last_time = 0
    for index, header in enumerate(segments):
        if index and not covers(position, header.start):
            found.append(_gap(position, header, last_time))
        for gtid in header.end.values():
            position = advance(position, gtid)
        for domain, gtid in header.start.items():
            position = position if domain in position else {**position, domain: gtid}
        last_time = max(last_time, header.last_time)
    return tuple(found)


def _gap(position: Position, header: SegmentHeader, last_time: int) -> Gap:
    missing = f"after {format_position(position) or 'the start'} up to {format_position(header.start)}"
    return Gap(missing, last_time, header.first_time, header.number)


def removable(segments: Sequence[SegmentHeader], backups: Iterable[BackupManifest]) -> tuple[int, ...]:
    """Return the segments that no backup needs: those that end at or before the position of the oldest backup."""
    positions = [parse_position(each.position) for each in backups if each.verified]
    if not positions:
        return ()
    found: list[int] = []
    for header in segments[:-1]:
        if not all(covers(position, header.end) for position in positions):
            break
        found.append(header.number)
    return tuple(found)


class Replay:
    """Decides for each transaction of the planned segments, in order, whether it is restored."""

    def __init__(self, made: RestorePlan) -> None:
        """Start at the position of the full backup."""
        self._plan = made
        self._base = parse_position(made.backup.position)
        self._wanted = parse_position(made.until_gtid)
        self.position: Position = dict(self._base)
        """The position of the restored transactions."""
        self.done = False
        """The target is reached; no further transaction is restored."""

    def takes(self, segment: PlannedSegment, transaction: Transaction) -> bool:
        """Return whether a transaction is restored.

        Raises:
            PlanError: The full backup or the target is part of an abandoned history.
        """
        gtid = transaction.gtid
        if not isinstance(gtid, Gtid):
            raise PlanError(f"{gtid} is a transaction of MySQL; the full backup is of MariaDB")
        if self.done or gtid.number >= segment.cut.get(gtid.domain, gtid.number + 1):
            return False
        for known, owner in ((self._base, "the full backup"), (self._wanted, "the point that is asked for")):
            same = known.get(gtid.domain)
            if same is not None and same.number == gtid.number and same != gtid:
                raise PlanError(f"{owner} has {same}, which a failover has abandoned; the cluster went on with {gtid}")
        restored = self.position.get(gtid.domain)
        if restored is not None and gtid.number <= restored.number:
            return False
        at_time = self._plan.until_time is not None and transaction.time >= self._plan.until_time
        if at_time or (self._wanted and covers(self.position, self._wanted)):
            self.done = True
            return False
        self.position = advance(self.position, gtid)
        return True

    def check_reached(self) -> None:
        """Check that the replay has reached its target.

        Raises:
            PlanError: The segments did not contain the requested transaction.
        """
        if not covers(self.position, self._wanted):
            reached: Literal["nothing"] | str = format_position(self.position) or "nothing"
            raise PlanError(f"the replay ended at {reached}, before {format_position(self._wanted)}")


def text_of(seconds: float) -> str:
    """Return a time as RFC 3339."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
