"""`OwnWrite`: one write of ours that a cache is told of, and when what it watches has brought it."""

from __future__ import annotations

from typing import Protocol

import msgspec

from steersman.cache.entry import Entry
from steersman.cache.versions import at_least
from steersman.models import Key

__all__ = ["OwnWrite", "Watched"]


class Watched(Protocol):
    """What has been seen: an informer."""

    @property
    def version(self) -> str: ...
    def get(self, key: Key) -> Entry | None: ...


class OwnWrite(msgspec.Struct, eq=False, gc=False):
    """One write of ours that is not told from its version alone."""

    key: Key
    uid: str = ""
    version: str = ""
    after: str = ""
    """An earlier version that must be seen first, lest its late event bring a deleted object back."""
    deleted: bool = False
    order: int = 0
    """Counts the writes that had to be waited for."""
    seen_meanwhile: tuple[str, ...] = ()
    """Those versions of the key that arrived since the request left."""

    def satisfied(self, watched: Watched) -> bool:
        """Whether a cached read is certainly no older than this write."""
        entry = watched.get(self.key)
        if self.deleted:
            return (entry is None or entry.uid != self.uid) and (not self.after or self.passed(watched, self.after))
        if entry is not None and entry.uid == self.uid and at_least(entry.resource_version, self.version):
            return True
        return self.passed(watched, self.version)

    def passed(self, watched: Watched, version: str) -> bool:
        """Whether the watch has brought that version, or a later one."""
        return version in self.seen_meanwhile or at_least(watched.version, version)

    @property
    def awaited(self) -> str:
        """The version from which on the watch may satisfy this write; empty when only an event of its key can."""
        return self.after if self.deleted else self.version
