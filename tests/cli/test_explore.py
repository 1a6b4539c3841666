"""`steersman explore`: explores a scenario of a file, without pytest."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from steersman.cli.dispatch import run
from steersman.cli.explore import Interruption, ProgressLine
from steersman.testing.explore import Exploration, Outcome, Plan
from steersman.testing.explore.scenario import ScenarioError, Step, read_scenario

ROOT = Path(__file__).resolve().parents[2]
OPERATOR = """
from tests.testing.explore.planted import CLASSES

def correct():
    return CLASSES["generate_name"](True)

def broken():
    return CLASSES["generate_name"](False)

def none():
    return None
"""
APP = """
apiVersion: planted.steersman.dev/v1
kind: App
metadata: {name: a}
spec: {replicas: 1}
"""
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT)])
    monkeypatch.delitem(sys.modules, "explored_operators", raising=False)
    (tmp_path / "explored_operators.py").write_text(OPERATOR)
    (tmp_path / "app.yaml").write_text(APP)

    def call(attribute: str, *words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run(["explore", f"explored_operators:{attribute}", *words])
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


def test_a_plan_that_breaks_the_operator_is_shown_and_saved(command: Command, tmp_path: Path) -> None:
    code, out, _ = command("broken", "-s", "app.yaml", "--plan", "crash-after:W1+lose-answer:W3", "--save", "found.txt")
    assert code == 1
    assert "the operator does not survive the plan crash-after:W1\n" in out
    assert "replay:  steersman explore explored_operators:broken --scenario app.yaml --plan 'crash-after:W1'" in out
    saved = (tmp_path / "found.txt").read_text().splitlines()
    assert saved[1] == "crash-after:W1"
    assert saved[0].startswith("# explored_operators:broken, seed 1: end-state: ")


def test_a_file_of_plans_is_replayed_and_the_correct_operator_survives(command: Command, tmp_path: Path) -> None:
    (tmp_path / "plans.txt").write_text("# a comment\ncrash-after:W1\nlose-answer:W1\n")
    code, out, _ = command("correct", "-s", "app.yaml", "--plans", "plans.txt", "-o", "json")
    found = json.loads(out)
    assert code == 0
    assert (found["runs"], found["failures"], found["interrupted"]) == (3, [], False)
    assert {point: sorted(kinds) for point, kinds in found["coverage"].items()} == {
        "W1": ["crash-after", "lose-answer"]
    }


@pytest.mark.parametrize(
    ("attribute", "words", "message"),
    [
        ("correct", ("-s", "missing.yaml"), "missing.yaml: cannot be read"),
        ("correct", ("-s", "app.yaml", "--plan", "crash:W1"), "'crash' is no fault"),
        ("correct", ("-s", "app.yaml", "--perturb", "rain"), "--perturb: 'rain' is unknown"),
        ("correct", ("-s", "app.yaml", "--allow", "rain"), "--allow: 'rain' is unknown"),
        ("correct", ("-s", "app.yaml", "--budget", "soon"), "--budget: 'soon' is not a duration"),
        ("none", ("-s", "app.yaml"), "explored_operators:none returned a NoneType, not an Operator"),
        ("OPERATOR", ("-s", "app.yaml"), "has no 'OPERATOR'"),
    ],
)
def test_wrong_words_are_named(command: Command, attribute: str, words: tuple[str, ...], message: str) -> None:
    code, _, err = command(attribute, *words)
    assert code == 2
    assert message in err


@pytest.mark.slow
def test_ctrl_c_shows_the_failures_so_far(command: Command, tmp_path: Path) -> None:
    pty = pytest.importorskip("pty", reason="a terminal is needed")
    terminal, side = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "steersman", "explore", "explored_operators:broken", "-s", "app.yaml", "--budget", "1h",
         "--stop-at", "1000", "--seeds", "1000", "--allow", "failing"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=side, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    os.close(side)
    try:
        shown = b""
        while b" failed" not in shown:
            shown = shown[-200:] + os.read(terminal, 4096)
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        os.close(terminal)
    assert process.returncode == 130, out
    assert out.startswith("interrupted; the failures so far:\nthe operator does not survive the plan ")


def test_ctrl_c_in_a_finalizer_ends_the_exploration_after_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _problem: None)

    class Finalized:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    shown: list[float] = []
    former = signal.getsignal(signal.SIGINT)
    with Interruption(lambda _result, share: shown.append(share)) as progress:
        progress(Exploration(), 0.1)
        Finalized()
        with pytest.raises(KeyboardInterrupt):
            progress(Exploration(), 0.2)
    assert shown == [0.1]
    assert signal.getsignal(signal.SIGINT) is former


def test_the_progress_line_has_the_rate_and_the_coverage() -> None:
    times = iter((0.0, 4.0))
    result = Exploration(runs=20, reference=Outcome(Plan(), 1))
    assert result.reference is not None
    result.reference.trace.writes = [SimpleNamespace()] * 3  # type: ignore[list-item]
    result.cover(Plan.read("crash-after:W1+hold:E2"))
    line = ProgressLine(lambda: next(times), shown=True).text(result, 0.25)
    assert line == "[######..................]  25% 20 runs, 5.0/s, 1/3 writes, 1/0 events"


def test_manifests_are_a_scenario_that_applies_all_and_deletes_custom_objects(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(f"{APP}---\napiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\n")
    apply, delete = read_scenario(file).steps
    assert [one["kind"] for one in apply.objects] == ["App", "Secret"]
    assert delete == Step("delete", kind="App.planted.steersman.dev", name="a")


def test_steps_are_read_with_files_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text(APP)
    file = tmp_path / "steps.yaml"
    file.write_text(
        "replicas: 2\nsettings: {leader_elect: true}\nsteps:\n- apply: app.yaml\n  settle: false\n- wait: 1m30s\n"
        "- delete: App.planted.steersman.dev/other/a\n"
    )
    scenario = read_scenario(file)
    assert (scenario.replicas, scenario.settings) == (2, {"leader_elect": True})
    apply, wait, delete = scenario.steps
    assert (apply.objects[0]["kind"], apply.settle) == ("App", False)
    assert (wait.seconds, wait.settle) == (90.0, False)
    assert (delete.kind, delete.namespace, delete.name) == ("App.planted.steersman.dev", "other", "a")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is no object and no `steps`"),
        ("steps: []", "steps: a list of steps is expected"),
        ("step: 1\nsteps: [{wait: 1s}]", "'step' is unknown; the fields are namespace, replicas, settings, steps"),
        ("steps: [{wait: 1s, apply: a.yaml}]", "steps[0]: exactly one of apply, delete, wait is expected"),
        ("steps: [{wait: soon}]", "steps[0].wait: 'soon' is not a duration"),
        ("steps: [{delete: a}]", "steps[0].delete: KIND/NAME or KIND/NAMESPACE/NAME is expected, not 'a'"),
        ("steps: [{apply: {kind: App}}]", "steps[0].apply: an object needs apiVersion and kind"),
        ("steps: [{apply: missing.yaml}]", "missing.yaml: cannot be read"),
        ("steps: [{apply: 3}]", "steps[0].apply: a file or an object is expected, not 3"),
        ("steps: [1]", "steps[0]: a mapping with one of apply, delete, wait is expected"),
        ("replicas: 0\nsteps: [{wait: 1s}]", "replicas: a number from 1 to 10 is expected"),
        ("a: [" * 200, "exceeded max depth of 100"),
    ],
)
def test_a_wrong_scenario_is_refused_with_its_field(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        read_scenario(file)
    assert message in str(caught.value)
