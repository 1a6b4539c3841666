"""Plans of restores of MySQL: GTID sets, gaps, abandoned transactions, and the segments that retention removes."""

from __future__ import annotations

import pytest

from mysqlcluster.backup.binlog import Transaction
from mysqlcluster.backup.catalog import ArchiveMark, BackupManifest, SegmentHeader
from mysqlcluster.backup.histories import SetHistory
from mysqlcluster.backup.plan import PlanError, Target
from mysqlcluster.backup.positions import SourceGtid
from mysqlcluster.backup.set_plan import SetReplay, set_gaps, set_plan, set_removable
from mysqlcluster.gtid import GtidSet

A = "00000000-0000-0000-0000-00000000000a"
B = "00000000-0000-0000-0000-00000000000b"
MARK = ArchiveMark(1000.0, "db-1", "")


def backup(name: str, ended: float, position: str) -> BackupManifest:
    return BackupManifest(
        name, "db-1", ended - 1, ended, position, 1, "", position=position, version="9.7.4", verified=ended + 1
    )


def segment(number: int, after: str, until: str, times: tuple[int, int]) -> SegmentHeader:
    return SegmentHeader(number, "db-1", after, until, {}, *times, 1, 1, "")


CHAIN = [
    segment(1, "", f"{A}:1-10", (100, 190)),
    segment(2, f"{A}:1-10", f"{A}:1-20", (200, 290)),
    segment(3, f"{A}:1-20", f"{A}:1-30", (300, 390)),
]
BACKUPS = [backup("old", 150.0, f"{A}:1-5"), backup("new", 250.0, f"{A}:1-15")]
MOVED = [
    segment(1, "", f"{A}:1-12", (100, 190)),  # 11 and 12 were never acknowledged
    segment(2, f"{A}:1-10", f"{A}:1-10,{B}:1-9", (200, 290)),
]


@pytest.mark.parametrize(
    ("time", "base", "numbers"), [(200.0, "old", [1, 2]), (249.0, "old", [1, 2]), (320.5, "new", [2, 3])]
)
def test_a_time_begins_with_the_newest_backup_before_it(time: float, base: str, numbers: list[int]):
    made = set_plan(Target("old", time), BACKUPS, CHAIN, MARK)
    assert (made.backup.name, [each.number for each in made.segments]) == (base, numbers)


@pytest.mark.parametrize("gtid", [f"{A}:1-18", f"{A}:18"])
def test_a_set_or_its_last_transaction_stops_at_its_segment(gtid: str):
    made = set_plan(Target("old", gtid=gtid), BACKUPS, CHAIN, MARK)
    assert (made.backup.name, [each.number for each in made.segments]) == ("new", [2])
    replay = SetReplay(made)
    taken = [n for n in range(11, 21) if replay.takes(made.segments[0], Transaction(SourceGtid(A, n), 210))]
    assert taken == [16, 17, 18]
    replay.check_reached()


def test_a_point_after_the_archive_names_its_end():
    with pytest.raises(PlanError, match="leads to 1970-01-01T00:16:40Z only"):
        set_plan(Target("old", 1001.0), BACKUPS, CHAIN, MARK)
    with pytest.raises(PlanError, match=f"ends at {A}:1-30, before {A}:31"):
        set_plan(Target("old", gtid=f"{A}:31"), BACKUPS, CHAIN, MARK)


def test_segments_that_do_not_reach_the_mark_are_refused():
    reached, ahead = (ArchiveMark(1000.0, "db-1", f"{A}:1-{last}") for last in (30, 31))
    assert set_plan(Target("old", 900.0), BACKUPS, CHAIN, reached).segments
    with pytest.raises(PlanError, match=f"lead to {A}:1-30, and the archive had {A}:1-31"):
        set_plan(Target("old", 900.0), BACKUPS, CHAIN, ahead)


def test_a_gap_is_named_and_stops_only_restores_that_cross_it():
    broken = [CHAIN[0], segment(2, f"{A}:1-14", f"{A}:1-20", (240, 290)), CHAIN[2]]
    text = f"transactions {A}:11-14, between 1970-01-01T00:03:10Z and 1970-01-01T00:04:00Z, are missing"
    assert [str(gap) for gap in set_gaps(broken)] == [text]
    with pytest.raises(PlanError, match=f"transactions {A}:11-14"):
        set_plan(Target("old", 245.0), BACKUPS, broken, MARK)
    assert set_plan(Target("old", 180.0), BACKUPS, broken, MARK).backup.name == "old"
    assert set_plan(Target("old", 320.0), BACKUPS, broken, MARK).backup.name == "new"


def test_transactions_that_a_failover_abandoned_are_left_out():
    assert set_gaps(MOVED) == ()
    written = ArchiveMark(1000.0, "db-1", f"{A}:1-12")  # from before the failover
    made = set_plan(Target("old", 250.0), BACKUPS[:1], MOVED, written)
    assert [each.abandoned for each in made.segments] == [f"{A}:11-12", ""]
    replay = SetReplay(made)
    first, second = made.segments
    taken = [n for n in range(1, 13) if replay.takes(first, Transaction(SourceGtid(A, n), 160))]
    assert taken == [6, 7, 8, 9, 10]
    assert replay.takes(second, Transaction(SourceGtid(B, 1), 210))
    assert not replay.takes(second, Transaction(SourceGtid(B, 2), 250))
    assert replay.done


def test_a_backup_with_an_abandoned_transaction_is_not_continued():
    bad = backup("bad", 180.0, f"{A}:1-11")
    assert set_plan(Target("bad", 250.0), [BACKUPS[0], bad], MOVED, MARK).backup.name == "old"
    with pytest.raises(PlanError, match=f"the full backup bad has {A}:11, which a failover has abandoned"):
        set_plan(Target("bad", 250.0), [bad], MOVED, MARK)


def test_an_abandoned_transaction_that_two_members_had_is_no_gap():
    both = [
        segment(1, "", f"{A}:1-11", (100, 190)),
        segment(2, f"{A}:1-11", f"{A}:1-12", (191, 195)),
        segment(3, f"{A}:1-10", f"{A}:1-10,{B}:1", (200, 290)),
    ]
    assert set_gaps(both) == ()
    made = set_plan(Target("old", 280.0), BACKUPS[:1], both, MARK)
    assert [(each.number, each.abandoned) for each in made.segments] == [(1, f"{A}:11"), (3, "")]


def test_retention_keeps_the_segments_that_a_backup_needs():
    assert set_removable(CHAIN, BACKUPS) == ()
    assert set_removable(CHAIN, BACKUPS[1:]) == (1,)
    assert set_removable(CHAIN, []) == ()
    later = backup("later", 280.0, f"{A}:1-10,{B}:1-3")
    assert set_removable(MOVED, [later]) == (1,)


def test_a_lagging_member_abandons_nothing_and_a_member_without_a_transaction_does():
    history = SetHistory(f"{A}:1-12")
    history.begin_file(GtidSet.parse(f"{A}:1-8"))
    for number in range(9, 13):
        assert history.holds(SourceGtid(A, number))
        history.include(SourceGtid(A, number))
    assert not history.conflicts(SourceGtid(A, 13))

    history = SetHistory(f"{A}:1-12")
    history.begin_file(GtidSet.parse(f"{A}:1-10"))
    assert history.conflicts(SourceGtid(B, 1))
    history.abandon(SourceGtid(B, 1))
    assert str(history) == f"{A}:1-10"
