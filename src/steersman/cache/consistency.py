"""Read-your-writes consistency (C2): the client's writes that the watch has not delivered yet, and their waiters.

From its response until the watch delivers it, a write delays reads of its object and lists of its kind. For nearly
all writes, the resourceVersion of the watch tells whether it has delivered them (`OutstandingVersions`). Deletes, and
writes whose versions cannot be compared, are tracked here by their events. Tracking begins before the request is
sent, so that an event that overtakes the response counts. An event costs the same however many writes are
outstanding. This module does no I/O; every wait has the caller's timeout.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from functools import partial
from heapq import heapify, heappop, heappush

from steersman.cache.outstanding import OutstandingVersions
from steersman.cache.own_write import OwnWrite, Watched
from steersman.cache.versions import older
from steersman.client.hooks import WriteEnded, WriteOutcome
from steersman.models import Key

__all__ = ["OwnWrites"]


class OwnWrites:
    """The client's outstanding writes in the kind and scope of one informer."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._plain = OutstandingVersions()
        self._seen = ""
        """The version of the watch from which `reached` was computed."""
        self._in_flight: dict[tuple[str, str], list[OwnWrite]] = {}
        self._unseen: OrderedDict[int, OwnWrite] = OrderedDict()
        self._by_key: dict[tuple[str, str], dict[int, OwnWrite]] = {}
        self._by_version: list[tuple[int, int]] = []
        self._incomparable: dict[int, OwnWrite] = {}
        self._changed: set[tuple[str, str]] = set()
        self._count = 0
        self._waiting: dict[Key, list[asyncio.Future[None]]] = {}
        self._waiting_for_all: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._waiters = 0
        self.active = False
        """Whether `advance` has anything to do; read for every event."""
        self.tracks_events = False
        """Whether `event_received` has anything to do; read for every event."""

    def begin(self, key: Key, *, delete: bool = False) -> WriteEnded:
        """Track a write from before its request is sent.

        The caller passes the outcome of the write to the returned function, or `None` if the outcome is unknown. The
        response to a delete may not name the uid of the object.
        """
        # If versions can be compared, the watch's own version tells whether it has delivered the write.
        if not delete and self._watched.version.isdecimal():
            return partial(self._ended, key, None)
        write = OwnWrite(key)
        known = self._watched.get(key) if delete and key.name else None
        if known is not None:
            write.uid = known.uid
        self._in_flight.setdefault(key, []).append(write)
        self.tracks_events = True
        return partial(self._ended, key, write)

    def _ended(self, key: Key, write: OwnWrite | None, outcome: WriteOutcome | None) -> None:
        """Handle the outcome of a write of `key`; `write` is set if its events were tracked."""
        if write is not None:
            self._forget(write)
        if outcome is None:
            return
        version = outcome.resource_version
        if outcome.deleted or not version.isdecimal():
            self._finish(write or OwnWrite(key), outcome)
            return
        plain = self._plain
        if (seen := self._watched.version) is not self._seen:
            self._reached(seen)
        if (left := int(version)) > plain.reached:
            plain.record_write(key, outcome.uid, left)
            self.active = True

    def _finish(self, write: OwnWrite, outcome: WriteOutcome) -> None:
        """Handle a write whose version cannot be compared, or that has none."""
        write.uid = outcome.uid or write.uid
        write.version, write.deleted = outcome.resource_version, outcome.deleted
        if write.deleted:
            if left := self._plain.last_write_of(write.key, write.uid):
                write.after = str(left)
            for before in self._by_key.get(write.key, {}).values():
                if before.uid == write.uid and not older(before.awaited, write.after):
                    write.after = before.awaited
        if not write.satisfied(self._watched):
            self._block_reads(write)
            self._update()

    def _reached(self, version: str) -> int:
        """Set and return the version of the watch as a number; 0 if it is not a number."""
        self._seen = version
        reached = self._plain.reached = int(version) if version.isdecimal() else 0
        return reached

    def _forget(self, write: OwnWrite) -> None:
        writes = self._in_flight.get(write.key)
        if writes is not None and write in writes:
            writes.remove(write)
            if not writes:
                del self._in_flight[write.key]
        self._update()

    def _update(self) -> None:
        self.active = bool(self._plain.latest or self._unseen)
        self.tracks_events = bool(self._in_flight or self._by_key)

    def _block_reads(self, write: OwnWrite) -> None:
        """Make reads wait for `write`."""
        self._count += 1
        order = write.order = self._count
        self._unseen[order] = write
        self._by_key.setdefault(write.key, {})[order] = write
        awaited = write.awaited
        if awaited.isdecimal():
            heappush(self._by_version, (int(awaited), order))
            if len(self._by_version) > 2 * len(self._unseen) + 64:  # entries of writes that timed out
                self._by_version = [v for v in self._by_version if v[1] in self._unseen]
                heapify(self._by_version)
        elif awaited:
            self._incomparable[order] = write

    def _release(self, writes: Iterable[OwnWrite]) -> None:
        """Stop waiting for these writes, and wake their waiters."""
        free: set[Key] = set()
        for write in writes:
            order, key = write.order, write.key
            if self._unseen.pop(order, None) is None:
                continue
            self._incomparable.pop(order, None)
            of_key = self._by_key[key]
            del of_key[order]
            if not of_key:
                del self._by_key[key]
                # A write without a name delayed reads of its whole namespace.
                free.update((key,) if key.name else tuple(self._waiting))
        for key in free:
            if key in self._waiting and not self._is_blocked(key):
                _wake(self._waiting.pop(key))
        oldest = next(iter(self._unseen), self._count + 1)
        waiting = self._waiting_for_all
        while waiting and waiting[0][0] < oldest:
            _wake((waiting.popleft()[1],))
        self._update()

    def give_up(self) -> None:
        """Release all waiters, because the informer is closed."""
        self._plain.clear()
        self._release(tuple(self._unseen.values()))

    def event_received(self, key: tuple[str, str], version: str) -> None:
        """Record an event of `key`; call this while `tracks_events`."""
        for write in self._in_flight.get(key, ()):
            write.versions_seen += (version,)
        if (writes := self._by_key.get(key)) is not None:
            self._changed.add(key)
            for write in writes.values():
                write.versions_seen += (version,)

    def advance(self, *, relisted: bool = False) -> None:
        """Wake the readers whose writes the watch has delivered; call this while `active`.

        `relisted` says that any key may have changed without an event.
        """
        watched, plain = self._watched, self._plain
        upto = self._reached(watched.version)
        plain.passed(upto)
        if not self._unseen:
            self.active = bool(plain.latest)
            return
        arrived: list[OwnWrite] = []
        if relisted:
            arrived += (w for w in self._unseen.values() if w.satisfied(watched))
        elif self._changed or self._incomparable:
            for key in self._changed:
                arrived += _arrived(self._by_key.get(key, {}), watched)
            arrived += (w for w in self._incomparable.values() if w.satisfied(watched))
        self._changed.clear()
        by_version = self._by_version
        while by_version and by_version[0][0] <= upto:
            write = self._unseen.get(heappop(by_version)[1])
            if write is not None and write.satisfied(watched):
                arrived.append(write)
        self._release(arrived)

    def unseen(self, key: Key | None = None) -> bool:
        """Return whether a read of `key`, or a list, could be older than an own write.

        A create with generateName delays reads of its whole namespace, because its key is unknown.
        """
        return self._plain.needed(key) > 0 or (bool(self._unseen) and self._is_blocked(key))

    def _is_blocked(self, key: Key | None) -> bool:
        if key is None:
            return bool(self._unseen)
        by_key = self._by_key
        return bool(by_key) and (key in by_key or (key[0], "") in by_key)

    @property
    def awaited(self) -> bool:
        """Whether any reader waits for a write."""
        return self._waiters > 0

    async def wait(self, key: Key | None, timeout: float) -> bool:
        """Wait until the watch has delivered all writes that are outstanding now; false after `timeout` seconds.

        Writes that time out delay no more reads: the object may have left the informer's selection.
        """
        plain, upto = self._plain, self._count
        version = plain.needed(key)
        deadline = asyncio.get_running_loop().time() + timeout
        self._waiters += 1
        try:
            passed = not version or await _within(plain.wait_for(version), deadline)
            if not passed:
                plain.give_up(key, version)
            shown = not self._is_blocked(key) or await self._wait_for_events(key, upto, deadline)
        finally:
            self._waiters -= 1
            self._update()
        return passed and shown

    async def _wait_for_events(self, key: Key | None, upto: int, deadline: float) -> bool:
        """Wait for the tracked writes up to number `upto`, as `wait` does."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if key is None:
            self._waiting_for_all.append((upto, future))
        else:
            self._waiting.setdefault(key, []).append(future)
        try:
            await _within(future, deadline)
        finally:
            self._leave(key, future)
        late = [write for write in self._missing(key) if write.order <= upto]
        self._release(late)
        return not late

    def _missing(self, key: Key | None) -> list[OwnWrite]:
        if key is None:
            return list(self._unseen.values())
        found = (self._by_key.get(k, {}) for k in {key, Key(key[0], "")})
        return [write for writes in found for write in writes.values()]

    def _leave(self, key: Key | None, future: asyncio.Future[None]) -> None:
        # The future of a list stays in the queue, and is dropped when its turn comes.
        if key is not None and future in (waiting := self._waiting.get(key, [])):
            waiting.remove(future)
            if not waiting:
                del self._waiting[key]


def _arrived(writes: Mapping[int, OwnWrite], watched: Watched) -> list[OwnWrite]:
    """Return the writes that a read shows now.

    A write without a comparable version includes the earlier writes to the same object.
    """
    arrived: list[OwnWrite] = []
    shown: set[str] = set()
    for write in reversed(list(writes.values())):
        if write.satisfied(watched) or (write.uid in shown and not write.deleted):
            arrived.append(write)
            shown.add(write.uid)
    return arrived


def _wake(futures: Iterable[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


async def _within(future: asyncio.Future[None], deadline: float) -> bool:
    """Wait for a future until `deadline`, in seconds of the loop's clock; return whether it completed."""
    try:
        async with asyncio.timeout_at(deadline):
            await future
    except TimeoutError:
        return False
    return True
