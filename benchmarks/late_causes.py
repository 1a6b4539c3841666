"""Which part of the way of a late event took how long: pure functions over recorded times.

The way of an event begins when the writer sends its request and ends when the reconcile begins. All times are
nanoseconds of the wall clock, and a period is a pair of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

Period = tuple[int, int]

HOST: Final = "the host stopped a core"
DELAYED: Final = "another process on the operator's core"
OTHER_WORK: Final = "other callbacks of the event loop"
ALL_WORKERS: Final = "all workers of the operator await responses"
QUEUED: Final = "timers and event loop of the operator"
SERVER_COLLECTION: Final = "garbage collection of kube-apiserver"
ETCD_COLLECTION: Final = "garbage collection of etcd"
REQUEST: Final = "kube-apiserver and etcd: the writer's request"
WATCH: Final = "kube-apiserver: the watch event, after the response to the writer"
IN_SERVER: Final = frozenset({SERVER_COLLECTION, ETCD_COLLECTION, REQUEST, WATCH})
_GAP_NS: Final = 1_000_000
"""The longest wait between two busy periods of the event loop that counts as none: the socket was ready at once."""


@dataclass(frozen=True)
class Event:
    """The times of one event: request and response of the writer, read from the socket, reconciled."""

    sent: int
    answered: int
    read: int
    reconciled: int

    @property
    def late(self) -> int:
        """Nanoseconds from the writer's request to the reconcile."""
        return self.reconciled - self.sent


@dataclass(frozen=True)
class Records:
    """The activity during a round. `busy` is in the order of time; `work` is that of the operator, by name."""

    busy: Sequence[Period] = ()
    work: Mapping[str, Sequence[Period]] = field(default_factory=dict[str, Sequence[Period]])
    delayed: Sequence[tuple[int, int, int]] = ()
    """Periods in which the operator was runnable without running, and for how long of each."""
    saturated: Sequence[Period] = ()
    """Periods in which no worker of the operator was free."""
    stalls: Sequence[Period] = ()
    server_collections: Sequence[Period] = ()
    etcd_collections: Sequence[Period] = ()


def causes(event: Event, records: Records) -> dict[str, int]:
    """Return the nanoseconds of each cause; together they are those of the whole way.

    At each point of time the first cause of this order that applies is responsible: a stall of the host; before the
    operator could read the event, a garbage collection of the server, or else the server; afterwards, a delay by
    another process, the recorded work, other callbacks, the lack of a free worker, or else the queue.
    """
    able = max(event.sent, min(event.read, _ready_since(event.read, records)))
    answered = min(max(event.answered, event.sent), able)
    inside = (able, event.reconciled)
    layers: list[tuple[str, list[Period]]] = [
        (HOST, [_within(one, (event.sent, event.reconciled)) for one in records.stalls]),
        (SERVER_COLLECTION, [_within(one, (event.sent, able)) for one in records.server_collections]),
        (ETCD_COLLECTION, [_within(one, (event.sent, able)) for one in records.etcd_collections]),
        (REQUEST, [(event.sent, answered)]),
        (WATCH, [(answered, able)]),
        (DELAYED, [_within((end - missed, end), inside) for _, end, missed in records.delayed]),
        *((name, [_within(one, inside) for one in periods]) for name, periods in records.work.items()),
        (OTHER_WORK, [_within(one, inside) for one in records.busy]),
        (ALL_WORKERS, [_within(one, inside) for one in records.saturated]),
        (QUEUED, [inside]),
    ]
    return _shared(layers)


def _ready_since(read: int, records: Records) -> int:
    """Return since when the operator was kept from reading what it read at that time: `read` if it waited for it."""
    since = read
    for began, ended in reversed(records.busy):
        if began <= since and ended >= since - _GAP_NS:
            since = min(since, began)
        elif ended < since - _GAP_NS:
            break
    woken = [end - missed for begin, end, missed in records.delayed if begin <= since <= end + _GAP_NS]
    return min([since, *woken])


def _within(period: Period, limits: Period) -> Period:
    """Return the part of a period within limits; an empty period if there is none."""
    begin, end = max(period[0], limits[0]), min(period[1], limits[1])
    return (begin, max(begin, end))


def _shared(layers: Sequence[tuple[str, Sequence[Period]]]) -> dict[str, int]:
    """Return the length of each layer without what earlier layers cover."""
    taken: list[Period] = []
    found: dict[str, int] = {}
    before = 0
    for name, periods in layers:
        taken = _united([*taken, *periods])
        covered = sum(end - begin for begin, end in taken)
        if covered > before:
            found[name] = covered - before
        before = covered
    return found


def _united(periods: Sequence[Period]) -> list[Period]:
    """Return the union as disjoint periods."""
    united: list[Period] = []
    for begin, end in sorted(one for one in periods if one[1] > one[0]):
        if united and begin <= united[-1][1]:
            united[-1] = (united[-1][0], max(united[-1][1], end))
        else:
            united.append((begin, end))
    return united
