"""One run of a scenario: a cluster, the processes of the operator, and the functions for the steps.

A crash stops the process at that instant; one second later another one starts. What the operator keeps outside of the
cluster survives a crash and takes part through `external`.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from steersman.client import Client, NotFound
from steersman.client.errors import ConnectionLostError
from steersman.operator.operator import Operator
from steersman.testing.explore.checkpoints import Checkpoint, ConvergedError, checkpoint
from steersman.testing.explore.director import Director
from steersman.testing.explore.findings import Finding
from steersman.testing.explore.forks import Branches
from steersman.testing.explore.loop import ProcessLoop, current_process, in_process, leave_process
from steersman.testing.explore.observation import SCENARIO, Invariant, Observer, TimedRecorder
from steersman.testing.explore.options import RunOptions
from steersman.testing.explore.plans import Plan
from steersman.testing.explore.reimport import reimporting
from steersman.testing.explore.state import NormalState, State, normal_state
from steersman.testing.explore.trace import Mark, Trace, WriteRecord
from steersman.testing.explore.transport import ExploredTransport
from steersman.testing.simulation import SimulatedOperator, Simulation
from steersman_cluster.api.inprocess import InProcessTransport

if TYPE_CHECKING:
    from steersman.operator.settings import Settings

__all__ = ["External", "RunEndedError", "ScenarioRun"]

RESTART_SECONDS: Final = 1.0
"""Virtual seconds between a crash and the start of the next process."""
PAUSE_SECONDS: Final = 60.0
"""Virtual seconds for which a process is paused: longer than a lease lasts."""
MAX_RESTARTS: Final = 5
"""How often the operator may end by itself in one run."""
POLL_SECONDS: Final = 1.0
LOOKS: Final = 3
"""Looks at an operator that has work before it counts as busy: a periodic reconcile is over at the next look."""
LOOK_SECONDS: Final = 0.1
"""Virtual seconds between two of these looks."""
MAX_LATE_SECONDS: Final = 60.0
"""Virtual seconds after which a step counts as settled although an operator whose events are late still writes."""
MAX_RETRY_SECONDS: Final = 60.0
"""A step is not settled while a failed reconcile is retried within so many virtual seconds."""

T = TypeVar("T", bound="External")
R = TypeVar("R")


class External(Protocol):
    """State outside of the cluster that the operator changes."""

    def reset(self) -> None:
        """Return to the state before the scenario."""
        ...


class RunEndedError(Exception):
    """The run cannot go on; its finding is recorded."""


class ScenarioRun:
    """One run of a scenario. The scenario of `explored` receives it."""

    def __init__(
        self,
        simulation: Simulation,
        plan: Plan,
        options: RunOptions,
        invariants: Sequence[Invariant] = (),
        ignore: frozenset[str] = frozenset(),
        mask: frozenset[str] = frozenset(),
        expected: Sequence[Checkpoint] = (),
        branches: Branches | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ProcessLoop)
        self.simulation = simulation
        self.trace = Trace(began=loop.time())
        self.findings: list[Finding] = []
        self.states: list[NormalState | None] = []
        """The state at the end of each `settled()`; `None` while something is late or absent."""
        self.checkpoints: list[Checkpoint] = []
        """The complete states at the ends of the steps of a reference."""
        self._expected = expected
        self._invariants = tuple(invariants)
        self._external: list[External] = []
        self._loop = loop
        self._options = options
        self._ignore = ignore
        self._mask = mask
        self._storage = simulation.cluster.server.storage
        self.began = self._storage.revision
        """The revision at the beginning of the run."""
        self._observer = Observer(self._storage, self.trace, self.findings, self._invariants, loop.time)
        self._storage.on_change(self._observer.committed)
        self._context = copy_context()
        self._context.run(leave_process)
        self._director = Director(plan, self.trace, self, loop.time, branches)
        self._factory: Callable[[], Operator] | None = None
        self._settings: Settings | None = None
        self._user = ""
        self._elects = False
        self._count = 0
        self._starting = 0
        self._absent = 0
        self._running: dict[int, SimulatedOperator] = {}
        self._ended: list[SimulatedOperator] = []
        self._paused: set[int] = set()
        self._inner: dict[int, list[InProcessTransport]] = {}
        self._settled_at = -1.0
        self._restarts = 0
        self._stop: Finding | None = None
        self._recent: dict[str, deque[float]] = {}

    # For scenarios.

    @property
    def client(self) -> Client:
        """The administrator's client."""
        return self.simulation.client

    @property
    def state(self) -> State:
        """The objects of the cluster as they are now."""
        return State(self._storage)

    @property
    def plan(self) -> Plan:
        """The plan of the run."""
        return self._director.plan

    @property
    def injected(self) -> bool:
        """Whether all faults of the plan have been injected."""
        return self._director.injected

    @property
    def shared(self) -> tuple[int, ...]:
        """The `lengths` of the trace that the run shares with the reference from which it was forked."""
        return self._director.shared

    @property
    def step(self) -> int:
        """The number of the step that ended last."""
        return self._director.phase - 1

    @property
    def process(self) -> int:
        """The number of the process of the operator that started last."""
        return self._count

    async def operator(
        self, what: Callable[[], Operator] | Operator | ModuleType | str, *, replicas: int = 1,
        settings: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Run an operator, and return when it runs.

        Args:
            what: A factory, which each process calls; or `module:attribute`, which each process imports anew. Processes
                of an operator or a module share its memory.
            replicas: The number of processes; more than one needs the setting `leader_elect`.
            settings: Settings of the operator.
        """
        from steersman.testing.running import operator_of

        match what:
            case str():
                factory = reimporting(what)
            case Operator() | ModuleType():
                factory = partial(operator_of, what)
            case _:
                factory = what
        self._factory = factory
        first = factory()
        _, self._settings, self._user = await self.simulation.prepare(first, settings=settings)
        self._elects = self._settings.leader_elect and not self._settings.dry_run
        if self._elects:
            name = self._settings.lease_name or first.name
            self._observer.elect(self._settings.lease_namespace or "default", name, self._identity)
        self._start(first)
        for _ in range(1, replicas):
            self._start(None)
        await self._until_running()

    async def _until_running(self) -> None:
        deadline = self._loop.time() + self._options.within
        while not self._running or self._pending():
            self._check_ended()
            if self._loop.time() > deadline:
                self._fail("not-settled", f"the operator does not start: {'; '.join(self._pending())}")
            await asyncio.sleep(0.1)

    def external(self, what: T) -> T:
        """Reset state outside of the cluster at the beginning of the run, and return it."""
        what.reset()
        self._external.append(what)
        return what

    async def effect(self, target: str, perform: Callable[[], R]) -> R:
        """Perform a change outside of the cluster as a numbered write, before and after which the operator can crash.

        A fake of another system calls it for each change that the operator requests.

        Args:
            target: The change as a text, such as `promote db-0`.
            perform: Performs the change; its result is returned.

        Raises:
            ConnectionLostError: The plan loses the answer, after the change is performed.
        """
        process, now = current_process(), self._loop.time
        if process <= 0:
            return perform()
        write = WriteRecord(0, process, now(), "effect", target, "", "", "")
        fault = self._director.begin(write)
        await asyncio.sleep(self._options.latency / 2)
        result = perform()
        write.revision = self._storage.revision
        self._director.end(write, fault)
        await asyncio.sleep(self._options.latency / 2)
        write.ended = now()
        if fault is not None and fault.kind == "lose-answer":
            raise ConnectionLostError(f"{target}: the connection broke before the response arrived")
        return result

    async def apply(self, *what: Path | str | Mapping[str, Any], namespace: str | None = None) -> None:
        """Apply files, text and objects. Raises `AssertionError` for an object that is refused.

        If the operator is down, its webhooks may refuse the objects: they are applied again when it runs.
        """
        try:
            await self.simulation.apply(*what, namespace=namespace)
        except AssertionError:
            if not self._director.absent and not self._starting:
                raise
            self._director.end_faults(last=True)
            await self._until_running()
            await self.simulation.apply(*what, namespace=namespace)

    async def delete(self, kind: str, name: str, *, namespace: str | None = None, propagation: str = "") -> None:
        """Delete an object and do not wait for its end. Raises `AssertionError` if there is no such kind.

        Args:
            kind: A kind, plural, singular or short name, with or without the group: `app`, `Pod`, `apps.example.com`.
            name: The name of the object.
            namespace: The namespace; the simulation's own by default.
            propagation: `Foreground`, `Background` or `Orphan`; the default of the API if empty.
        """
        found = self._kind(kind)
        place = f"/namespaces/{namespace or self.simulation.namespace}" if found.namespaced else ""
        base = f"/apis/{found.group}/{found.version}" if found.group else f"/api/{found.version}"
        query = {"propagationPolicy": propagation} if propagation else {}
        try:
            await self.client.raw.request("DELETE", f"{base}{place}/{found.plural}/{name}", query=query)
        except NotFound:
            if not self._director.unfinished:
                raise  # an operator that does not know yet of its object has no child to delete

    def note(self, text: str) -> None:
        """Add a text to the trace of the run, at the present time."""
        self._mark(SCENARIO, text)

    async def passes(self, seconds: float) -> None:
        """Let virtual time pass."""
        await asyncio.sleep(seconds)

    async def settled(self, *, stabilization: float | None = None) -> None:
        """Wait until nothing changes any more. Late events arrive, and an absent operator returns, before the end."""
        await self._settle(stabilization or self._options.stabilization, last=False)
        if not self._director.unfinished:
            self._observer.judge_status()
        self._settled_at = self._loop.time()
        late = self._director.unfinished
        self.states.append(None if late else normal_state(self._storage, self.began, self._ignore, self._mask))
        self._mark(SCENARIO, f"settled S{self._director.phase}")
        number = self._director.phase
        self._director.settled(list(self._running))
        if self._director.plan.faults:
            self._end_if_converged(number)
        else:
            self.checkpoints.append(self._checkpoint())

    def _end_if_converged(self, number: int) -> None:
        """End the run if it has the state that the reference had at the end of the same step, and no finding."""
        director = self._director
        if len(self._expected) < number or not director.injected or director.unfinished or self.findings:
            return
        if self._checkpoint().equals(self._expected[number - 1]):
            self._mark(SCENARIO, "the state of the reference; the rest is omitted")
            raise ConvergedError

    def _checkpoint(self) -> Checkpoint:
        others = (*self._external, *self._invariants)
        return checkpoint(self._storage, self.began, self._running.values(), others)

    async def finish(self) -> None:
        """Wait for the end of the run after the scenario."""
        if self._director.unfinished or self._observer.last_commit > self._settled_at:
            await self._settle(self._options.stabilization, last=True)
            self._observer.judge_status()

    async def close(self) -> None:
        """Stop all processes, those that crashed as well."""
        for number in range(1, self._count + 1):
            self._loop.continue_process(number)
        tasks = [one.task for one in (*self._running.values(), *self._ended)]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # For the director.

    def crash(self, process: int, *, returns: bool, as_of: int | None = None) -> None:
        """End a process at once; see `Processes.crash`."""
        running = self._running.pop(process, None)
        if running is None:
            return
        self._loop.stop_process(process)
        self._ended.append(running)
        running.disconnect_webhooks()
        self._mark(process, "crash" if as_of is None else f"crash; the next process sees revision {as_of}")
        if returns:
            self._start_later(RESTART_SECONDS, as_of)
        else:
            self._absent += 1

    def restart(self) -> None:
        """Start the processes that are absent."""
        while self._absent:
            self._absent -= 1
            self._start_later(0.0, None)

    def pause(self, process: int) -> None:
        """Stop a process for longer than its lease lasts."""
        if process in self._running:
            self._loop.stop_process(process)
            self._paused.add(process)
            self._mark(process, f"paused for {PAUSE_SECONDS:g} s")
            self._loop.call_at(self._loop.time() + PAUSE_SECONDS, self._resume, process, context=self._context)

    def catch_up(self, process: int) -> None:
        """Serve the latest state to a process that saw the past."""
        for inner in self._inner.get(process, ()):
            inner.as_of = None

    def _resume(self, process: int) -> None:
        self._paused.discard(process)
        self._mark(process, "continues")
        self._loop.continue_process(process)

    # Processes.

    def _start_later(self, seconds: float, as_of: int | None) -> None:
        self._starting += 1

        def start() -> None:
            self._starting -= 1
            self._start(None, as_of)

        self._loop.call_at(self._loop.time() + seconds, start, context=self._context)

    def _start(self, operator: Operator | None, as_of: int | None = None) -> None:
        from steersman.testing.running import operator_of

        assert self._factory is not None
        assert self._settings is not None
        self._count += 1
        number = self._count
        inner: list[InProcessTransport] = []
        self._inner[number] = inner

        def wrap(transport: InProcessTransport) -> ExploredTransport:
            transport.as_of = as_of
            inner.append(transport)
            return ExploredTransport(transport, self._director, number, self._options.latency)

        with in_process(number):
            self._running[number] = SimulatedOperator(
                self.simulation,
                operator or operator_of(self._factory()),
                self._settings,
                self._user,
                wrap=wrap,
                recorder=TimedRecorder(self.trace, number, self._loop.time),
            )
        self._mark(number, "starts")

    def _identity(self, process: int) -> str | None:
        running = self._running.get(process)
        return running.identity if running is not None else None

    def _pending(self) -> list[str]:
        """Return what keeps the operator from being idle. The work of a standby waits until it leads."""
        running = [one for number, one in self._running.items() if number not in self._paused]
        found = [line for one in running if not one.standby for line in one.pending]
        if self._elects and running and not any(one.leading for one in running):
            found.append("no process holds the lease")
        return found

    def _check_ended(self) -> None:
        for number, running in list(self._running.items()):
            if not running.task.done():
                continue
            del self._running[number]
            error = None if running.task.cancelled() else running.task.exception()
            self._mark(number, f"ends by itself: {type(error).__name__}" if error else "ends by itself")
            self._restarts += 1
            if self._restarts > MAX_RESTARTS:
                self._fail("operator-ended", f"the operator ended {self._restarts} times by itself, with {error!r}")
            self._start_later(RESTART_SECONDS * 2**self._restarts, None)
        if self._stop is not None:
            raise RunEndedError(str(self._stop))

    async def _settle(self, stabilization: float, *, last: bool) -> None:
        deadline = self._loop.time() + self._options.within
        while True:
            await self._until_stable(stabilization, deadline)
            if not self._director.end_faults(last=last):
                return

    def _busy(self) -> bool:
        running = [one for number, one in self._running.items() if number not in self._paused]
        return bool(
            self._starting
            or self._paused
            or self._pending()
            or any(one.retries_in <= MAX_RETRY_SECONDS for one in running)
        )

    async def _stays_busy(self) -> bool:
        """Return whether the operator has work for longer than a short reconcile, which it may repeat periodically."""
        for _ in range(LOOKS - 1):
            if not self._busy():
                return False
            await asyncio.sleep(LOOK_SECONDS)
        return self._busy()

    async def _until_stable(self, stabilization: float, deadline: float) -> None:
        since = began = self._loop.time()
        while True:
            self._check_ended()
            now = self._loop.time()
            if now > deadline:
                recent = Counter(c.object for c in self.trace.commits[-50:])
                self._fail("not-settled", (
                    f"after {self._options.within:g} s of virtual time the cluster still changes: "
                    f"{', '.join(f'{name} {n} times' for name, n in recent.most_common(3))}; "
                    f"the operator: {'; '.join(self._pending()) or 'nothing'}"
                ))  # fmt: skip
            if self._director.late and (
                now > self._observer.last_commit + stabilization or now > began + MAX_LATE_SECONDS
            ):
                return  # the operator may wait for its own write, whose event is late
            if await self._stays_busy():
                since = now = self._loop.time()
            left = max(since, self._observer.last_commit) + stabilization - now
            if left <= 0:
                return
            await asyncio.sleep(min(left, POLL_SECONDS) if since == now else left)

    def wrote(self, target: str) -> None:
        """Count a write of the operator; too many to one object within a minute are a hot loop."""
        now = self._loop.time()
        times = self._recent.setdefault(target, deque())
        times.append(now)
        while times[0] < now - 60.0:
            times.popleft()
        if len(times) <= self._options.hot_writes or self._stop is not None:
            return
        if self._director.unfinished:
            # An operator that sees an owner and not its deletion recreates what the garbage collector deletes: it must
            # end that when it sees the deletion.
            self._recent.clear()
            self._mark(SCENARIO, "late events arrive, because the operator is busy")
            self._loop.call_soon(partial(self._director.end_faults, last=True), context=self._context)
        else:
            self._stop = Finding(
                "hot-loop", f"{len(times)} times `{target}` within a minute", now, self._storage.revision
            )
            self.findings.append(self._stop)
            for process in list(self._running):
                self._loop.stop_process(process)

    def _fail(self, oracle: str, message: str) -> None:
        self._observer.find(oracle, message, self._storage.revision)
        raise RunEndedError(message)

    def _mark(self, process: int, text: str) -> None:
        self.trace.marks.append(Mark(self._loop.time(), process, text))

    def _kind(self, kind: str) -> Any:
        plural, _, group = kind.lower().partition(".")
        for found in self.simulation.cluster.server.registry.all():
            if group and group != found.group:
                continue
            if plural in (found.plural, found.singular, found.kind.lower(), *found.short_names):
                return found
        raise AssertionError(f"the cluster serves no kind {kind!r}")
