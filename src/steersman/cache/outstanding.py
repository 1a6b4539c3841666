"""Outstanding writes with comparable versions: delivered as soon as the watch has passed their versions.

A write costs one dictionary entry, an event nothing, and a read one lookup, however many writes are outstanding. Only
the waiters are ordered. The caller decides which versions can be compared (KEP-5504).
"""

from __future__ import annotations

import asyncio
from heapq import heapify, heappop, heappush

from steersman.models import Key

__all__ = ["OutstandingVersions"]


class OutstandingVersions:
    """The newest written version of each object, until the watch has passed it."""

    __slots__ = ("_most", "_newest", "_serial", "_waiting", "latest", "reached")

    def __init__(self) -> None:
        self.reached = 0
        """The version that the watch has passed; set it before adding a write."""
        self.latest = 0
        """The highest written version; 0 if the watch has passed all."""
        self._newest: dict[tuple[str, str], tuple[int, str]] = {}
        self._most = 64
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._serial = 0

    def record_write(self, key: Key, uid: str, version: int) -> None:
        """Add a write that resulted in `version`, which the watch has not passed; responses come in any order."""
        newest = self._newest
        known = newest.get(key)
        if known is None or known[0] < version:
            newest[key] = (version, uid)
            if version > self.latest:
                self.latest = version

    def needed(self, key: Key | None) -> int:
        """Return the version that the watch must pass before a read of `key` (or a list) includes all writes; else 0.

        A create with generateName delays reads of its whole namespace, because its key is unknown.
        """
        if key is None:
            return self.latest if self.latest > self.reached else 0
        newest = self._newest
        known, of_namespace = newest.get(key), newest.get((key[0], ""))
        version = known[0] if known is not None else 0
        if of_namespace is not None and of_namespace[0] > version:
            version = of_namespace[0]
        return version if version > self.reached else 0

    def last_write_of(self, key: Key, uid: str) -> int:
        """Return the version of the last write to the object with that uid if it is outstanding, else 0."""
        known = self._newest.get(key)
        return known[0] if known is not None and known[1] == uid else 0

    def passed(self, version: int) -> None:
        """Record that the watch has passed `version`, and wake the waiters up to it."""
        self.reached = version
        newest = self._newest
        if version >= self.latest:
            newest.clear()
            self.latest = 0
        elif len(newest) > self._most:
            self._keep({key: known for key, known in newest.items() if known[0] > version})
        waiting = self._waiting
        while waiting and waiting[0][0] <= version:
            _, _, future = heappop(waiting)
            if not future.done():
                future.set_result(None)

    def wait_for(self, version: int) -> asyncio.Future[None]:
        """Return a future that completes when the watch has passed `version`; cancel it to stop waiting."""
        waiting = self._waiting
        if len(waiting) > 64 and waiting[0][2].done():
            waiting[:] = [one for one in waiting if not one[2].done()]
            heapify(waiting)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._serial += 1
        heappush(waiting, (version, self._serial, future))
        return future

    def give_up(self, key: Key | None, version: int) -> None:
        """Drop the writes up to `version` of `key` and its namespace, or of all keys, after a timeout."""
        held = {k: left for k, left in self._newest.items() if left[0] > self.reached}
        for at in tuple(held) if key is None else (key, (key[0], "")):
            if at in held and held[at][0] <= version:
                del held[at]
        self._keep(held)
        self.latest = max((known[0] for known in self._newest.values()), default=0)

    def clear(self) -> None:
        """Drop all writes and wake all waiters."""
        self.latest = 0
        self._newest.clear()
        waiting, self._waiting = self._waiting, []
        for _, _, future in waiting:
            if not future.done():
                future.set_result(None)

    def _keep(self, newest: dict[tuple[str, str], tuple[int, str]]) -> None:
        self._newest = newest
        self._most = 2 * len(newest) + 64
