"""The measurement of rows: round by round, side by side, within a budget, with progress output."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import pytest

from benchmarks import run
from benchmarks.harness import Bench, BenchmarkError, NotMeasuredError
from benchmarks.progress import span
from benchmarks.rows import JAVA, Bar, Numbers, Row, Size
from benchmarks.schedule import Clock, Group, groups, plan_table
from benchmarks.session import measure
from benchmarks.verdicts import Results


class Machine:
    """Measures nothing, in virtual time: each run takes the seconds that its peer's name says after a dash."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log: list[str] = []
        self.prepared: list[str] = []
        self.closed = False
        self.cpu = 1.0
        self.took: dict[str, Sequence[float]] = {}
        """The durations of a peer's runs by its name; the last one repeats."""
        self.interrupted_at = ""

    def prepare(self, peer: str) -> None:
        self.now += 1000
        self.prepared.append(peer)

    def close(self) -> None:
        self.closed = True

    def row(self, name: str, *peers: str, runs: int = 2, bars: tuple[Bar, ...] = ()) -> Row:
        def measure(_bench: Bench, peer: str, _size: Size, seed: int) -> Numbers:
            self.log.append(f"{name}/{peer}/{seed}")
            if self.log[-1] == self.interrupted_at:
                raise KeyboardInterrupt
            match peer:
                case "absent":
                    raise NotMeasuredError("no tool chain")
                case "broken":
                    raise BenchmarkError("lost 3 events")
                case _:
                    self.now += float(peer.partition("-")[2] or 1)
                    numbers = self.took.get(peer, [self.cpu])
                    return {"cpu_us": numbers[min(seed, len(numbers)) - 1]}

        return Row(name, "", measure, Size(), Size(), peers, bars, runs=runs)

    def measure(
        self, *rows: Row, runs: int | None = None, budget: float = 1e9, surer: bool = False
    ) -> tuple[Results, bool]:
        opened = cast("Callable[[], Bench]", lambda: self)
        return measure(
            rows, runs, None, budget, quick=False, opened=opened, now=lambda: self.now, surer=surer
        )  # fmt: skip


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_every_row_is_measured_once_before_any_is_measured_again(machine: Machine) -> None:
    results, finished = machine.measure(machine.row("x", "a", "b"), machine.row("y", "a"))
    assert machine.log == ["x/a/1", "x/b/1", "y/a/1", "x/a/2", "x/b/2", "y/a/2"]
    assert finished
    assert machine.closed
    assert results["runs"] == 2
    assert results["failed"] == {}


def test_a_row_has_as_many_runs_as_it_says(machine: Machine) -> None:
    rows = [machine.row("x", "a", runs=3), machine.row("y", "a", runs=1)]
    assert [(g.row.name, g.run) for g in groups(rows, None, None)] == [("x", 0), ("y", 0), ("x", 1), ("x", 2)]
    assert [(g.row.name, g.run, g.peers) for g in groups(rows, 1, ["q"])] == [("x", 0, ("q",)), ("y", 0, ("q",))]


def test_a_row_of_ours_alone_stays_so_whatever_peers_are_asked_for(machine: Machine) -> None:
    (group,) = groups([machine.row("import", "steersman", runs=1)], None, ["kopf"])
    assert group.peers == ("steersman",)


def test_a_peer_that_no_bar_is_about_is_measured_once(machine: Machine) -> None:
    row = machine.row("x", "a", "b", "c", JAVA, runs=3, bars=(Bar("cpu_us", 1.0, "b", "a"),))
    planned = [group.peers for group in groups([row], None, None)]
    assert planned == [("a", "b", "c", JAVA), ("a", "b"), ("a", "b")]
    assert {group.peers for group in groups([row], 3, None)} == {("a", "b", "c", JAVA)}


def test_in_a_row_without_bars_only_slow_peers_are_measured_once(machine: Machine) -> None:
    planned = [group.peers for group in groups([machine.row("x", "a", "b", JAVA, runs=2)], None, None)]
    assert planned == [("a", "b", JAVA), ("a", "b")]


def test_a_plan_tells_rounds_runs_and_expected_seconds(machine: Machine) -> None:
    rows = [machine.row("x", "a", "b"), machine.row("y", "a", runs=5)]
    clock = Clock(1e9, {("x", "a"): 3.0, ("x", "b"): 4.0, ("y", "a"): 2.0})
    assert plan_table(groups(rows, None, None), clock)[1:] == [
        ["x", "2", "4", "14"],
        ["y", "5", "5", "10"],
        ["in all", "5", "9", "24"],
    ]


CLOSE = (Bar("cpu_us", 1.0, "b", "a"),)


def test_a_close_call_gets_more_rounds_of_the_peers_that_it_is_about(machine: Machine) -> None:
    machine.took = {"a": [0.9, 1.1, 1.0]}
    results, finished = machine.measure(machine.row("x", "a", "b", "c", bars=CLOSE), surer=True)
    assert finished
    assert {peer: len(runs) for peer, runs in results["rows"]["x"].items()} == {"a": 11, "b": 11, "c": 1}
    assert machine.log[-4:] == ["x/a/10", "x/b/10", "x/a/11", "x/b/11"]


