"""Runs of a scenario: the cluster starts once, and each run is a fork of it, so that runs share nothing.

The plans of an exploration begin as forks of a run of the reference, at the point of their first fault. If the system
cannot fork, or the process has threads, each run starts a separate cluster. This takes longer and has the same results.
"""

from __future__ import annotations

import asyncio
import copy
import gc
import logging
import os
import pickle
import signal
import time
import traceback
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, Self

from steersman.testing.explore.checkpoints import Checkpoint, ConvergedError
from steersman.testing.explore.findings import Finding, leaks, undone
from steersman.testing.explore.forks import MAX_RUN_CPU_SECONDS, Branches, Ended, Forks, forks, send
from steersman.testing.explore.loop import ProcessLoop, in_process
from steersman.testing.explore.observation import SCENARIO, Invariant
from steersman.testing.explore.options import RunOptions
from steersman.testing.explore.plans import Plan
from steersman.testing.explore.preparation import prepare_kinds
from steersman.testing.explore.scenario_run import RunEndedError, ScenarioRun
from steersman.testing.explore.state import NormalState, normal_state
from steersman.testing.explore.trace import Trace
from steersman.testing.loop import DeadlockError, NoProgressError
from steersman.testing.simulation import Simulation

__all__ = ["Job", "Outcome", "Runner", "Scenario"]

Scenario = Callable[[ScenarioRun], Awaitable[None]]

MAX_STEPS: Final = 200_000
"""Iterations of the event loop at one virtual time after which a run counts as a hot loop."""
BATCH_PLANS: Final = 160
"""Plans that begin as forks of one run of the reference."""


@dataclass(slots=True)
class Outcome:
    """The result of one run."""

    plan: Plan
    seed: int
    findings: list[Finding] = field(default_factory=list[Finding])
    end: NormalState = field(default_factory=dict[str, list[str]])
    states: list[NormalState | None] = field(default_factory=list[NormalState | None])
    """The state at the end of each `settled()`; `None` while events were late or the operator was absent."""
    trace: Trace = field(default_factory=Trace)
    cpu: float = 0.0
    """CPU seconds of the run, without the start of the cluster."""
    injected: bool = True
    """Whether all faults of the plan were injected."""
    checkpoints: list[Checkpoint] = field(default_factory=list[Checkpoint])
    """The complete states at the ends of the steps, of a reference."""
    converged: int = 0
    """The step after which the run had the state of the reference and was ended; 0 if it ran to its end."""
    shared: tuple[int, ...] = ()
    """The numbers of records that were not sent because they are those of the reference; see `Trace.lengths`."""


@dataclass(frozen=True, slots=True)
class Job:
    """The common parameters of all runs of an exploration."""

    scenario: Scenario
    options: RunOptions
    cluster: Mapping[str, Any]
    invariants: tuple[Invariant, ...] = ()
    ignore: frozenset[str] = frozenset()
    mask: frozenset[str] = frozenset()


