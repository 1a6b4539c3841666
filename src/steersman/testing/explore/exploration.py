"""Explores a scenario: the reference, its plans within a budget, the checks of each run, and the smallest plans."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Final, cast

from steersman.testing.explore.findings import Finding
from steersman.testing.explore.planning import Pruned, candidates
from steersman.testing.explore.plans import Fault, Plan
from steersman.testing.explore.running import Job, Outcome, Runner, Scenario
from steersman.testing.explore.state import NormalState, difference, name_pattern
from steersman.testing.explore.trace import Trace

__all__ = ["DEFAULT_PERTURB", "Exploration", "Failure", "Request", "Trial", "explore", "later_runner", "replay"]

DEFAULT_PERTURB: Final = ("crash", "lost-answer", "conflict", "lag", "miss")
"""Not `past`: an operator lists without `resourceVersion`, and a correct API server answers with the latest state."""
SECOND_REFERENCE_DELAY_SECONDS: Final = 97.0
"""Delay of the second reference, so that names and fields that contain times differ."""
BUSY_FACTOR: Final = 4.0
"""An exploration takes at most this multiple of its budget while other programs use the processors."""
_MAX_FAILURES: Final = 20

Compare = Callable[[NormalState, NormalState], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The parameters of an exploration.

    Args:
        job: The scenario and the options of its runs.
        seeds: The number of seeds.
        budget: Seconds of CPU time of each processor.
        perturb: Names of `plans.PERTURBATIONS`.
        plans: Plans to run instead of those of the reference.
        allow: Oracles whose findings do not count.
        compare: Compares the end of the reference with another end; by default they must be equal.
        jobs: The number of runs at a time.
        stop_at: The number of failures after which the exploration ends.
        external: Whether the operator changes state outside of the cluster.
        to_end: Whether each run continues to the end of the scenario when it has the state of the reference.
        pairs: Whether pairs of faults are run when all single faults have passed.
    """

    job: Job
    seeds: int = 1
    budget: float = 60.0
    perturb: Sequence[str] = DEFAULT_PERTURB
    plans: Sequence[Plan] = ()
    allow: frozenset[str] = frozenset()
    compare: Compare | None = None
    jobs: int = 0
    stop_at: int = 1
    external: bool = False
    to_end: bool = False
    pairs: bool = True


@dataclass(slots=True)
class Failure:
    """A plan with findings, the findings, and the runs to compare."""

    plan: Plan
    seed: int
    findings: list[Finding]
    outcome: Outcome
    reference: Outcome


@dataclass(slots=True)
class Exploration:
    """The result of an exploration."""

    failures: list[Failure] = field(default_factory=list[Failure])
    reference: Outcome | None = None
    tried: Counter[str] = field(default_factory=Counter[str])
    """Runs by kind of fault."""
    covered: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """The kinds of faults that were tried at each write and event."""
    pruned: list[Pruned] = field(default_factory=list[Pruned])
    left: int = 0
    """The number of plans that the budget did not allow, without pairs."""
    seeds: int = 0
    """The number of seeds whose plans with one fault were all run."""
    runs: int = 0
    converged: int = 0
    """Runs that were ended early, because they had the state of the reference."""
    cpu: float = 0.0
    seconds: float = 0.0

    def cover(self, plan: Plan) -> None:
        """Count the faults of a plan that was run."""
        for fault in plan.faults:
            self.tried[fault.kind] += 1
            covered = self.covered.setdefault(fault.at, [])
            if fault.kind not in covered:
                covered.append(fault.kind)

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "seeds": self.seeds,
            "runs": self.runs,
            "endedEarly": self.converged,
            "cpuSeconds": round(self.cpu, 3),
            "seconds": round(self.seconds, 3),
            "cpuMillisecondsPerRun": round(1000 * self.cpu / self.runs, 1) if self.runs else None,
            "tried": dict(sorted(self.tried.items())),
            "pruned": [{"plan": str(one.plan), "reason": one.reason} for one in self.pruned],
            "left": self.left,
            "coverage": self.covered,
            "failures": [
                {
                    "plan": str(failure.plan),
                    "seed": failure.seed,
                    "findings": [{"oracle": f.oracle, "message": f.message} for f in failure.findings],
                }
                for failure in self.failures
            ],
        }  # fmt: skip


Progress = Callable[[Exploration, float], None]
"""Receives the state of an exploration after each run, and the share of the plans or of the budget that is done."""


