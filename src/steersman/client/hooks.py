"""Interfaces for other packages: the gate before each write, and observers of each write of an object.

The gate implements rule L2 (a deposed leader writes nothing), observers implement rule C2 (read your own writes).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from steersman.models import Key, ResourceInfo

__all__ = ["READS", "WriteEnded", "WriteGate", "WriteObserver", "WriteOutcome"]

READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""The HTTP methods that change nothing; all others are writes."""


class WriteGate(Protocol):
    """Called before every attempt of every request that is not a read."""

    def check(self, verb: str, path: str) -> Awaitable[None] | None:
        """Raise to refuse the write; return an awaitable to delay it. `verb` is the HTTP method."""
        ...


class WriteOutcome(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The result of a write: the object's uid and resourceVersion; `deleted` if the object was removed.

    The first two are read from the metadata of the returned object.
    """

    uid: str = ""
    resource_version: str = ""
    deleted: bool = False


WriteEnded: TypeAlias = Callable[[WriteOutcome | None], None]
"""Called with the result of a write; `None` if the write changed nothing or its result is unknown."""


class WriteObserver(Protocol):
    """Called before and after every write of an object. The methods are synchronous and must not raise."""

    def before_write(self, info: ResourceInfo, key: Key, verb: str) -> Sequence[WriteEnded]:
        """Handle a write before it is sent; `verb` is create, update, patch, apply or delete.

        The returned functions are called once each after the write, also after cancellation and errors. The name is
        empty for a create with generateName and for delete_collection.
        """
        ...
