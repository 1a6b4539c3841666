"""`Memo`: caches a function's results by its argument, as a dictionary.

A look-up is that of a dictionary. For results that every request needs, `functools.lru_cache` is slower: it takes as
long as some of the functions themselves. `Memo` has no statistics and clears all entries at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

__all__ = ["Memo"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(dict[K, V]):
    """`memo[key]` is `make(key)`, cached for up to `most` keys; then all entries are dropped.

    Exceptions of `make` are raised and not cached.
    """

    __slots__ = ("_make", "_most")

    def __init__(self, make: Callable[[K], V], most: int) -> None:
        super().__init__()
        self._make = make
        self._most = most

    def __missing__(self, key: K) -> V:
        value = self._make(key)
        if len(self) >= self._most:
            self.clear()
        self[key] = value
        return value
