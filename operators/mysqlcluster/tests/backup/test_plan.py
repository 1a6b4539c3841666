"""Plans of restores, gaps, abandoned transactions, and the segments that retention removes."""

from __future__ import annotations

import pytest

from mysqlcluster.backup.binlog import Transaction
from mysqlcluster.backup.catalog import ArchiveMark, BackupManifest, SegmentHeader
from mysqlcluster.backup.histories import DomainHistory
from mysqlcluster.backup.plan import PlanError, Replay, Target, gaps, plan, removable
from mysqlcluster.backup.positions import Gtid, format_position, parse_position

MARK = ArchiveMark(1000.0, "db-1", "")


def backup(name: str, ended: float, position: str) -> BackupManifest:
    return BackupManifest(
        name, "db-1", ended - 1, ended, position, 1, "", position=position, version="10.11", verified=ended + 1
    )


def segment(number: int, after: str, until: str, first: int, times: tuple[int, int]) -> SegmentHeader:
    return SegmentHeader(number, "db-1", after, until, {0: first}, *times, 1, 1, "")


CHAIN = [
    segment(1, "", "0-1-10", 1, (100, 190)),
    segment(2, "0-1-10", "0-1-20", 11, (200, 290)),
    segment(3, "0-1-20", "0-1-30", 21, (300, 390)),
]
BACKUPS = [backup("old", 150.0, "0-1-5"), backup("new", 250.0, "0-1-15")]


def test_a_backup_by_name_needs_no_segment():
    made = plan(Target("old"), BACKUPS, CHAIN, MARK)
    assert (made.backup.name, made.segments) == ("old", ())


@pytest.mark.parametrize(
    ("time", "base", "numbers"), [(200.0, "old", [1, 2]), (249.0, "old", [1, 2]), (320.5, "new", [2, 3])]
)
def test_a_time_begins_with_the_newest_backup_before_it(time: float, base: str, numbers: list[int]):
    made = plan(Target("old", time), BACKUPS, CHAIN, MARK)
    assert (made.backup.name, [each.number for each in made.segments]) == (base, numbers)


def test_an_abandoned_transaction_after_the_point_does_not_hide_later_segments():
    former = segment(1, "", "0-1-12", 1, (100, 190))  # 11 and 12 were never acknowledged
    new = segment(2, "0-1-10", "0-2-14", 11, (170, 300))
    made = plan(Target("old", 180.0), BACKUPS[:1], [former, new], MARK)
    assert [(each.number, dict(each.cut)) for each in made.segments] == [(1, {0: 11}), (2, {})]


def test_segments_that_do_not_reach_the_mark_are_refused():
    reached, ahead = ArchiveMark(1000.0, "db-1", "0-1-30"), ArchiveMark(1000.0, "db-1", "0-1-31")
    assert plan(Target("old", 900.0), BACKUPS, CHAIN, reached).segments
    with pytest.raises(PlanError, match="lead to 0-1-30, and the archive had 0-1-31"):
        plan(Target("old", 900.0), BACKUPS, CHAIN, ahead)


def test_a_gtid_stops_at_its_segment():
    made = plan(Target("old", gtid="0-1-18"), BACKUPS, CHAIN, MARK)
    assert (made.backup.name, [each.number for each in made.segments]) == ("new", [2])


def test_a_point_before_every_backup_names_the_first_one():
    with pytest.raises(PlanError, match="the first, old, ends at 1970-01-01T00:02:30Z"):
        plan(Target("old", 120.0), BACKUPS, CHAIN, MARK)


def test_a_point_after_the_archive_names_its_end():
    with pytest.raises(PlanError, match="leads to 1970-01-01T00:16:40Z only"):
        plan(Target("old", 1001.0), BACKUPS, CHAIN, MARK)
    with pytest.raises(PlanError, match="ends at 0-1-30, before 0-1-31"):
        plan(Target("old", gtid="0-1-31"), BACKUPS, CHAIN, MARK)


def test_a_gap_is_named_and_stops_only_restores_that_cross_it():
    broken = [CHAIN[0], segment(2, "0-1-14", "0-1-20", 15, (240, 290)), CHAIN[2]]
    assert [str(gap) for gap in gaps(broken)] == [
        "transactions after 0-1-10 up to 0-1-14, between 1970-01-01T00:03:10Z and 1970-01-01T00:04:00Z, are missing"
    ]
    with pytest.raises(PlanError, match="transactions after 0-1-10 up to 0-1-14"):
        plan(Target("old", 245.0), BACKUPS, broken, MARK)
    assert plan(Target("old", 180.0), BACKUPS, broken, MARK).backup.name == "old"
    assert plan(Target("old", 320.0), BACKUPS, broken, MARK).backup.name == "new"


def test_transactions_that_a_failover_abandoned_are_left_out():
    moved = [
        segment(1, "", "0-1-12", 1, (100, 190)),
        segment(2, "0-1-10", "0-1-10,0-2-20", 11, (200, 290)),
    ]
    assert gaps(moved) == ()
    made = plan(Target("old", 250.0), BACKUPS[:1], moved, MARK)
    assert [each.cut for each in made.segments] == [{0: 11}, {}]
    replay = Replay(made)
    first, second = made.segments
    taken = [n for n in range(1, 13) if replay.takes(first, Transaction(Gtid(0, 1, n), 160))]
    assert taken == [6, 7, 8, 9, 10]
    assert replay.takes(second, Transaction(Gtid(0, 2, 11), 210))
    assert not replay.takes(second, Transaction(Gtid(0, 2, 12), 250))
    assert replay.done


def test_a_backup_with_an_abandoned_transaction_does_not_go_on():
    base = backup("bad", 150.0, "0-1-5")
    made = plan(Target("bad", 250.0), [base], [segment(1, "0-2-4", "0-2-9", 5, (160, 290))], MARK)
    with pytest.raises(PlanError, match="the full backup has 0-1-5, which a failover has abandoned"):
        Replay(made).takes(made.segments[0], Transaction(Gtid(0, 2, 5), 160))


def test_retention_keeps_the_segments_that_a_backup_needs():
    assert removable(CHAIN, BACKUPS) == ()
    assert removable(CHAIN, BACKUPS[1:]) == (1,)
    assert removable(CHAIN, []) == ()


def test_a_history_tells_a_known_transaction_from_a_conflict():
    history = DomainHistory("0-1-101")
    assert history.holds(Gtid(0, 1, 100))
    assert not history.conflicts(Gtid(0, 2, 102))
    assert history.conflicts(Gtid(0, 2, 101))
    history.abandon(Gtid(0, 2, 101))
    assert str(history) == "0-1-100"


def test_a_position_is_the_highest_number_of_each_domain():
    assert format_position(parse_position("1-1-3, 0-1-5,0-2-9")) == "0-2-9,1-1-3"
    with pytest.raises(ValueError, match="is not DOMAIN-SERVER-NUMBER"):
        parse_position("0-1")