def explore(
    request: Request,
    *,
    progress: Progress = lambda _exploration, _share: None,
    result: Exploration | None = None,
) -> Exploration:
    """Explore a scenario, and return the result.

    Args:
        request: What to explore.
        progress: Called after each run.
        result: The result to fill; after a `KeyboardInterrupt` it contains the findings so far.
    """
    result = Exploration() if result is None else result
    began = time.monotonic()
    try:
        for seed in range(1, request.seeds + 1):
            with Runner(request.job, seed) as runner:
                one = _Seed(request, runner, seed, result, progress, began)
                one.explore()
            if len(result.failures) >= request.stop_at or one.spent >= 1.0:
                break
    finally:
        result.seconds = time.monotonic() - began
    return result


def replay(request: Request, plan: Plan, seed: int = 1) -> tuple[Outcome, Outcome, list[Finding]]:
    """Return the reference, the run of a plan, and the findings of the latter."""
    result = Exploration()
    with Runner(request.job, seed) as runner:
        one = _Seed(request, runner, seed, result, lambda _e, _s: None, time.monotonic())
        one.reference = runner.run(Plan())
        outcome = runner.run(plan)
        return one.reference, outcome, one.judge(outcome)


def later_runner(job: Job, seed: int) -> Runner:
    """Return a cluster with another seed that starts later, so that names and fields with times differ."""
    return Runner(job, seed + 7_919, delay=SECOND_REFERENCE_DELAY_SECONDS)


class Trial:
    """Runs of one scenario from one started cluster, in comparison with its reference.

    Args:
        request: The parameters of the exploration.
        scenario: The scenario that the runner plays.
        runner: The started cluster.
        later: A cluster that started later, of `later_runner`, for what differs between references.
        seed: The seed of the cluster.
        result: Receives the numbers of runs.
    """

    def __init__(
        self, request: Request, scenario: Scenario, runner: Runner, later: Runner, seed: int, result: Exploration
    ) -> None:
        request = replace(request, job=replace(request.job, scenario=scenario))
        self._one = _Seed(request, runner, seed, result, lambda _e, _s: None, time.monotonic(), later)

    def refer(self) -> Outcome:
        """Run the reference, and return its outcome."""
        return self._one.refer()

    def judge(self, outcome: Outcome) -> list[Finding]:
        """Return the findings of a run, without the allowed ones."""
        return self._one.judge(outcome)

    def end_differences(self, expected: Outcome) -> list[str]:
        """Return the differences of the end of the reference from another end."""
        return self._one.end_differences(expected)

    def first_failure(self, plans: Sequence[Plan]) -> Failure | None:
        """Run plans until one fails, and return the failure with its smallest plan."""
        return self._one.first_failure(plans)


