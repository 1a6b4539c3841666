"""The cache as writers see it: the entry of one object, no older than our own writes."""

from __future__ import annotations

from typing import Any

from steersman.cache import Cache, Entry
from steersman.models import Key, View

__all__ = ["CachedState"]


class CachedState:
    """Looks up entries in the informers of a cache; kinds that are not cached have none."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    async def entry(self, kind: View[Any], key: Key) -> Entry | None:
        """The cached object, or None; waits for the echo of an own write that is still under way (C2)."""
        if self._cache.outstanding(kind, key):
            await self._cache.read_barrier(kind, key)
        return self._cache.entry(kind.info.gvk, key)
