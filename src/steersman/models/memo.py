"""`Memo`: a function's results by its argument, as a dictionary that fills itself.

Where a result is asked for with each request, `functools.lru_cache` takes as long as what it saves: a look-up here is
one of a dictionary. In return it counts nothing, and forgets everything at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

__all__ = ["Memo"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(dict[K, V]):
    """`memo[key]` is `make(key)`, made once for up to `most` keys; with one more, it begins anew.

    What `make` raises is raised, and not kept.
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
