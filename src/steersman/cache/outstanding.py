"""Own writes that the watch has brought as soon as it has passed their versions: all but deletes, nearly everywhere.

A write costs one entry, an event nothing, and a read one look, however many writes are outstanding: it is who waits
that is kept in order. Pure but for the futures that it completes; which versions can be compared is for others to know.
"""

from __future__ import annotations

import asyncio
from heapq import heapify, heappop, heappush

from steersman.models import Key

__all__ = ["Outstanding"]


class Outstanding:
    """The newest version that was written to each object, until the watch has passed it."""

    __slots__ = ("_most", "_newest", "_serial", "_waiting", "latest", "reached")

    def __init__(self) -> None:
        self.reached = 0
        """What the watch has passed. To be set to where it is before a write is added."""
        self.latest = 0
        """The highest of the versions written; 0 when the watch has passed them all."""
        self._newest: dict[tuple[str, str], tuple[int, str]] = {}
        self._most = 64
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._serial = 0

    def wrote(self, key: Key, uid: str, version: int) -> None:
        """A write left `version`, which the watch has not passed. Answers may come in any order."""
        newest = self._newest
        known = newest.get(key)
        if known is None or known[0] < version:
            newest[key] = (version, uid)
            if version > self.latest:
                self.latest = version

    def needed(self, key: Key | None) -> int:
        """The version that the watch must pass before a read of `key`, or of a list, is no older than what was written.

        0 where it has. A create with generateName holds back its whole namespace, since nobody here knows its key.
        """
        if key is None:
            return self.latest if self.latest > self.reached else 0
        newest = self._newest
        known, of_namespace = newest.get(key), newest.get((key[0], ""))
        version = known[0] if known is not None else 0
        if of_namespace is not None and of_namespace[0] > version:
            version = of_namespace[0]
        return version if version > self.reached else 0

    def left_by(self, key: Key, uid: str) -> int:
        """The version that the last write to that very object left, if it is outstanding, else 0."""
        known = self._newest.get(key)
        return known[0] if known is not None and known[1] == uid else 0

    def passed(self, version: int) -> None:
        """The watch has passed `version`: whoever waited for that goes on."""
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
        """A future that is done when the watch has passed `version`. Who leaves it cancels it."""
        waiting = self._waiting
        if len(waiting) > 64 and waiting[0][2].done():
            waiting[:] = [one for one in waiting if not one[2].done()]
            heapify(waiting)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._serial += 1
        heappush(waiting, (version, self._serial, future))
        return future

    def give_up(self, key: Key | None, version: int) -> None:
        """The watch did not bring what was written up to `version`: to `key` and its namespace, or to anything."""
        held = {k: left for k, left in self._newest.items() if left[0] > self.reached}
        for at in tuple(held) if key is None else (key, (key[0], "")):
            if at in held and held[at][0] <= version:
                del held[at]
        self._keep(held)
        self.latest = max((known[0] for known in self._newest.values()), default=0)

    def clear(self) -> None:
        """Nothing is outstanding any more, and nobody waits."""
        self.latest = 0
        self._newest.clear()
        waiting, self._waiting = self._waiting, []
        for _, _, future in waiting:
            if not future.done():
                future.set_result(None)

    def _keep(self, newest: dict[tuple[str, str], tuple[int, str]]) -> None:
        self._newest = newest
        self._most = 2 * len(newest) + 64
