"""The script that runs histories of many seeds: its reports, its page, and the seeds that run again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts import script

histories = script("check_histories")


def test_the_page_has_the_results_of_the_reports():
    """`python hack/check_histories.py --render` mends it."""
    reports = [histories.read_report(flavor) for flavor in histories.SERVERS]
    if any(each["runs"] for each in reports):
        assert histories.PAGE.read_text() == histories.render(reports)
    else:
        assert not histories.PAGE.exists()


class FakeHistories:
    """Histories that end at once."""

    def __init__(self) -> None:
        self.ran: list[int] = []
        self.interrupted_at: int | None = None
        self.unhealed: set[int] = set()
        self.lossy: set[int] = set()

    async def run(self, server: str, seed: int) -> dict[str, object]:
        if seed == self.interrupted_at:
            raise KeyboardInterrupt
        self.ran.append(seed)
        if seed in self.unhealed:
            return histories.without_result(seed, "the cluster did not heal") | {"faults": ["kill m-1"]}
        problems = ["m-1 lost 1 acknowledged writes: [3]"] if seed in self.lossy else []
        counts = {"acknowledged": 100 + seed, "unknown": 1, "longest_gap": 1.5}
        return {"seed": seed, "faults": ["kill m-0"], "problems": problems, "unhealed": "", **counts}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeHistories:
    """The results that the script gets instead of those of real servers."""
    found = FakeHistories()
    monkeypatch.setattr(histories, "report_of", lambda flavor: tmp_path / f"{flavor}.json")
    monkeypatch.setattr(histories, "PAGE", tmp_path / "histories.md")
    monkeypatch.setattr(histories, "_history", found.run)
    return found


def test_an_interrupted_run_keeps_its_results_and_continues_with_the_other_seeds(fake: FakeHistories):
    fake.interrupted_at = 2
    with pytest.raises(KeyboardInterrupt):
        histories.run("mariadb", range(4), "")
    fake.interrupted_at = None
    assert histories.run("mariadb", range(4), "busy")
    assert fake.ran == [0, 1, 2, 3]
    text = histories.PAGE.read_text()
    assert "4 seeds, 406 acknowledged writes, 0 with a problem." in text
    assert "cores; busy." in text
    assert "| 0 | 100 | 1 | 1.5 s | kill m-0 | none |" in text


def test_a_run_with_a_lost_write_fails_each_time(fake: FakeHistories):
    fake.lossy = {1}
    assert not histories.run("mariadb", range(2), "")
    assert not histories.run("mariadb", range(2), ""), "the report still has the lost write"
    assert fake.ran == [0, 1]
    assert "1 with a problem." in histories.PAGE.read_text()


def test_a_seed_that_did_not_heal_is_no_result_and_runs_again(fake: FakeHistories):
    fake.unhealed = {1}
    assert not histories.run("mysql", range(3), "")
    text = histories.PAGE.read_text()
    assert "2 seeds, 202 acknowledged writes" in text
    assert "Seed 1 did not heal (kill m-1)." in text
    fake.unhealed.clear()
    assert histories.run("mysql", range(3), "")
    assert fake.ran == [0, 1, 2, 1]
    text = histories.PAGE.read_text()
    assert "3 seeds, 303 acknowledged writes, 0 with a problem. 1 earlier attempts did not heal" in text
    assert "Seed 1 did not heal" not in text


def test_seeds_run_again_on_demand_and_the_results_of_other_seeds_stay(fake: FakeHistories):
    assert histories.run("mariadb", range(3), "")
    fake.interrupted_at = 1
    with pytest.raises(KeyboardInterrupt):
        histories.run("mariadb", range(2), "quiet", again=True)
    assert [each["seed"] for each in histories.read_report("mariadb")["runs"]] == [0, 2]
    fake.interrupted_at = None
    assert histories.run("mariadb", range(3), "quiet")
    assert fake.ran == [0, 1, 2, 0, 1]


def test_no_seed_begins_after_the_time_of_a_run(fake: FakeHistories):
    assert histories.run("mariadb", range(3), "", minutes=-1)
    assert fake.ran == []


def test_seeds_that_run_at_the_same_time_are_all_in_the_report(fake: FakeHistories):
    fake.unhealed = {3}
    assert not histories.run("mariadb", range(5), "", jobs=2)
    assert [each["seed"] for each in histories.read_report("mariadb")["runs"]] == [0, 1, 2, 3, 4]
    assert "4 seeds, 407 acknowledged writes, 0 with a problem." in histories.PAGE.read_text()
    assert fake.ran == [], "each seed runs in a process of its own"
