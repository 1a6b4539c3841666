"""`CachedState`: reads cached entries that include the client's own writes, for `Applier`."""

from __future__ import annotations

from typing import Any

from steersman.cache import Cache, Entry
from steersman.models import Key, View

__all__ = ["CachedState"]


class CachedState:
    """Reads entries of a cache; kinds that are not cached have none."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    async def entry(self, kind: View[Any], key: Key) -> Entry | None:
        """Return the cached object, or `None`, after waiting for outstanding own writes (C2)."""
        if self._cache.outstanding(kind, key):
            await self._cache.read_barrier(kind, key)
        return self._cache.entry(kind.info.gvk, key)