class _Seed:
    """The exploration with one seed."""

    def __init__(
        self, request: Request, runner: Runner, seed: int, result: Exploration, progress: Progress, began: float,
        later: Runner | None = None,
    ) -> None:  # fmt: skip
        self._later = later
        self._request = request
        self._runner = runner
        self._seed = seed
        self._result = result
        self._progress = progress
        self._began = began
        self._volatile: _Volatile | None = None
        self._ends: dict[Fault, dict[str, int]] = {}
        """For a fault alone: the writes and events of its run until it had the state of the reference."""
        self.reference = Outcome(Plan(), seed)

    def explore(self) -> None:
        request, result = self._request, self._result
        self.refer()
        result.reference = result.reference or self.reference
        if findings := self._counting(self.reference.findings):
            result.failures.append(Failure(Plan(), self._seed, findings, self.reference, self.reference))
            return
        if request.plans:
            plans, pairs = tuple(request.plans), ()
        else:
            found = candidates(self.reference.trace, request.perturb, external=request.external)
            plans, pairs = found.plans, found.pairs
            result.pruned += found.pruned
        if not self._run_all(plans, within=True):
            return
        result.seeds += 1
        if request.pairs and not request.plans:
            self._run_all(self._distinct(pairs), within=False)

    def _distinct(self, pairs: Iterable[Plan]) -> list[Plan]:
        """Return the pairs of faults of which the second one follows before the run has the state of the reference.

        Otherwise the rest of the run is that of a plan with the second fault alone, which has been run.
        """
        found: list[Plan] = []
        for pair in pairs:
            first, second = sorted(pair.faults, key=lambda fault: _time_of(fault, self.reference.trace))
            times = {_time_of(fault, self.reference.trace) for fault in pair.faults}
            end = self._ends.get(first)
            if end is not None and len(times) == 2 and int(second.at[1:]) > end[second.at[0]]:
                self._result.pruned.append(Pruned(pair, "equal to a plan with one fault"))
            else:
                found.append(pair)
        return found

    def refer(self) -> Outcome:
        """Run the reference, and return its outcome."""
        self.reference = self._counted(self._runner.run(Plan()))
        if not self._request.to_end:
            self._runner.converge(self.reference)
        return self.reference

    def end_differences(self, expected: Outcome) -> list[str]:
        """Return the differences of the end of the reference from another end."""
        if not difference(expected.end, self.reference.end):
            return []
        volatile = self._learned()
        return difference(volatile.masked(expected.end), volatile.masked(self.reference.end))

    def first_failure(self, plans: Sequence[Plan]) -> Failure | None:
        """Run plans until one fails, and return the failure with its smallest plan."""
        if not self._request.to_end:
            self._runner.converge(self.reference)
        with closing(self._runs(plans, jobs=1)) as runs:
            for outcome in runs:
                self._result.cover(outcome.plan)
                if findings := self.judge(outcome):
                    return self._shrunk(Failure(outcome.plan, self._seed, findings, outcome, self.reference))
        return None

    def _runs(self, plans: Iterable[Plan], *, jobs: int) -> Generator[Outcome]:
        """Yield the outcomes of plans, and count their CPU time."""
        runner = self._runner
        try:
            with closing(runner.run_all(plans, jobs=jobs)) as runs:
                for outcome in runs:
                    yield self._counted(outcome)
        finally:
            self._result.cpu += runner.reference_cpu
            runner.reference_cpu = 0.0

    def judge(self, outcome: Outcome) -> list[Finding]:
        """Return the findings of a run, without the allowed ones."""
        found = self._counting(outcome.findings)
        if "end-state" in self._request.allow or any(
            f.oracle in ("scenario", "not-settled", "hot-loop") for f in found
        ):
            return found
        if self._request.compare is not None:
            return found + _compared(self._request.compare, self.reference.end, outcome.end)
        return found + self._differences(outcome)

    def _differences(self, outcome: Outcome) -> list[Finding]:
        """Return the differences at the end of the first `settled()` that differs from the reference."""
        times = [mark.at for mark in outcome.trace.marks if mark.text.startswith("settled")]
        moments = [
            (f"after step {n}", *triple)
            for n, triple in enumerate(zip(times, self.reference.states, outcome.states, strict=False), 1)
        ]
        for moment, at, expected, state in [*moments, ("at the end", 0.0, self.reference.end, outcome.end)]:
            if expected is None or state is None or not difference(expected, state):
                continue
            volatile = self._learned()
            if lines := difference(volatile.masked(expected), volatile.masked(state)):
                return [Finding("end-state", f"{moment}: {line}", at) for line in lines[:10]]
        return []

    def _run_all(self, plans: Sequence[Plan], *, within: bool) -> bool:
        """Run plans until the budget is spent or enough failures are found; return whether all plans were run."""
        request, result = self._request, self._result
        done = 0
        jobs = request.jobs or os.cpu_count() or 1
        allowed = 1.0 if within else self._seed / request.seeds  # pairs leave the budget of later seeds

        def some() -> Iterator[Plan]:
            for plan in plans:
                if self.spent >= allowed:
                    return
                yield plan

        first = len(result.failures)
        try:
            with closing(self._runs(some(), jobs=jobs)) as runs:
                for outcome in runs:
                    done += 1
                    result.cover(outcome.plan)
                    if outcome.converged and len(outcome.plan.faults) == 1:
                        self._ends[outcome.plan.faults[0]] = {
                            "W": len(outcome.trace.writes), "E": len(outcome.trace.events),
                        }  # fmt: skip
                    if (findings := self.judge(outcome)) and len(result.failures) < first + _MAX_FAILURES:
                        result.failures.append(Failure(outcome.plan, self._seed, findings, outcome, self.reference))
                    self._progress(result, self._share(done, len(plans)))
                    if len(result.failures) >= request.stop_at or self.spent >= allowed:
                        break
            for index in range(first, len(result.failures)):
                result.failures[index] = self._shrunk(result.failures[index])
            result.failures[:] = {(one.seed, one.plan): one for one in result.failures}.values()
        finally:
            if within:
                result.left += len(plans) - done
        return done == len(plans) and len(result.failures) < request.stop_at

    @property
    def spent(self) -> float:
        """Return the spent share of the budget, which counts CPU time and, on a busy machine, elapsed time."""
        budget, jobs = self._request.budget, self._request.jobs or os.cpu_count() or 1
        elapsed = time.monotonic() - self._began
        return max(self._result.cpu / jobs, elapsed / BUSY_FACTOR) / budget

    def _share(self, done: int, plans: int) -> float:
        return min(1.0, max(done / plans if plans else 1.0, self.spent))

    def _shrunk(self, failure: Failure) -> Failure:
        """Return the failure with the smallest plan that has the same kind of finding."""
        kinds = {finding.oracle for finding in failure.findings}
        improved = True
        while improved:
            improved = False
            for plan in _smaller(failure.plan):
                again = self._counted(self._runner.run(plan))
                found = self.judge(again)
                if kinds & {finding.oracle for finding in found}:
                    failure, improved = Failure(plan, self._seed, found, again, self.reference), True
                    break
        return failure

    def _counted(self, outcome: Outcome) -> Outcome:
        self._result.runs += 1
        self._result.converged += outcome.converged > 0
        self._result.cpu += outcome.cpu
        return outcome

    def _counting(self, findings: Sequence[Finding]) -> list[Finding]:
        return [finding for finding in findings if finding.oracle not in self._request.allow]

    def _learned(self) -> _Volatile:
        """Return the differences between the reference and a later reference with another seed."""
        if self._volatile is None:
            if self._later is not None:
                self._later.play(self._request.job.scenario)
                second = self._counted(self._later.run(Plan()))
            else:
                with later_runner(self._request.job, self._seed) as runner:
                    second = self._counted(runner.run(Plan()))
            pairs = zip((*self.reference.states, self.reference.end), (*second.states, second.end), strict=False)
            self._volatile = _Volatile.of([(one, two) for one, two in pairs if one is not None and two is not None])
        return self._volatile


