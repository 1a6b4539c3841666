"""The full backup and the segments for a restore of MySQL to a point in the history, and the gaps. Pure functions.

The header of a segment has the GTID set of the followed member before and after it. A transaction that an earlier
segment contains and this set lacks was never acknowledged: the cluster continued without it, and a restore omits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import floor

from mysqlcluster.backup.binlog import Transaction
from mysqlcluster.backup.catalog import ArchiveMark, BackupManifest, SegmentHeader
from mysqlcluster.backup.plan import (
    Gap,
    PlanError,
    PlannedSegment,
    RestorePlan,
    Target,
    check_mark,
    named_backup,
    newest,
)
from mysqlcluster.gtid import GtidSet

__all__ = ["SetReplay", "set_gaps", "set_plan", "set_removable"]


def set_plan(
    target: Target, backups: Sequence[BackupManifest], segments: Sequence[SegmentHeader], mark: ArchiveMark | None
) -> RestorePlan:
    """Return the plan of a restore to a target; arguments and errors are those of `plan.plan`."""
    if target.time is None and not target.gtid:
        return RestorePlan(named_backup(target.backup, backups))
    wanted = GtidSet.parse(target.gtid)
    second = floor(target.time) if target.time is not None else None
    abandoned = _abandoned(segments)
    base = _base(target, [each for each in backups if each.verified], wanted, segments)
    position = GtidSet.parse(base.position)
    chosen: list[PlannedSegment] = []
    last_time = floor(base.ended)
    for header in segments:
        if second is None and position.contains(wanted):
            break
        after, content = _before(header), _content(header)
        kept = content.subtract(abandoned)
        if not position.contains(kept):
            if missing := after.subtract(abandoned).subtract(position):
                raise PlanError(f"the archive has a gap: {_gap(missing, header, last_time)}")
            lost = content.subtract(kept)
            chosen.append(PlannedSegment(header.number, abandoned=str(lost)))
            position = position.union(kept)
            # The greatest time of a segment may belong to an abandoned transaction.
            if second is not None and header.last_time >= second and not lost:
                break
        last_time = max(last_time, header.last_time)
    else:
        if second is not None:
            written = GtidSet.parse(mark.position) if mark is not None else GtidSet()
            complete = position.contains(written.subtract(abandoned))
            check_mark(second, mark, str(position), complete=complete)
        elif not position.contains(wanted):
            raise PlanError(f"the archive ends at {position}, before {wanted}")
    return RestorePlan(base, tuple(chosen), second, str(wanted))


def _before(header: SegmentHeader) -> GtidSet:
    return GtidSet.parse(header.after)


def _content(header: SegmentHeader) -> GtidSet:
    return GtidSet.parse(header.until).subtract(_before(header))


def _abandoned(segments: Sequence[SegmentHeader]) -> GtidSet:
    """Return the transactions of segments that a later segment begins without."""
    found, earlier = GtidSet(), GtidSet()
    for header in segments:
        found = found.union(earlier.subtract(_before(header)))
        earlier = earlier.union(_content(header))
    return found


def _base(
    target: Target, usable: Sequence[BackupManifest], wanted: GtidSet, segments: Sequence[SegmentHeader]
) -> BackupManifest:
    """Return the newest backup that ends before the target, without abandoned transactions."""
    fit = [each for each in usable if _ends_before(each, target, wanted)]
    kept = [each for each in fit if not _lost(each, segments)]
    if fit and not kept:
        latest = newest(fit, usable)
        raise PlanError(
            f"the full backup {latest.name} has {_lost(latest, segments)}, which a failover has abandoned; choose a"
            " point after a later backup"
        )
    return newest(kept, usable)


def _ends_before(backup: BackupManifest, target: Target, wanted: GtidSet) -> bool:
    if target.time is not None and backup.ended >= target.time:
        return False
    position = GtidSet.parse(backup.position)
    return not wanted or wanted.contains(position) or not position.contains(wanted)


def _lost(backup: BackupManifest, segments: Sequence[SegmentHeader]) -> GtidSet:
    """Return the transactions of a backup that the archive continued without."""
    position, lost = GtidSet.parse(backup.position), GtidSet()
    for header in segments:
        if not position.contains(_content(header)):
            lost = lost.union(position.subtract(GtidSet.parse(header.until)))
    return lost


def _gap(missing: GtidSet, header: SegmentHeader, last_time: int) -> Gap:
    return Gap(str(missing), last_time, header.first_time, header.number)


def set_gaps(segments: Sequence[SegmentHeader]) -> tuple[Gap, ...]:
    """Return the gaps between segments, in order."""
    found: list[Gap] = []
    position, abandoned, last_time = GtidSet(), _abandoned(segments), 0
    for index, header in enumerate(segments):
        missing = _before(header).subtract(abandoned).subtract(position)
        if index and missing:
            found.append(_gap(missing, header, last_time))
        position = position.union(GtidSet.parse(header.until))
        last_time = max(last_time, header.last_time)
    return tuple(found)


def set_removable(segments: Sequence[SegmentHeader], backups: Iterable[BackupManifest]) -> tuple[int, ...]:
    """Return the segments that no backup needs: every verified backup contains their transactions."""
    positions = [GtidSet.parse(each.position) for each in backups if each.verified]
    if not positions:
        return ()
    found: list[int] = []
    abandoned = _abandoned(segments)
    for header in segments[:-1]:
        until = GtidSet.parse(header.until).subtract(abandoned)
        if not all(position.contains(until) for position in positions):
            break
        found.append(header.number)
    return tuple(found)


class SetReplay:
    """Decides for each transaction of the planned segments of MySQL, in order, whether it is restored."""

    def __init__(self, made: RestorePlan) -> None:
        """Start at the position of the full backup."""
        self._until_time = made.until_time
        self._wanted = GtidSet.parse(made.until_gtid)
        self._abandoned = {each.number: GtidSet.parse(each.abandoned) for each in made.segments}
        self._position = GtidSet.parse(made.backup.position)
        self.done = False
        """The target is reached; no further transaction is restored."""

    def takes(self, segment: PlannedSegment, transaction: Transaction) -> bool:
        """Return whether a transaction is restored."""
        one = GtidSet.parse(str(transaction.gtid))
        if self.done or self._abandoned[segment.number].contains(one) or self._position.contains(one):
            return False
        at_time = self._until_time is not None and transaction.time >= self._until_time
        if at_time or (self._wanted and self._position.contains(self._wanted)):
            self.done = True
            return False
        self._position = self._position.union(one)
        return True

    def check_reached(self) -> None:
        """Check that the replay has reached its target.

        Raises:
            PlanError: The segments did not contain the requested transactions.
        """
        if missing := self._wanted.subtract(self._position):
            raise PlanError(f"the replay ended at {self._position or 'nothing'}, without {missing}")
