"""Runs a target on many inputs in a child process, and keeps the inputs that fail.

The child measures each input: its processor time, and how far it raises the process's peak of memory. The parent looks
at the input that is being run, and kills the child when that does not end.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import resource
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

from .mutation import Mutator

MOST_SECONDS = 1.0
"""Processor time of one input."""
MOST_MEGABYTES = 200
HANGING_SECONDS = 20.0
"""After so long without an answer the child is killed; a busy machine takes longer than the processor time says."""
ADDRESS_SPACE_BYTES = 4 << 30
MOST_POOLED = 2_000
MOST_FAILURES = 20

Run = Callable[[bytes], str]
"""Parses an input. Returns what became of it in a word or two, and raises for what should not be."""


@dataclass(frozen=True)
class Target:
    """One parser, and what its inputs look like."""

    name: str
    prepare: Callable[[], Run]
    """Is called once, in the child."""
    seeds: Sequence[bytes]
    tokens: Sequence[bytes]


@dataclass(frozen=True)
class Failure:
    """An input that failed, and the problem with it."""

    data: bytes
    problem: str

    @property
    def kind(self) -> str:
        """The first line without digits: one failure of a kind is enough."""
        return "".join(c for c in self.problem.partition("\n")[0] if not c.isdigit())[:120]


@dataclass
class Outcome:
    """The result of a run."""

    inputs: int = 0
    results: int = 0
    """Different outcomes seen."""
    slowest_seconds: float = 0.0
    largest_megabytes: float = 0.0
    failures: list[Failure] = field(default_factory=list)


def fuzz(target: Target, seconds: float, seed: int = 0, *, inputs: int | None = None) -> Outcome:
    """Run a target for that long, or on so many inputs: the same seed and number make the same inputs again.

    A child that dies or hangs is one failure, and another one goes on.
    """
    outcome = Outcome()
    until = time.monotonic() + seconds
    turn = 0
    while (left := until - time.monotonic()) > 0 and len(outcome.failures) < MOST_FAILURES:
        before = outcome.inputs
        rest = None if inputs is None else inputs - before
        if rest == 0:
            break
        _watch(
            target,
            lambda pipe, left=left, turn=turn, rest=rest: _explore(pipe, target, left, f"{seed}/{turn}", rest),
            outcome,
        )
        if outcome.inputs == before:
            break  # not even the seeds run
        turn += 1
    return outcome


def replay(target: Target, inputs: Sequence[bytes]) -> list[Failure]:
    """Run these inputs, each under the same bounds."""
    outcome = Outcome()
    for data in inputs:
        _watch(target, lambda pipe, data=data: _repeat(pipe, target, data), outcome)
    return outcome.failures


def save(failure: Failure, target: Target, directory: Path) -> Path:
    """Write a failing input to a `.input` file, and the problem to a `.txt` file. Returns the former."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{target.name}-{hashlib.sha256(failure.data).hexdigest()[:12]}.input"
    file.write_bytes(failure.data)
    file.with_suffix(".txt").write_text(failure.problem)
    return file


# The parent.


def _watch(target: Target, work: Callable[[Connection], None], outcome: Outcome) -> None:
    """Run a child to its end; kill it when one input takes longer than `HANGING_SECONDS`."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=work, args=(theirs,), daemon=True)
    child.start()
    theirs.close()
    current: bytes | None = None
    kinds = {failure.kind for failure in outcome.failures}

    def fail(failure: Failure) -> None:
        if failure.kind not in kinds:
            kinds.add(failure.kind)
            outcome.failures.append(failure)

    try:
        while ours.poll(HANGING_SECONDS):
            message = ours.recv()
            if isinstance(message, bytes):
                current = message
                continue
            if isinstance(message, Failure):
                fail(message)
                continue
            outcome.inputs += 1
            seconds, megabytes, results = message
            outcome.slowest_seconds = max(outcome.slowest_seconds, seconds)
            outcome.largest_megabytes = max(outcome.largest_megabytes, megabytes)
            outcome.results = max(outcome.results, results)
            current = None
        fail(Failure(current or b"", f"no answer within {HANGING_SECONDS:g} s"))
    except EOFError:
        child.join()
        if child.exitcode:
            fail(Failure(current or b"", f"the process ended with {child.exitcode}"))
    finally:
        child.kill()
        child.join()
        ours.close()


# The child.


def _explore(pipe: Connection, target: Target, seconds: float, seed: str, inputs: int | None) -> None:
    run = _ready(target)
    mutator = Mutator(Random(seed), target.seeds, target.tokens)
    seen: set[str] = set()
    first = list(target.seeds)
    failures = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until and failures < MOST_FAILURES and inputs != 0:
        inputs = None if inputs is None else inputs - 1
        data = first.pop() if first else mutator.next()
        result = _measure(pipe, run, data, len(seen))
        if result is None:
            failures += 1
        elif result not in seen:
            seen.add(result)
            if len(mutator.pool) < MOST_POOLED:
                mutator.pool.append(data)
    pipe.close()


def _repeat(pipe: Connection, target: Target, data: bytes) -> None:
    run = _ready(target)
    with suppress(Exception):
        run(target.seeds[0])  # modules are imported, and caches filled
    _measure(pipe, run, data, 0)
    pipe.close()


def _ready(target: Target) -> Run:
    run = target.prepare()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    for data in target.seeds:
        with suppress(Exception):
            run(data)
    return run


def _measure(pipe: Connection, run: Run, data: bytes, results: int) -> str | None:
    """Run one input and tell the parent. Returns the result, and None for a failure."""
    pipe.send(data)
    before = _reset_peak()
    started = time.process_time()
    result: str | None = None
    problem = ""
    try:
        result = run(data)
    except BaseException as error:  # a RecursionError or MemoryError, or whatever else a parser lets through
        # Only the innermost calls: the others are the same thousand times in a RecursionError.
        problem = f"{type(error).__name__}: {str(error)[:500]}\n" + "".join(
            traceback.format_tb(error.__traceback__)[-12:]
        )
    seconds = time.process_time() - started
    megabytes = max(0.0, _peak() - before)
    if not problem and seconds > MOST_SECONDS:
        problem = f"takes {seconds:.1f} s of processor time"
    if not problem and megabytes > MOST_MEGABYTES:
        problem = f"takes {megabytes:.0f} MB"
    if problem:
        pipe.send(Failure(data, problem))
    pipe.send((seconds, megabytes, results))
    return None if problem else result


def _reset_peak() -> float:
    """Reset the peak to the memory in use, and return it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> float:
    """The peak of resident memory in megabytes: since the last reset on Linux, since the start elsewhere."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