@pytest.mark.parametrize("ours", [0.5, 2.0])
def test_a_clear_call_gets_none_whether_the_bar_holds_or_not(machine: Machine, ours: float) -> None:
    machine.took = {"a": [ours]}
    machine.measure(machine.row("x", "a", "b", bars=CLOSE), surer=True)
    assert len(machine.log) == 4


def test_without_being_asked_for_no_call_gets_more(machine: Machine) -> None:
    machine.measure(machine.row("x", "a", "b", bars=CLOSE))
    assert len(machine.log) == 4


def test_closer_calls_end_with_the_budget(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    row = machine.row("x", "a-10", "b-10", bars=(Bar("cpu_us", 1.0, "b-10", "a-10"),))
    machine.measure(row, budget=65, surer=True)
    assert len(machine.log) == 6
    said = capsys.readouterr().err.splitlines()
    assert said[2] == "[3/4] x · a-10 · run 2  (20 s gone, about 45 s left)"
    assert said[4] == "[5/6] x · a-10 · run 3, a close call  (40 s gone, about 25 s left)"


def test_the_time_left_counts_the_rounds_that_close_calls_will_get(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.measure(machine.row("x", "a-1", "b-1", bars=(Bar("cpu_us", 1.0, "b-1", "a-1"),)), surer=True)
    said = capsys.readouterr().err.splitlines()
    assert said[2] == "[3/4] x · a-1 · run 2  (2 s gone, about 20 s left)"
    assert said[4] == "[5/22] x · a-1 · run 3, a close call  (4 s gone, about 18 s left)"
    assert said[-1] == "[22/22] x · b-1 · run 11, a close call  (21 s gone, about 1 s left)"


def test_rounds_that_a_peer_was_not_in_are_told_of(machine: Machine) -> None:
    machine.took = {"c": [5.0]}
    bars = (Bar("cpu_us", 1.0, "b", "a"), Bar("cpu_us", 0.19, "c", "a"))
    results, _ = machine.measure(machine.row("x", "a", "b", "c", bars=bars), surer=True)
    rounds = results.get("taken", {})["x"].get("rounds", {})
    assert len(results["rows"]["x"]["a"]) == 20
    assert sorted([*rounds["b"], *rounds["c"]][2:]) == sorted([0, 1, *range(2, 20)])


def test_who_fails_in_a_later_round_has_failed(machine: Machine) -> None:
    row = machine.row("x", "a", "broken", bars=(Bar("cpu_us", 1.0, "broken", "a"),))
    results, _ = machine.measure(row, surer=True)
    assert results["failed"] == {"x": {"broken": "lost 3 events"}}
    assert machine.log == ["x/a/1", "x/broken/1", "x/a/2"]


def test_the_budget_leaves_out_later_runs_whole_and_says_so(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    results, _ = machine.measure(machine.row("x", "a-60", "b-60"), machine.row("y", "a-10"), budget=150)
    assert machine.log == ["x/a-60/1", "x/b-60/1", "y/a-10/1", "y/a-10/2"]
    assert "the budget of 2 min 30 s leaves out x, run 2" in capsys.readouterr().err
    assert results.get("taken", {})["x"].get("asked") == 2
    assert "asked" not in results.get("taken", {})["y"]


def test_a_first_run_is_made_even_beyond_the_budget(machine: Machine) -> None:
    machine.measure(machine.row("x", "a-60"), machine.row("y", "a-60"), budget=1)
    assert machine.log == ["x/a-60/1", "y/a-60/1"]


def test_builds_are_on_nobodys_clock(machine: Machine) -> None:
    results, _ = machine.measure(machine.row("x", "a-60", "b-60"), budget=240)
    assert machine.prepared == ["a-60", "b-60"]
    assert results.get("taken", {})["x"].get("seconds") == {"a-60": 60.0, "b-60": 60.0}
    assert len(machine.log) == 4


def test_a_failure_is_reported_and_not_tried_again(machine: Machine) -> None:
    results, _ = machine.measure(machine.row("x", "a", "broken"))
    assert machine.log == ["x/a/1", "x/broken/1", "x/a/2"]
    assert results["failed"] == {"x": {"broken": "lost 3 events"}}


def test_a_peer_that_cannot_be_had_is_no_failure(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    results, _ = machine.measure(machine.row("x", "absent", "a"))
    assert results["failed"] == {}
    assert results.get("skipped") == {"x": {"absent": "no tool chain"}}
    assert "x · absent: not measured: no tool chain" in capsys.readouterr().err


def test_an_interrupt_reports_what_was_measured(machine: Machine) -> None:
    machine.interrupted_at = "y/a/1"
    results, finished = machine.measure(machine.row("x", "a"), machine.row("y", "a"))
    assert not finished
    assert machine.closed
    assert list(results["rows"]) == ["x"]


def test_what_runs_last_is_learned_from_the_last_results_and_then_from_this_session(machine: Machine) -> None:
    row = machine.row("x", "a", "b", "c")
    clock = Clock(100, {("x", "a"): 7.0})
    group = Group(row, 1, row.peers)
    assert clock.cost(group) == 7 + 5 + 5
    clock.lasted("x", "a", 20)
    clock.lasted("x", "a", 10)
    assert clock.cost(group, {("x", "c")}) == 20 + 5
    assert clock.fits(group, 70)
    assert not clock.fits(group, 71)


def test_progress_without_a_terminal_is_plain_lines(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.measure(machine.row("x", "a-3", runs=2))
    assert capsys.readouterr().err.splitlines() == [
        "[1/2] x · a-3 · run 1  (0 s gone, about 10 s left)",
        "[2/2] x · a-3 · run 2  (3 s gone, about 3 s left)",
    ]
    assert span(125) == "2 min 5 s"


class Runner:
    """The command line over virtual rows."""

    def __init__(self, machine: Machine, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        monkeypatch.setattr(run, "ROWS", (machine.row("x", "steersman"), machine.row("y", "steersman")))
        monkeypatch.setattr(run, "Bench", lambda: machine)
        monkeypatch.setattr(run, "ours", dict)  # the facts of a compiled wheel, which takes minutes to build

    def __call__(self, *arguments: str) -> int:
        return run.main([*arguments, "--out", str(self.directory)])

    def kept(self) -> Results:
        return json.loads((self.directory / "results.json").read_text())


@pytest.fixture
def command(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.setattr("benchmarks.written._plots", lambda *_: [])
    monkeypatch.setattr("benchmarks.written.STUDIES", ())
    return Runner(machine, tmp_path, monkeypatch)


def test_all_rows_at_full_size_write_the_results_and_the_report(command: Runner) -> None:
    assert command() == 0
    assert list(command.kept()["rows"]) == ["x", "y"]
    assert (command.directory / "report.md").exists()


@pytest.mark.parametrize(
    ("arguments", "runs"),
    [((), 11), (("x", "--report"), 11), (("x",), 2), (("--runs", "3"), 3), (("--quick",), 1)],
)
def test_close_calls_are_measured_more_in_what_is_reported_unless_runs_are_counted_out(
    machine: Machine, command: Runner, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], runs: int
) -> None:
    monkeypatch.setattr(run, "ROWS", (machine.row("x", "steersman", "b", bars=(Bar("cpu_us", 1.0, "b"),)),))
    command(*arguments)
    assert len(machine.log) == 2 * runs


@pytest.mark.parametrize("arguments", [("x",), ("--quick",), ("--peers", "steersman")])
def test_anything_less_only_prints(command: Runner, arguments: tuple[str, ...]) -> None:
    assert command(*arguments) == 0
    assert list(command.directory.iterdir()) == []


def test_one_row_is_measured_anew_beside_the_kept_others(command: Runner, machine: Machine) -> None:
    command()
    machine.log.clear()
    assert command("y", "--keep") == 0
    assert machine.log == ["y/steersman/1", "y/steersman/2"]
    assert list(command.kept()["rows"]) == ["x", "y"]


def test_some_of_the_peers_alone_do_not_replace_a_fuller_row(
    command: Runner, machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "ROWS", (machine.row("x", "steersman", "kopf"),))
    command()
    machine.cpu = 2.0
    command("--keep", "--peers", "kopf")
    assert "x: earlier numbers kept, since steersman was not measured now" in capsys.readouterr().err
    assert command.kept()["rows"]["x"]["kopf"][0]["cpu_us"] == 1.0


def test_small_sizes_do_not_overwrite_kept_full_ones(command: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    command()
    before = command.kept()
    assert command("--quick", "--keep") == 2
    assert "never mixed" in capsys.readouterr().err
    assert command.kept() == before


def test_the_kept_results_can_be_rendered_anew(
    command: Runner, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("--render") == 2
    assert "nothing to render" in capsys.readouterr().err
    command()
    machine.log.clear()
    (command.directory / "report.md").unlink()
    assert command("--render") == 0
    assert machine.log == []
    assert (command.directory / "report.md").exists()


def test_what_changed_since_the_last_results_is_printed_and_kept(
    command: Runner, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    command()
    assert "changes" not in command.kept()
    machine.cpu = 2.0
    command()
    line = "slower than last time: x, CPU 1.00 µs (1.00 µs to 1.00 µs) → 2.00 µs (2.00 µs to 2.00 µs)"
    assert line in capsys.readouterr().out
    assert line in (command.directory / "report.md").read_text()
    command("--render")
    assert line in capsys.readouterr().out


def test_an_interrupted_run_keeps_what_it_did_not_measure_and_does_not_end_well(
    command: Runner, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    command()
    machine.cpu, machine.interrupted_at = 2.0, "y/steersman/1"
    assert command() == 130
    assert [runs["steersman"][0]["cpu_us"] for runs in command.kept()["rows"].values()] == [2.0, 1.0]
    assert "not measured: y" in capsys.readouterr().out


def test_an_unknown_row_is_named(command: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("nonsense") == 2
    assert "no such row: nonsense; see --list" in capsys.readouterr().err
