"""Observes a run: records commits and reconciles, and checks each commit and each settled state."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

from steersman.testing.explore.findings import Finding, failing, unready_children
from steersman.testing.explore.loop import current_process
from steersman.testing.explore.state import IGNORED, State
from steersman.testing.explore.trace import UNCOUNTED, Commit, ReconcileRecord, Trace
from steersman.testing.explore.transport import CURRENT_WRITE, resource_name
from steersman.testing.recording import Reconcile, Recorder
from steersman_cluster.storage import Event, Storage

__all__ = ["SCENARIO", "Invariant", "Observer", "TimedRecorder"]

SCENARIO: Final = -1
"""The process number of the scenario itself."""

Invariant = Callable[[State], object]


class Observer:
    """Records the commits of a run, and the findings at these commits.

    Args:
        storage: The storage of the API server.
        trace: The trace to which records are added.
        findings: The list to which findings are added.
        invariants: The functions to check at each commit.
        clock: Returns the virtual time in seconds.
    """

    def __init__(
        self,
        storage: Storage,
        trace: Trace,
        findings: list[Finding],
        invariants: tuple[Invariant, ...],
        clock: Callable[[], float],
    ) -> None:
        self.last_commit = clock()
        """The virtual time of the last commit that counts."""
        self._storage = storage
        self._trace = trace
        self._findings = findings
        self._invariants = invariants
        self._clock = clock
        self._violated: set[int] = set()
        self._lease: tuple[str, str] | None = None
        self._identity: Callable[[int], str | None] = lambda _: None

    def elect(self, namespace: str, name: str, identity: Callable[[int], str | None]) -> None:
        """Check at each later write whether the writing process holds the lease.

        Args:
            namespace: The namespace of the lease.
            name: The name of the lease.
            identity: Returns the identity of a running process, `None` for another process.
        """
        self._lease = namespace, name
        self._identity = identity

    def committed(self, event: Event) -> None:
        """Record a commit, and check it.

        Args:
            event: The change of the storage.
        """
        resource = resource_name(*event.resource)
        process, now = current_process(), self._clock()
        if event.resource[1] in UNCOUNTED or resource in IGNORED:
            return
        self.last_commit = now
        write = CURRENT_WRITE.get()
        item = event.item
        commit = Commit(
            item.revision, now, event.type, resource, item.namespace, item.name,
            "operator" if process > 0 else "scenario" if process == SCENARIO else "cluster", process,
            write.number if write is not None else 0,
            event.before.value if event.before is not None else b"", item.value if event.type != "DELETED" else b"",
        )  # fmt: skip
        self._trace.commits.append(commit)
        if write is not None:
            write.commits = (*write.commits, item.revision)
            if not write.name:
                write.name = item.name
        if process > 0:
            self._judge_leader(process, commit)
        for index, invariant in enumerate(self._invariants):
            if index not in self._violated and (problem := _violation(invariant, State(self._storage, event))):
                self._violated.add(index)
                self.find("invariant", problem, item.revision)

    def judge_status(self) -> None:
        """Check a settled state: the last reconcile of each object, and the conditions of custom objects."""
        for problem in failing(self._trace):
            self.find("failing", problem, self._storage.revision)
        for problem in unready_children(State(self._storage), self._storage):
            self.find("status", problem, self._storage.revision)

    def find(self, oracle: str, message: str, revision: int = 0) -> None:
        """Record a finding.

        Args:
            oracle: One of `findings.ORACLES`.
            message: The violation, with the object.
            revision: The revision of the commit with the violation.
        """
        self._findings.append(Finding(oracle, message, self._clock(), revision))

    def _judge_leader(self, process: int, commit: Commit) -> None:
        if self._lease is None or (identity := self._identity(process)) is None:
            return
        namespace, name = self._lease
        lease = State(self._storage).get("leases.coordination.k8s.io", name, namespace=namespace)
        holder = (lease or {}).get("spec", {}).get("holderIdentity")
        if lease is not None and holder != identity:
            self.find("leader", f"process {process} wrote {commit.object} and does not hold the lease", commit.revision)


class TimedRecorder(Recorder):
    """A recorder that adds reconciles to the trace, with their times.

    Args:
        trace: The trace to which records are added.
        process: The process of the operator.
        clock: Returns the virtual time in seconds.
    """

    def __init__(self, trace: Trace, process: int, clock: Callable[[], float]) -> None:
        super().__init__()
        self._trace = trace
        self._clock = clock
        self._process = process
        self._began: ContextVar[float] = ContextVar("began", default=0.0)

    def began(self) -> None:
        """Record the start time; see `Recorder.began`."""
        super().began()
        self._began.set(self._clock())

    def ended(self, into: list[Reconcile], what: Reconcile) -> None:
        """Record a reconcile; see `Recorder.ended`."""
        super().ended(into, what)
        error = f"{type(what.error).__name__}: {what.error}" if what.error is not None else ""
        key = "/".join(part for part in (what.namespace, what.name) if part)
        self._trace.reconciles.append(
            ReconcileRecord(
                self._process,
                self._began.get(),
                self._clock(),
                what.controller,
                key,
                error,
            )
        )


def _violation(invariant: Invariant, state: State) -> str:
    name = getattr(invariant, "__name__", "invariant")
    try:
        found = invariant(state)
    except AssertionError as problem:
        return f"{name}: {problem or 'does not hold'}"
    if found is False:
        return f"{name}: does not hold"
    return f"{name}: {found}" if isinstance(found, str) and found else ""
