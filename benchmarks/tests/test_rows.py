"""The rows are consistent: what a bar needs is measured, and no two rows have one name."""

from collections import Counter

from benchmarks.harness import _VARIANTS
from benchmarks.real import ROWS as REAL_ROWS
from benchmarks.rows import ROWS, Size
from benchmarks.rows.load import _due, _writes
from benchmarks.rows.steps import silent
from benchmarks.schedule import groups

BY_NAME = {row.name: row for row in ROWS}


def test_no_two_rows_have_one_name() -> None:
    assert len(BY_NAME) == len(ROWS)


def test_a_whole_run_measures_each_row_twice_and_small_operators_five_times() -> None:
    rounds = Counter(group.row.name for group in groups([*ROWS, *REAL_ROWS], None, None))
    assert set(rounds.values()) == {2, 5}
    few = {f"{name}-{rate}" for name in ("events", "reconcile") for rate in (1, 10, 100)}
    assert {name for name, count in rounds.items() if count == 5} == few | {
        "cold-start", "idle", "import", "real-patch-50",
    }  # fmt: skip


def test_who_a_bar_compares_is_measured_in_its_row() -> None:
    for row in ROWS:
        for bar in row.bars:
            assert bar.ours in row.peers
            assert bar.over or not bar.against or bar.against in row.peers


def test_growth_is_fitted_over_sizes_of_one_family_that_our_peer_has_at_full_size() -> None:
    fitted = [(row, bar) for row in ROWS for bar in row.bars if bar.over]
    assert fitted
    for row, bar in fitted:
        family = [BY_NAME[name] for name in bar.over]
        assert {member.family for member in family} == {row.family}
        assert len({member.x for member in family}) == len(family) >= 3
        assert all(bar.ours in member.peers and bar.ours not in member.smaller for member in family)


def test_a_size_says_only_the_flags_that_differ_from_their_defaults() -> None:
    assert Size().options == {}
    assert Size(namespaces=10, controllers=2).options == {"namespaces": 10, "controllers": 2}


def test_events_that_overtake_each_other_are_reconciled_once_by_each_controller() -> None:
    assert _due(Size(objects=100, events=30, controllers=2)) == 60
    assert _due(Size(objects=100, events=300)) == 100


def test_a_write_is_counted_whatever_its_verb() -> None:
    assert _writes({"patches": 1, "applies": 2, "posts": 3, "events": 100}) == 6


def test_variants_of_peers_are_flags() -> None:
    assert all(not word.startswith("-") for words in _VARIANTS.values() for word in words[:1])
    assert [name for name, words in _VARIANTS.items() if not words] == ["interpreted"]
    assert silent("kopf+uvloop")
    assert not silent("steersman+asyncio")
