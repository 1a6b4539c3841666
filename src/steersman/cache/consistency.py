"""Read your own writes (C2): which writes of ours a cache has not seen yet, and who waits for them.

From its response on a write holds back reads of that object, and of lists of its kind, until the watch has brought it.
For nearly all writes the watch's own version says whether it has: those are `Outstanding`'s. Deletes, and writes whose
versions cannot be compared, are kept here, and known from before their request leaves, so that an event that overtakes
the response is recognised. An event costs the same however many writes are outstanding: one of these is looked at when
its key changes, or when the watch passes its version. Nothing here does I/O, and nothing waits for longer than the
reader says.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from functools import partial
from heapq import heapify, heappop, heappush

from steersman.cache.outstanding import Outstanding
from steersman.cache.ownwrite import OwnWrite, Watched
from steersman.cache.versions import older
from steersman.client.hooks import WriteEnded, WriteOutcome
from steersman.models import Key

__all__ = ["OwnWrites"]


class OwnWrites:
    """The own writes of one informer's kind and scope."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._plain = Outstanding()
        self._seen = ""
        """The version of the watch that `reached` is of."""
        self._under_way: dict[tuple[str, str], list[OwnWrite]] = {}
        self._unseen: OrderedDict[int, OwnWrite] = OrderedDict()
        self._by_key: dict[tuple[str, str], dict[int, OwnWrite]] = {}
        self._by_version: list[tuple[int, int]] = []
        self._opaque: dict[int, OwnWrite] = {}
        self._changed: set[tuple[str, str]] = set()
        self._count = 0
        self._waiting: dict[Key, list[asyncio.Future[None]]] = {}
        self._waiting_for_all: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._waiters = 0
        self.active = False
        """Whether `advance` has anything to do; what the hot path looks at, as at the next."""
        self.listens = False
        """Whether `saw` has anything to do."""

    def begin(self, key: Key, delete: bool = False) -> WriteEnded:
        """A request is about to leave: what is returned is to be told what it left, or `None` where nobody knows.

        The answer to a `delete` may not say which object is gone.
        """
        # Where versions can be compared, the watch's own version says whether it has brought a write or not.
        if not delete and self._watched.version.isdecimal():
            return partial(self._ended, key, None)
        write = OwnWrite(key)
        known = self._watched.get(key) if delete and key.name else None
        if known is not None:
            write.uid = known.uid
        self._under_way.setdefault(key, []).append(write)
        self.listens = True
        return partial(self._ended, key, write)

    def _ended(self, key: Key, write: OwnWrite | None, outcome: WriteOutcome | None) -> None:
        """A write of `key` has ended, which is `write` where its events were listened for."""
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
            plain.wrote(key, outcome.uid, left)
            self.active = True

    def _finish(self, write: OwnWrite, outcome: WriteOutcome) -> None:
        """A write left a version that cannot be compared, or none at all."""
        write.uid = outcome.uid or write.uid
        write.version, write.deleted = outcome.resource_version, outcome.deleted
        if write.deleted:
            if left := self._plain.left_by(write.key, write.uid):
                write.after = str(left)
            for before in self._by_key.get(write.key, {}).values():
                if before.uid == write.uid and not older(before.awaited, write.after):
                    write.after = before.awaited
        if not write.satisfied(self._watched):
            self._hold_back(write)
            self._update()

    def _reached(self, version: str) -> int:
        """Know how far the watch is, as a number; 0 where its version is none."""
        self._seen = version
        reached = self._plain.reached = int(version) if version.isdecimal() else 0
        return reached

    def _forget(self, write: OwnWrite) -> None:
        writes = self._under_way.get(write.key)
        if writes is not None and write in writes:
            writes.remove(write)
            if not writes:
                del self._under_way[write.key]
        self._update()

    def _update(self) -> None:
        self.active = bool(self._plain.latest or self._unseen)
        self.listens = bool(self._under_way or self._by_key)

    def _hold_back(self, write: OwnWrite) -> None:
        """Let reads wait for `write`."""
        self._count += 1
        order = write.order = self._count
        self._unseen[order] = write
        self._by_key.setdefault(write.key, {})[order] = write
        awaited = write.awaited
        if awaited.isdecimal():
            heappush(self._by_version, (int(awaited), order))
            if len(self._by_version) > 2 * len(self._unseen) + 64:  # of those that were given up
                self._by_version = [v for v in self._by_version if v[1] in self._unseen]
                heapify(self._by_version)
        elif awaited:
            self._opaque[order] = write

    def _release(self, writes: Iterable[OwnWrite]) -> None:
        """Let nobody wait for these any more."""
        free: set[Key] = set()
        for write in writes:
            order, key = write.order, write.key
            if self._unseen.pop(order, None) is None:
                continue
            self._opaque.pop(order, None)
            of_key = self._by_key[key]
            del of_key[order]
            if not of_key:
                del self._by_key[key]
                # A write without a name held back its whole namespace.
                free.update((key,) if key.name else tuple(self._waiting))
        for key in free:
            if key in self._waiting and not self._held_back(key):
                _wake(self._waiting.pop(key))
        oldest = next(iter(self._unseen), self._count + 1)
        waiting = self._waiting_for_all
        while waiting and waiting[0][0] < oldest:
            _wake((waiting.popleft()[1],))
        self._update()

    def give_up(self) -> None:
        """Let nobody wait any more: the informer is closed."""
        self._plain.clear()
        self._release(tuple(self._unseen.values()))

    def saw(self, key: tuple[str, str], version: str) -> None:
        """An event about `key` came in; to be called while `listens`."""
        for write in self._under_way.get(key, ()):
            write.seen_meanwhile += (version,)
        if (writes := self._by_key.get(key)) is not None:
            self._changed.add(key)
            for write in writes.values():
                write.seen_meanwhile += (version,)

    def advance(self, *, relisted: bool = False) -> None:
        """The watch moved on: wake the readers whose writes have arrived. To be called while `active`.

        `relisted` when any key may have changed without an event.
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
        elif self._changed or self._opaque:
            for key in self._changed:
                arrived += _arrived(self._by_key.get(key, {}), watched)
            arrived += (w for w in self._opaque.values() if w.satisfied(watched))
        self._changed.clear()
        by_version = self._by_version
        while by_version and by_version[0][0] <= upto:
            write = self._unseen.get(heappop(by_version)[1])
            if write is not None and write.satisfied(watched):
                arrived.append(write)
        self._release(arrived)

    def unseen(self, key: Key | None = None) -> bool:
        """Whether a read of `key`, or of a list, could be older than a write of ours.

        A create with generateName holds back its whole namespace, since nobody here knows its key.
        """
        return self._plain.needed(key) > 0 or (bool(self._unseen) and self._held_back(key))

    def _held_back(self, key: Key | None) -> bool:
        if key is None:
            return bool(self._unseen)
        by_key = self._by_key
        return bool(by_key) and (key in by_key or (key[0], "") in by_key)

    @property
    def awaited(self) -> bool:
        """Whether anybody waits for a write to arrive."""
        return self._waiters > 0

    async def wait(self, key: Key | None, timeout: float) -> bool:
        """Wait until no write that is outstanding now is missing; false when that took longer than `timeout` seconds.

        Writes that did not arrive in time hold back nobody any more: the object may have left the selection.
        """
        plain, upto = self._plain, self._count
        version = plain.needed(key)
        deadline = asyncio.get_running_loop().time() + timeout
        self._waiters += 1
        try:
            passed = not version or await _within(plain.wait_for(version), deadline)
            if not passed:
                plain.give_up(key, version)
            shown = not self._held_back(key) or await self._shown(key, upto, deadline)
        finally:
            self._waiters -= 1
            self._update()
        return passed and shown

    async def _shown(self, key: Key | None, upto: int, deadline: float) -> bool:
        """As `wait`, for the writes up to number `upto` that are kept here."""
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
        # Who waited for everything stays in line, and is dropped in passing.
        if key is not None and future in (waiting := self._waiting.get(key, [])):
            waiting.remove(future)
            if not waiting:
                del self._waiting[key]


def _arrived(writes: Mapping[int, OwnWrite], watched: Watched) -> list[OwnWrite]:
    """Those that a read shows now; with a write of no comparable version, what was written to its object before."""
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
    """Wait for a future until `deadline`, in seconds of the loop's clock; whether that came in time."""
    try:
        async with asyncio.timeout_at(deadline):
            await future
    except TimeoutError:
        return False
    return True
