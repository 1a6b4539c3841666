"""Carries out a plan: counts the writes and events of a run, and injects the faults of the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from steersman.testing.explore.forks import Branches
from steersman.testing.explore.plans import Fault, Plan
from steersman.testing.explore.trace import UNCOUNTED, EventRecord, Trace, WriteRecord

__all__ = ["Director", "Processes", "View"]


class Processes(Protocol):
    """What a director can do to the processes of the operator."""

    def crash(self, process: int, *, returns: bool, as_of: int | None = None) -> None:
        """End a process at once; another one starts soon, or at a call of `restart`."""
        ...

    def restart(self) -> None:
        """Start the processes that are absent."""
        ...

    def pause(self, process: int) -> None:
        """Stop a process for longer than its lease lasts."""
        ...

    def catch_up(self, process: int) -> None:
        """Serve the latest state to a process that saw the past."""
        ...

    def wrote(self, target: str) -> None:
        """Count a write of the operator."""
        ...


@dataclass(eq=False, slots=True)
class View:
    """One watch of the operator."""

    resource: str
    process: int
    arrived: Callable[[bytes | None], None]
    """Passes a frame on; `None` ends the watch with 410."""
    held: list[bytes]


class Director:
    """Carries out one plan.

    Args:
        plan: The faults.
        trace: Receives the records.
        processes: The processes of the operator.
        clock: Returns the virtual time in seconds.
        branches: Begins other plans at the points of this run.
    """

    def __init__(
        self, plan: Plan, trace: Trace, processes: Processes, clock: Callable[[], float],
        branches: Branches | None = None,
    ) -> None:  # fmt: skip
        self.plan = plan
        self.trace = trace
        self.phase = 1
        """The number of the `settled()` that comes next."""
        self.shared: tuple[int, ...] = ()
        """The `lengths` of the trace at the point at which this run was forked from the reference."""
        self._clock = clock
        self._processes = processes
        self._branches = branches
        self._left = list(plan.faults)
        self._late: dict[str, Fault] = {}
        """Late resources, with the fault of each."""
        self._past: Fault | None = None
        self._past_process = 0
        self._absent: Fault | None = None
        self._views: list[View] = []

    @property
    def injected(self) -> bool:
        """Whether all faults of the plan have been injected."""
        return not self._left

    def _reached(self, point: str) -> list[Fault]:
        """Return the faults to inject at a point. In a fork that begins here, these are those of its plan."""
        if self._branches is not None and (plan := self._branches.reach(point)) is not None:
            self.plan, self._left, self._branches = plan, list(plan.faults), None
            self.shared = self.trace.lengths
        found = [fault for fault in self._left if fault.at == point]
        for fault in found:
            self._left.remove(fault)
        return found

    @property
    def late(self) -> bool:
        """Whether events are late or missed."""
        return bool(self._late) or self._past is not None

    @property
    def absent(self) -> bool:
        """Whether the operator is down until a later step."""
        return self._absent is not None

    @property
    def unfinished(self) -> bool:
        """Whether something is late or absent."""
        return bool(self._late) or self._past is not None or self._absent is not None

    # Writes.

    def begin(self, write: WriteRecord) -> Fault | None:
        """Count a write that is about to be sent, and return its fault."""
        self.trace.writes.append(write)
        write.number = len(self.trace.writes)
        self._processes.wrote(write.target)
        found = self._reached(f"W{write.number}")
        fault = found[0] if found else None
        if fault is not None:
            write.fault = fault.kind
            if fault.kind == "crash-before":
                self._processes.crash(write.process, returns=True)
        return fault

    def end(self, write: WriteRecord, fault: Fault | None) -> None:
        """Inject the faults after a write is stored and before the response arrives."""
        if fault is None:
            return
        match fault.kind:
            case "crash-after":
                self._processes.crash(write.process, returns=True)
            case "past":
                seen = self.trace.writes[int(fault.until[1:]) - 1].revision
                self._past = fault
                self._processes.crash(write.process, returns=True, as_of=seen)
            case "pause":
                self._processes.pause(write.process)
            case _:
                pass

    # Events.

    def open(self, view: View, *, as_of: int | None) -> None:
        """Take a new watch of the operator."""
        self._views.append(view)
        if as_of is not None:
            self._past_process = view.process

    def close(self, view: View) -> None:
        """Forget a watch that has ended."""
        if view in self._views:
            self._views.remove(view)

    def event(self, view: View, type: str, namespace: str, name: str, revision: int, frame: bytes) -> None:
        """Count an event that arrives at a watch, and deliver, hold or drop it."""
        counted = type in ("ADDED", "MODIFIED", "DELETED") and view.resource.partition(".")[0] not in UNCOUNTED
        if counted:
            number = len(self.trace.events) + 1
            for fault in self._reached(f"E{number}"):
                self._late.setdefault(view.resource, fault)
        late = self._late.get(view.resource)
        behind = self._past is not None and view.process == self._past_process
        fate = "" if late is None and not behind else "missed" if late is not None and late.kind == "miss" else "held"
        if counted:
            record = EventRecord(
                len(self.trace.events) + 1, view.process, self._clock(), type, view.resource, namespace, name,
                revision, fate,
            )  # fmt: skip
            self.trace.events.append(record)
        if not fate:
            view.arrived(frame)
        elif fate == "held":
            view.held.append(frame)

    # Settled states.

    def end_faults(self, *, last: bool = False) -> bool:
        """End the lasting faults that end when the cluster is settled. Returns whether any has ended.

        Args:
            last: The scenario is over: everything ends.
        """
        ended = False
        for resource, fault in list(self._late.items()):
            if last or _due(fault.until, self.phase):
                del self._late[resource]
                ended = True
                for view in [v for v in self._views if v.resource == resource]:
                    self._release(view, expire=fault.kind == "miss")
        if self._past is not None:
            self._past = None
            ended = True
            self._processes.catch_up(self._past_process)
            for view in [v for v in self._views if v.process == self._past_process]:
                self._release(view, expire=False)
        if self._absent is not None and (last or _due(self._absent.until or f"S{self.phase}", self.phase)):
            self._absent = None
            ended = True
            self._processes.restart()
        return ended

    def settled(self, processes: Iterable[int]) -> None:
        """Count a `settled()` that has ended; an operator that is absent in the next phase ends here.

        Args:
            processes: The processes of the operator that run.
        """
        for fault in self._reached(f"S{self.phase}"):
            self._absent = fault
            for process in processes:
                self._processes.crash(process, returns=False)
        self.phase += 1

    def _release(self, view: View, *, expire: bool) -> None:
        frames = list(view.held)
        view.held.clear()
        for frame in frames:
            view.arrived(frame)
        if expire:
            view.arrived(None)


def _due(until: str, phase: int) -> bool:
    return not until or phase >= int(until[1:])
