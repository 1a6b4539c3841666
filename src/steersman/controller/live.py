"""The cache as writers see it: the entry of one object, no older than our own writes."""

from __future__ import annotations

from typing import Any

from steersman.cache import Cache, Entry, Informer
from steersman.models import GVK, Key, View

__all__ = ["CachedState"]


class CachedState:
    """Looks up entries in the informers of a cache; kinds that are not cached have none."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._known: tuple[Informer, ...] = ()
        self._by_kind: dict[GVK, list[Informer]] = {}

    async def entry(self, kind: View[Any], key: Key) -> Entry | None:
        """The cached object, or None; waits for the echo of an own write that is still under way (C2)."""
        if self._cache.outstanding(kind, key):
            await self._cache.read_barrier(kind, key)
        return self.find(kind.info.gvk, key)

    def find(self, gvk: GVK, key: Key) -> Entry | None:
        """The cached object as it is now, or None, without waiting for anything."""
        for informer in self._informers(gvk):
            if informer.scope.namespace in (None, key.namespace):
                found = informer.get(key)
                if found is not None:
                    return found
        return None

    def _informers(self, gvk: GVK) -> list[Informer]:
        informers = self._cache.informers
        if informers != self._known:  # informers come and go with namespaces
            self._known = informers
            self._by_kind.clear()
            for informer in informers:
                self._by_kind.setdefault(informer.info.gvk, []).append(informer)
        return self._by_kind.get(gvk, [])
