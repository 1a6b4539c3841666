"""Each parser withstands the same broken inputs at each run, and the engine finds those that break its bounds."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from .engine import Failure, Target, fuzz, replay, save
from .mutation import LONGEST_BYTES, Mutator
from .targets import TARGETS

INPUTS = 500
"""The same at each run, so that a run finds what the last one found; `make fuzz` looks for more."""
MAX_SECONDS = 120.0
KEPT = Path(__file__).parent / "kept"
"""Inputs that failed once: `<target>-<name>.input`."""


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_withstands_what_the_fuzzer_makes(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    outcome = fuzz(target, MAX_SECONDS, inputs=INPUTS)
    assert outcome.inputs == INPUTS
    assert not [(str(save(failure, target, tmp_path)), failure.problem) for failure in outcome.failures]


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(KEPT.glob("*.input")), ids=lambda file: file.stem)
def test_an_input_that_failed_once_passes(file: Path) -> None:
    assert not replay(TARGETS[file.name.partition("-")[0]], [file.read_bytes()])


def _faulty() -> object:
    hoard: list[bytearray] = []

    def run(data: bytes) -> str:
        match data:
            case b"raise":
                raise RecursionError("too deep")
            case b"spin":
                until = time.process_time() + 1.2
                while time.process_time() < until:
                    pass
            case b"hoard":
                hoard.append(bytearray(b"x") * (300 << 20))
                hoard.clear()
            case b"die":
                os._exit(139)
        return "fine"

    return run


FAULTY = Target("faulty", _faulty, [b"fine"], [b"a"])  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"raise", "RecursionError: too deep"),
        (b"spin", "of processor time"),
        (b"hoard", "MB"),
        (b"die", "ended with 139"),
    ],
)
def test_the_engine_finds_an_input_that_breaks_its_bounds(data: bytes, problem: str) -> None:
    (failure,) = replay(FAULTY, [data])
    assert failure.data == data
    assert problem in failure.problem


def test_an_input_within_its_bounds_is_no_failure() -> None:
    assert replay(FAULTY, [b"fine", b"other"]) == []


def test_a_failing_input_is_kept_with_what_is_wrong_with_it(tmp_path: Path) -> None:
    file = save(Failure(b"\0a", "a problem"), FAULTY, tmp_path)
    assert file.name.startswith("faulty-")
    assert file.read_bytes() == b"\0a"
    assert file.with_suffix(".txt").read_text() == "a problem"


def test_a_seed_makes_the_same_inputs_again() -> None:
    from random import Random

    one, other, third = (Mutator(Random(seed), [b"seed", b""], [b"token"]) for seed in ("1", "1", "2"))
    made = [one.next() for _ in range(200)]
    assert made == [other.next() for _ in range(200)]
    assert made != [third.next() for _ in range(200)]
    assert max(map(len, made)) <= LONGEST_BYTES