def _time_of(fault: Fault, trace: Trace) -> float:
    """Return the time at which a run without faults reaches the point of a fault; infinity if it does not."""
    records = trace.writes if fault.at[0] == "W" else trace.events
    number = int(fault.at[1:])
    return records[number - 1].at if number <= len(records) else inf


def _smaller(plan: Plan) -> Iterator[Plan]:
    if len(plan.faults) > 1:
        for index in range(len(plan.faults)):
            yield plan.without(index)
    for index, fault in enumerate(plan.faults):
        if fault.until.startswith("S"):
            shorter = replace(fault, until="")
            yield Plan((*plan.faults[:index], shorter, *plan.faults[index + 1 :]))
        if fault.kind == "past" and fault.at != "W2" and (number := int(fault.until[1:])) > 1:
            yield Plan((*plan.faults[:index], Fault("past", fault.at, f"W{number - 1}"), *plan.faults[index + 1 :]))


def _compared(compare: Compare, reference: NormalState, end: NormalState) -> list[Finding]:
    try:
        found = compare(reference, end)
    except AssertionError as problem:
        return [Finding("end-state", str(problem) or "the ends differ")]
    if found is False:
        return [Finding("end-state", "the ends differ")]
    return [Finding("end-state", found)] if isinstance(found, str) and found else []


@dataclass(frozen=True, slots=True)
class _Volatile:
    """Names and fields that differ between references, and are therefore not compared."""

    names: frozenset[str]
    paths: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, pairs: Sequence[tuple[NormalState, NormalState]]) -> _Volatile:
        names = {name_pattern(key) for one, two in pairs for key in {*one} ^ {*two}}
        paths: set[tuple[str, str]] = set()
        for pair in pairs:
            one, two = (_renamed(state, names) for state in pair)
            for key in {*one} & {*two}:
                for first, second in zip(one[key], two[key], strict=False):
                    left, right = (_leaves(json.loads(text)) for text in (first, second))
                    differ = {path for path in {*left, *right} if left.get(path) != right.get(path)}
                    paths |= {(name_pattern(key), path) for path in differ}
        return cls(frozenset(names), frozenset(paths))

    def masked(self, state: NormalState) -> NormalState:
        found: NormalState = {}
        for key, texts in _renamed(state, self.names).items():
            ignored = {path for pattern, path in self.paths if pattern == name_pattern(key)}
            if ignored:
                texts = [_without(text, ignored) for text in texts]
            found[key] = sorted(texts)
        return found


def _renamed(state: NormalState, names: frozenset[str] | set[str]) -> NormalState:
    found: NormalState = {}
    for key, texts in state.items():
        pattern = name_pattern(key)
        if pattern not in names:
            found.setdefault(key, []).extend(texts)
            continue
        name, masked = key.rpartition("/")[2], pattern.rpartition("/")[2]
        found.setdefault(pattern, []).extend(text.replace(name, masked) for text in texts)
    return {key: sorted(texts) for key, texts in found.items()}


def _leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Return the leaves of a JSON value by their paths."""
    if isinstance(value, dict):
        items = [(str(key), item) for key, item in cast(dict[str, Any], value).items()]
    elif isinstance(value, list):
        items = [(str(n), item) for n, item in enumerate(cast(list[Any], value))]
    else:
        return {path: value}
    if not items:
        return {path: "empty"}
    return {below: leaf for key, item in items for below, leaf in _leaves(item, f"{path}/{key}").items()}


def _without(text: str, paths: set[str]) -> str:
    leaves = _leaves(json.loads(text))
    return json.dumps({path: leaf for path, leaf in leaves.items() if path not in paths}, indent=1, sort_keys=True)
