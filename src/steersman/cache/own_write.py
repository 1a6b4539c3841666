"""`OwnWrite`: one write of this client, and the condition under which the watch has delivered it."""

from __future__ import annotations

from typing import Protocol

import msgspec

from steersman.cache.entry import Entry
from steersman.cache.versions import at_least
from steersman.models import Key

__all__ = ["OwnWrite", "Watched"]


class Watched(Protocol):
    """The part of an informer that tells what its watch has delivered."""

    @property
    def version(self) -> str:
        """The latest resource version that the watch delivered."""
        ...

    def get(self, key: Key) -> Entry | None:
        """Return the cached object of a key; `None` if there is none."""
        ...


class OwnWrite(msgspec.Struct, eq=False, gc=False):
    """One write whose delivery does not follow from its version alone."""

    key: Key
    uid: str = ""
    version: str = ""
    after: str = ""
    """An earlier version that the watch must deliver first, or its late event would restore a deleted object."""
    deleted: bool = False
    order: int = 0
    """The serial number among the tracked writes."""
    versions_seen: tuple[str, ...] = ()
    """The versions of the key that the watch has delivered since the request was sent."""

    def satisfied(self, watched: Watched) -> bool:
        """Return whether a cached read certainly includes this write."""
        entry = watched.get(self.key)
        if self.deleted:
            return (entry is None or entry.uid != self.uid) and (not self.after or self.passed(watched, self.after))
        if entry is not None and entry.uid == self.uid and at_least(entry.resource_version, self.version):
            return True
        return self.passed(watched, self.version)

    def passed(self, watched: Watched, version: str) -> bool:
        """Return whether the watch has delivered that version, or a later one."""
        return version in self.versions_seen or at_least(watched.version, version)

    @property
    def awaited(self) -> str:
        """The version at which the watch may satisfy this write; empty if only an event of its key can."""
        return self.after if self.deleted else self.version
