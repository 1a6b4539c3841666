"""What other rooms hang into the client: the gate before each write, and observers around each write of an object.

The gate keeps rule L2 (a deposed leader writes nothing), observers keep rule C2 (read your own writes). Both are
called by the client and know nothing of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from steersman.models import Key, ResourceInfo

__all__ = ["READS", "WriteEnded", "WriteGate", "WriteObserver", "WriteOutcome"]

READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""The HTTP methods that change nothing; everything else is a write."""


class WriteGate(Protocol):
    """Asked before every attempt of every request that is not a GET."""

    def check(self, verb: str, path: str) -> Awaitable[None] | None:
        """Raise to refuse the write; return an awaitable to make it wait. `verb` is the HTTP method."""
        ...


class WriteOutcome(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a write left: the object's uid and resourceVersion; `deleted` when the object is gone for good.

    The first two are read from an object's metadata as they stand there.
    """

    uid: str = ""
    resource_version: str = ""
    deleted: bool = False


WriteEnded: TypeAlias = Callable[[WriteOutcome | None], None]
"""Told what a write left; `None` when it changed nothing, or when nobody knows what it did."""


class WriteObserver(Protocol):
    """Told of every write of an object before it leaves and after it ends. Synchronous, and must not raise."""

    def before_write(self, info: ResourceInfo, key: Key, verb: str) -> Sequence[WriteEnded]:
        """Called before the request leaves; `verb` is create, update, patch, apply or delete.

        What it returns is called when the write has ended: exactly once, also on cancellation and errors. The name is
        empty for a create with generateName and for delete_collection.
        """
        ...
