"""Runs of a scenario: the cluster starts once, and each run is a fork of it, so that runs share nothing.

If the system cannot fork, or the process has threads, each run starts a separate cluster. This takes longer and has the
same results.
"""

from __future__ import annotations

import asyncio
import copy
import gc
import logging
import os
import pickle
import selectors
import signal
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from steersman.testing.explore.findings import Finding, leaks, undone
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

__all__ = ["Job", "Outcome", "Runner", "Scenario", "forks"]

Scenario = Callable[[ScenarioRun], Awaitable[None]]

MAX_STEPS: Final = 200_000
"""Iterations of the event loop at one virtual time after which a run counts as a hot loop."""
MAX_RUN_CPU_SECONDS: Final = 60
"""CPU seconds after which a run is ended."""


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
    struck: bool = True
    """Whether all faults of the plan happened."""


@dataclass(frozen=True, slots=True)
class Job:
    """The common parameters of all runs of an exploration."""

    scenario: Scenario
    options: RunOptions
    cluster: Mapping[str, Any]
    invariants: tuple[Invariant, ...] = ()
    ignore: frozenset[str] = frozenset()
    mask: frozenset[str] = frozenset()


def forks() -> bool:
    """Return whether runs can be forks of this process."""
    return hasattr(os, "fork") and threading.active_count() == 1


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

    def play(self, scenario: Scenario) -> None:
        """Play another scenario in later runs."""
        self._job = replace(self._job, scenario=scenario)

    def run(self, plan: Plan) -> Outcome:
        """Run one plan."""
        return next(iter(self.run_all([plan], jobs=1)))

    def run_all(self, plans: Iterable[Plan], *, jobs: int) -> Generator[Outcome]:
        """Yield the outcomes of plans, in the order in which they end.

        Args:
            plans: The plans, an iterable that is read when the next run can begin.
            jobs: The greatest number of runs at a time.
        """
        if not self._fork:
            for plan in plans:
                self._boot()
                try:
                    yield self._run(plan)
                finally:
                    self._shut_down()
            return
        yield from self._forked(iter(plans), jobs)

    def _forked(self, plans: Iterator[Plan], jobs: int) -> Iterator[Outcome]:
        running: dict[int, tuple[int, Plan, bytearray]] = {}
        with selectors.DefaultSelector() as selector:
            try:
                while True:
                    while len(running) < jobs and (plan := next(plans, None)) is not None:
                        pid, pipe = self._start(plan)
                        running[pipe] = pid, plan, bytearray()
                        selector.register(pipe, selectors.EVENT_READ)
                    if not running:
                        return
                    for key, _ in selector.select():
                        pipe = key.fd
                        pid, plan, data = running[pipe]
                        if chunk := os.read(pipe, 1 << 20):
                            data += chunk
                            continue
                        selector.unregister(pipe)
                        os.close(pipe)
                        del running[pipe]
                        _, status, usage = os.wait4(pid, 0)
                        yield self._outcome(plan, bytes(data), status, usage.ru_utime + usage.ru_stime)
            finally:
                for pipe, (pid, _, _) in running.items():
                    os.kill(pid, 9)
                    os.waitpid(pid, 0)
                    os.close(pipe)

    def _start(self, plan: Plan) -> tuple[int, int]:
        reading, writing = os.pipe()
        # Python ignores exceptions in callbacks around fork(), including KeyboardInterrupt.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            os.close(writing)
            return pid, reading
        code = 1
        try:
            os.close(reading)
            _become_a_run()
            data = pickle.dumps(self._survived(plan), protocol=5)
            while data:
                data = data[os.write(writing, data) :]
            code = 0
        finally:
            os._exit(code)

    def _survived(self, plan: Plan) -> Outcome:
        try:
            return self._run(plan)
        except BaseException as problem:  # noqa: BLE001 - the parent reports it
            text = "".join(traceback.format_exception(problem))
            return Outcome(plan, self._seed, [Finding("scenario", text)])

    def _outcome(self, plan: Plan, data: bytes, status: int, cpu: float) -> Outcome:
        if data:
            found: Outcome = pickle.loads(data)  # noqa: S301 - written by a fork of this process
            found.cpu = cpu
            self._prepare(found.trace)
            return found
        message = f"the run did not end within {MAX_RUN_CPU_SECONDS} s of CPU, or its process ended (status {status})"
        return Outcome(plan, self._seed, [Finding("hot-loop", message)], cpu=cpu)

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

    def _run(self, plan: Plan) -> Outcome:
        assert self._loop is not None
        began = time.process_time()
        outcome = self._loop.run_until_complete(self._live(plan))
        outcome.cpu = time.process_time() - began
        return outcome

    async def _live(self, plan: Plan) -> Outcome:
        assert self._simulation is not None
        job = self._job
        run = ScenarioRun(self._simulation, plan, job.options, job.invariants, job.ignore, job.mask)
        with in_process(SCENARIO):
            playing = asyncio.create_task(_play(job.scenario, run), name="scenario")
        try:
            await playing
        except RunEndedError:
            pass
        except (NoProgressError, DeadlockError) as problem:
            run.findings.append(Finding("hot-loop", str(problem)))
        except Exception as problem:  # noqa: BLE001 - a finding, with its plan
            run.findings.append(Finding("scenario", f"{type(problem).__name__}: {problem}"))
        storage = self._simulation.cluster.server.storage
        outcome = Outcome(plan, self._seed, list(run.findings), trace=run.trace, struck=run.struck)
        outcome.states = run.states
        outcome.end = normal_state(storage, run.began, job.ignore, job.mask)
        outcome.findings += [
            Finding("undo", f"{name} was changed and changed back", revision=revision)
            for name, revision in undone(run.trace)
        ]
        outcome.findings += [
            Finding("leak", f"{name} still exists after the deletion of its owner")
            for name in leaks(run.trace, storage, job.ignore)
        ]
        if not self._fork:
            # When crashed processes are closed, their requests continue, which would change the records.
            outcome = copy.deepcopy(outcome)
            await run.close()
        return outcome


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
