"""The differences between the archives of MariaDB and MySQL: histories, plans, gaps and replays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from mysqlcluster.backup.binlog import Transaction
from mysqlcluster.backup.catalog import ArchiveMark, BackupManifest, SegmentHeader
from mysqlcluster.backup.histories import DomainHistory, History, SetHistory
from mysqlcluster.backup.plan import Gap, PlannedSegment, Replay, RestorePlan, Target, gaps, plan, removable
from mysqlcluster.backup.set_plan import SetReplay, set_gaps, set_plan, set_removable

__all__ = ["AnyReplay", "Dialect", "dialect_of"]


class AnyReplay(Protocol):
    """Decides for each transaction of the planned segments, in order, whether it is restored."""

    done: bool
    """The target is reached; no further transaction is restored."""

    def takes(self, segment: PlannedSegment, transaction: Transaction) -> bool:
        """Return whether a transaction is restored; raises `PlanError`."""
        ...

    def check_reached(self) -> None:
        """Raise `PlanError` if the replay has not reached its target."""
        ...


Planner = Callable[
    [Target, Sequence[BackupManifest], Sequence[SegmentHeader], ArchiveMark | None],
    RestorePlan,
]


class Dialect(NamedTuple):
    """The functions of one flavor."""

    history: Callable[[str], History]
    """Returns the history of a text."""
    plan: Planner
    gaps: Callable[[Sequence[SegmentHeader]], tuple[Gap, ...]]
    removable: Callable[[Sequence[SegmentHeader], Iterable[BackupManifest]], tuple[int, ...]]
    replay: Callable[[RestorePlan], AnyReplay]


_DIALECTS = {
    "mariadb": Dialect(DomainHistory, plan, gaps, removable, Replay),
    "mysql": Dialect(SetHistory, set_plan, set_gaps, set_removable, SetReplay),
}


def dialect_of(flavor: str) -> Dialect:
    """Return the dialect of a flavor.

    Raises:
        ValueError: There is no dialect of that name.
    """
    if flavor not in _DIALECTS:
        raise ValueError(f"flavor {flavor!r}: use one of {', '.join(_DIALECTS)}")
    return _DIALECTS[flavor]
