"""Read your own writes (C2): which writes of ours a cache has not seen yet, and who waits for them.

A write is known from before its request leaves, so that an event that overtakes the response is recognised. From its
response on it holds back reads of that object, and of lists of its kind, until the watch has brought it. Nothing here
does I/O, and nothing waits for longer than the reader says.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final, Protocol

from steersman.cache.entry import Entry
from steersman.cache.versions import at_least
from steersman.models import Key

__all__ = ["OwnWrite", "OwnWrites", "Watched"]

ECHOES: Final = 2048
"""Own versions that are remembered to tell echoes from others' changes."""


class Watched(Protocol):
    """What has been seen: an informer."""

    @property
    def version(self) -> str: ...
    def get(self, key: Key) -> Entry | None: ...


class OwnWrite:
    """One write of ours; under way until `done`."""

    __slots__ = ("after", "deleted", "done", "key", "seen_meanwhile", "uid", "version")

    def __init__(self, key: Key, uid: str) -> None:
        self.key = key
        self.uid = uid
        self.version = ""
        self.after = ""
        """An earlier version that must be seen first, lest its late event bring a deleted object back."""
        self.deleted = False
        self.done = False
        self.seen_meanwhile: set[str] = set()
        """Versions of the key that arrived while the request was under way."""

    def satisfied(self, watched: Watched) -> bool:
        """Whether a cached read is certainly no older than this write."""
        entry = watched.get(self.key)
        if self.deleted:
            gone = entry is None or entry.uid != self.uid
            return gone and (not self.after or at_least(watched.version, self.after))
        if entry is not None and entry.uid == self.uid and at_least(entry.resource_version, self.version):
            return True
        return self.version in self.seen_meanwhile or at_least(watched.version, self.version)


class OwnWrites:
    """The own writes of one informer's kind and scope."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._under_way: dict[Key, list[OwnWrite]] = {}
        self._unseen: dict[tuple[Key, str], OwnWrite] = {}
        self._waiters: list[tuple[Key | None, asyncio.Future[None]]] = []
        self._echoes: OrderedDict[tuple[str, str], None] = OrderedDict()
        self.active = False
        """Whether `advance` and `saw` have anything to do; what the hot path looks at."""

    def begin(self, key: Key) -> OwnWrite:
        """A request is about to leave."""
        known = self._watched.get(key) if key.name else None
        write = OwnWrite(key, known.uid if known is not None else "")
        self._under_way.setdefault(key, []).append(write)
        self.active = True
        return write

    def finish(self, write: OwnWrite, uid: str, version: str, deleted: bool) -> None:
        """The response is here: `version` of `uid` exists, or that object is gone."""
        self._forget(write)
        uid = write.uid = uid or write.uid
        write.version, write.deleted, write.done = version, deleted, True
        if deleted and (before := self._unseen.get((write.key, uid))) is not None:
            write.after = before.after if before.deleted else before.version
        if version and not deleted:
            self._echoes[uid, version] = None
            if len(self._echoes) > ECHOES:
                self._echoes.popitem(last=False)
        if not write.satisfied(self._watched):
            self._unseen[write.key, uid] = write
        self._update()

    def abandon(self, write: OwnWrite) -> None:
        """The request failed, or nobody knows what it did."""
        self._forget(write)
        self._update()

    def _forget(self, write: OwnWrite) -> None:
        writes = self._under_way.get(write.key)
        if writes is not None and write in writes:
            writes.remove(write)
            if not writes:
                del self._under_way[write.key]

    def _update(self) -> None:
        self.active = bool(self._under_way or self._unseen)

    def saw(self, key: Key, version: str) -> None:
        """An event about `key` came in; to be called while `active`."""
        for write in self._under_way.get(key, ()):
            write.seen_meanwhile.add(version)
        for slot, write in self._unseen.items():
            if slot[0] == key:
                write.seen_meanwhile.add(version)

    def advance(self) -> None:
        """The watch moved on: wake the readers whose writes have arrived. To be called while `active`."""
        for slot in [s for s, write in self._unseen.items() if write.satisfied(self._watched)]:
            del self._unseen[slot]
        self._update()
        if self._waiters:
            waiting: list[tuple[Key | None, asyncio.Future[None]]] = []
            for key, future in self._waiters:
                if self.unseen(key):
                    waiting.append((key, future))
                elif not future.done():
                    future.set_result(None)
            self._waiters = waiting

    def unseen(self, key: Key | None = None) -> bool:
        """Whether a read of `key`, or of a list, could be older than a write of ours."""
        if key is None:
            return bool(self._unseen)
        return any(slot[0] == key for slot in self._unseen)

    def is_echo(self, uid: str, version: str) -> bool:
        """Whether that version was made by a write of ours."""
        return (uid, version) in self._echoes

    async def wait(self, key: Key | None, timeout: float) -> bool:
        """Wait until no write of ours is missing; false when that took longer than `timeout` seconds.

        Writes that did not arrive in time hold back nobody any more: the object may have left the selection.
        """
        if not self.unseen(key):
            return True
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        waiter = (key, future)
        self._waiters.append(waiter)
        timer = loop.call_later(timeout, _give_up, future)
        try:
            await future
        finally:
            timer.cancel()
            self._waiters = [w for w in self._waiters if w is not waiter]
        if not self.unseen(key):
            return True
        for slot in [s for s in self._unseen if key is None or s[0] == key]:
            del self._unseen[slot]
        self.advance()
        return False


def _give_up(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
