"""The trace of one run: the operator's writes, the events that it received, all commits, reconciles and faults.

The records are structs of msgspec, because each run sends hundreds of them to another process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

__all__ = ["UNCOUNTED", "Commit", "EventRecord", "Mark", "ReconcileRecord", "Trace", "WriteRecord"]


UNCOUNTED: Final = frozenset({"leases", "events", "selfsubjectaccessreviews", "selfsubjectrulesreviews"})
"""Resources whose writes and events are not points of a plan, because they repeat without end or change nothing."""


class Commit(msgspec.Struct, frozen=True, gc=False):
    """One change of the storage."""

    revision: int
    at: float
    type: str
    resource: str
    """`pods`, or `apps.example.com` with the group behind the plural."""
    namespace: str
    name: str
    by: str
    """The user of the request."""
    process: int
    """The process of the operator, from 1; 0 is another client."""
    write: int
    """The number of the operator's write; 0 is another client's."""
    before: bytes
    after: bytes

    @property
    def object(self) -> str:
        """The object as `pods/default/web-0`."""
        return "/".join(part for part in (self.resource, self.namespace, self.name) if part)


class WriteRecord(msgspec.Struct, gc=False):
    """One write of the operator."""

    number: int
    process: int
    at: float
    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int = 0
    """The status code of the response; 0 before it arrives."""
    ended: float = 0.0
    commits: tuple[int, ...] = ()
    """The revisions of its commits."""
    fault: str = ""
    revision: int = 0
    """The revision of the storage after it."""

    @property
    def target(self) -> str:
        """The write as `patch pods/default/web-0/status`."""
        path = (self.resource, self.namespace, self.name, self.subresource)
        return f"{self.verb} " + "/".join(part for part in path if part)


class EventRecord(msgspec.Struct, frozen=True, gc=False):
    """One watch event that the operator received, or would have received without a fault."""

    number: int
    process: int
    at: float
    type: str
    resource: str
    namespace: str
    name: str
    revision: int
    fate: str = ""
    """`held` or `missed`; empty for an event that was delivered at once."""


class ReconcileRecord(msgspec.Struct, frozen=True, gc=False):
    """One reconcile."""

    process: int
    began: float
    ended: float
    controller: str
    key: str
    error: str = ""


class Mark(msgspec.Struct, frozen=True, gc=False):
    """A marked time of the run: a start, a crash, a settled state, a fault."""

    at: float
    process: int
    text: str


@dataclass(slots=True)
class Trace:
    """All records of one run."""

    began: float = 0.0
    writes: list[WriteRecord] = field(default_factory=list[WriteRecord])
    events: list[EventRecord] = field(default_factory=list[EventRecord])
    commits: list[Commit] = field(default_factory=list[Commit])
    reconciles: list[ReconcileRecord] = field(default_factory=list[ReconcileRecord])
    marks: list[Mark] = field(default_factory=list[Mark])

    @property
    def lengths(self) -> tuple[int, ...]:
        """The numbers of the records that do not change any more; the writes may still change."""
        return tuple(len(records) for records in self._unchanging)

    def without_first(self, lengths: Iterable[int]) -> None:
        """Remove the first records of each kind.

        Args:
            lengths: Former `lengths`.
        """
        for records, length in zip(self._unchanging, lengths, strict=False):
            del records[:length]

    def with_first(self, lengths: Iterable[int], other: Trace) -> None:
        """Insert the first records of another trace before those of this one.

        Args:
            lengths: Former `lengths`.
            other: The trace with these records.
        """
        for records, first, length in zip(self._unchanging, other._unchanging, lengths, strict=False):
            records[:0] = first[:length]

    @property
    def _unchanging(self) -> tuple[list[Any], ...]:
        return self.events, self.commits, self.reconciles, self.marks