class Runner:
    """A started cluster from which runs begin. Use it as a context manager.

    Args:
        job: The common parameters of all runs.
        seed: The seed of the cluster.
        delay: Virtual seconds before the scenario begins.
    """

    def __init__(self, job: Job, seed: int, *, delay: float = 0.0) -> None:
        self._job = job
        self._seed = seed
        self._delay = delay
        self._loop: ProcessLoop | None = None
        self._stack: AsyncExitStack | None = None
        self._simulation: Simulation | None = None
        self._fork = forks()
        self._logs = ExitStack()
        self._prepared: set[str] = set()
        self._reference: Outcome | None = None
        self.reference_cpu = 0.0
        """CPU seconds of the runs of the reference from which plans were forked."""

    def __enter__(self) -> Self:
        self._logs.enter_context(_without_logs())
        if self._fork:
            self._boot()
            gc.collect()
            gc.freeze()
        return self

    def __exit__(self, *_: object) -> None:
        if self._fork:
            gc.unfreeze()
        with self._logs:
            self._shut_down()

    @property
    def forks(self) -> bool:
        """Whether runs are forks of this process."""
        return self._fork

    def play(self, scenario: Scenario) -> None:
        """Play another scenario in later runs."""
        self._job = replace(self._job, scenario=scenario)
        self._reference = None

    def converge(self, reference: Outcome) -> None:
        """End later runs when they have reached the state of a reference, and let plans begin as forks of it."""
        self._reference = reference

    def run(self, plan: Plan) -> Outcome:
        """Run one plan from the start of the scenario."""
        if self._fork:
            (outcome,) = self._forked([plan], 1)
            return outcome
        return self._alone(plan)

    def run_all(self, plans: Iterable[Plan], *, jobs: int) -> Generator[Outcome]:
        """Yield the outcomes of plans, in the order in which they end.

        Args:
            plans: The plans, an iterable that is read when the next runs can begin.
            jobs: The greatest number of runs at a time.
        """
        if not self._fork:
            yield from map(self._alone, plans)
        elif self._reference is None:
            yield from self._forked(plans, jobs)
        else:
            rest = iter(plans)
            while batch := list(islice(rest, BATCH_PLANS)):
                done: set[Plan] = set()
                with closing(self._branched(batch, jobs)) as runs:
                    for outcome in runs:
                        done.add(outcome.plan)
                        yield outcome
                # Plans whose points the reference does not reach, or where the operator has started threads.
                yield from self._forked([plan for plan in batch if plan not in done], jobs)

    def _forked(self, plans: Iterable[Plan], jobs: int) -> Iterator[Outcome]:
        """Run each plan in a fork of this process, from the start of the scenario."""
        rest, running = iter(plans), Forks(jobs)
        try:
            while True:
                while not running.full and (plan := next(rest, None)) is not None:
                    if (out := running.start(plan)) is not None:
                        self._in_fork(plan, None, out)
                if running.empty:
                    return
                yield self._outcome(running.wait())
        finally:
            running.close()

    def _branched(self, plans: Sequence[Plan], jobs: int) -> Generator[Outcome]:
        """Run plans as forks of a fork that runs the reference."""
        received: list[bytes] = []
        running, cpu = Forks(1), 0.0
        try:
            if (out := running.start(Plan(), received.append)) is not None:
                self._in_fork(Plan(), Branches(plans, jobs, out), out)
            while not running.empty:
                end = running.receive()
                while received:
                    ended: Ended = pickle.loads(received.pop(0))  # noqa: S301 - written by a fork of this process
                    cpu += ended.cpu
                    yield self._outcome(ended)
                if end is not None:
                    self.reference_cpu += end.cpu - cpu
        finally:
            if not running.empty:
                self.reference_cpu += running.close() - cpu

    def _in_fork(self, plan: Plan, branches: Branches | None, out: int) -> None:
        """Run a plan, send the outcome, and end this process."""
        code = 1
        try:
            if branches is not None:
                os.setpgid(0, 0)
            _become_a_run()
            outcome = self._survived(plan, branches)
            if branches is not None and not branches.plan.faults:
                branches.finish()
            else:
                send(out if branches is None else branches.out, pickle.dumps(outcome, protocol=5))
            code = 0
        finally:
            os._exit(code)

    def _survived(self, plan: Plan, branches: Branches | None) -> Outcome:
        try:
            return self._run(plan, branches)
        except BaseException as problem:  # noqa: BLE001 - the parent reports it
            text = "".join(traceback.format_exception(problem))
            return Outcome(plan if branches is None else branches.plan, self._seed, [Finding("scenario", text)])

    def _outcome(self, ended: Ended) -> Outcome:
        if ended.data:
            found: Outcome = pickle.loads(ended.data)  # noqa: S301 - written by a fork of this process
            found.cpu = ended.cpu
            self._prepare(found.trace)
            return self._completed(found)
        message = (
            f"the run did not end within {MAX_RUN_CPU_SECONDS} s of CPU, or its process ended (status {ended.status})"
        )
        return Outcome(ended.plan, self._seed, [Finding("hot-loop", message)], cpu=ended.cpu)

    def _alone(self, plan: Plan) -> Outcome:
        """Run a plan in this process, on a cluster of its own."""
        self._boot()
        try:
            return self._completed(self._run(plan))
        finally:
            self._shut_down()

    def _completed(self, outcome: Outcome) -> Outcome:
        """Add what a run shares with the reference: its beginning, and the end of a run that had converged."""
        reference = self._reference
        if reference is not None:
            outcome.trace.with_first(outcome.shared, reference.trace)
            outcome.states[:0] = reference.states[: _steps(outcome.trace, outcome.shared)]
            if outcome.converged:
                outcome.states += reference.states[outcome.converged - 1 :]
                outcome.end = reference.end
        return outcome

    def _prepare(self, trace: Trace) -> None:
        """Let further forks begin with what this run had to prepare for the kinds that it used."""
        assert self._simulation is not None
        used = {commit.resource: commit.after for commit in trace.commits if commit.after}
        if new := {resource: used[resource] for resource in used.keys() - self._prepared}:
            self._prepared |= new.keys()
            prepare_kinds(new, self._simulation.cluster.server.registry)

    # In one process.

    def _boot(self) -> None:
        self._loop = loop = ProcessLoop(max_steps=MAX_STEPS)
        self._stack = AsyncExitStack()
        self._simulation = loop.run_until_complete(self._open(self._stack))

    async def _open(self, stack: AsyncExitStack) -> Simulation:
        simulation = await stack.enter_async_context(Simulation.start(self._seed, audit=None, **self._job.cluster))
        await asyncio.sleep(5.0 + self._delay)
        return simulation

    def _shut_down(self) -> None:
        loop, stack = self._loop, self._stack
        self._loop = self._stack = self._simulation = None
        if loop is None or stack is None:
            return
        try:
            loop.run_until_complete(stack.aclose())
            loop.run_until_complete(_cancel_all())
        finally:
            loop.close()

    def _run(self, plan: Plan, branches: Branches | None = None) -> Outcome:
        assert self._loop is not None
        began = time.process_time()
        outcome = self._loop.run_until_complete(self._live(plan, branches))
        outcome.cpu = time.process_time() - began
        return outcome

    async def _live(self, plan: Plan, branches: Branches | None) -> Outcome:
        assert self._simulation is not None
        job = self._job
        expected = self._reference.checkpoints if self._reference is not None else ()
        run = ScenarioRun(self._simulation, plan, job.options, job.invariants, job.ignore, job.mask, expected, branches)
        with in_process(SCENARIO):
            playing = asyncio.create_task(_play(job.scenario, run), name="scenario")
        converged = 0
        try:
            await playing
        except ConvergedError:
            converged = run.step
        except RunEndedError:
            pass
        except (NoProgressError, DeadlockError) as problem:
            run.findings.append(Finding("hot-loop", str(problem)))
        except Exception as problem:  # noqa: BLE001 - a finding, with its plan
            run.findings.append(Finding("scenario", f"{type(problem).__name__}: {problem}"))
        storage = self._simulation.cluster.server.storage
        outcome = Outcome(run.plan, self._seed, list(run.findings), trace=run.trace, injected=run.injected)
        outcome.checkpoints, outcome.converged, outcome.shared = run.checkpoints, converged, run.shared
        outcome.states = run.states[_steps(run.trace, run.shared) : converged - 1 if converged else None]
        if not converged:
            outcome.end = normal_state(storage, run.began, job.ignore, job.mask)
        if not any(fault.kind in ("hold", "miss") for fault in run.plan.faults):  # late events repeat the history
            outcome.findings += [
                Finding("undo", f"{name} was changed and changed back", revision=revision)
                for name, revision in undone(run.trace)
            ]
        if not converged:
            outcome.findings += [
                Finding("leak", f"{name} still exists after the deletion of its owner")
                for name in leaks(run.trace, storage, job.ignore)
            ]
        outcome.trace.without_first(outcome.shared)
        if not self._fork:
            # When crashed processes are closed, their requests continue, which would change the records.
            outcome = copy.deepcopy(outcome)
            await run.close()
        return outcome


def _steps(trace: Trace, lengths: Sequence[int]) -> int:
    """Return the number of the steps that are settled within the first records of a trace."""
    marks = lengths[-1] if lengths else 0
    return sum(mark.text.startswith("settled S") for mark in trace.marks[:marks])


async def _play(scenario: Scenario, run: ScenarioRun) -> None:
    await scenario(run)
    await run.finish()


async def _cancel_all() -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


@contextmanager
def _without_logs() -> Generator[None]:
    """Disable logging in the block, because the runs would log the same lines hundreds of times."""
    import structlog

    configured, disabled = structlog.get_config(), logging.root.manager.disable
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        structlog.configure(**configured)
        logging.disable(disabled)


def _become_a_run() -> None:
    """Prepare a fork for a run: no output, no Ctrl-C, a limit on CPU time, and few garbage collections."""
    import resource

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its forks
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    gc.set_threshold(100_000, 50, 100)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_RUN_CPU_SECONDS, MAX_RUN_CPU_SECONDS))
