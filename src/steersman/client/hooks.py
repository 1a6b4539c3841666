"""What other rooms hang into the client: the gate before each write, and observers around each write of an object.

The gate keeps rule L2 (a deposed leader writes nothing), observers keep rule C2 (read your own writes). Both are
called by the client and know nothing of it.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final, Protocol

import msgspec

from steersman.models import Key, ResourceInfo

__all__ = ["READS", "WriteGate", "WriteObserver", "WriteOutcome"]

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


class WriteObserver(Protocol):
    """Told of every write of an object before it leaves and after it ends. Synchronous, and must not raise."""

    def before_write(self, info: ResourceInfo, key: Key, verb: str) -> Any:
        """Called before the request leaves; `verb` is create, update, patch, apply or delete. Returns a token.

        The name is empty for a create with generateName and for delete_collection.
        """
        ...

    def after_write(self, token: Any, outcome: WriteOutcome | None) -> None:
        """Called when the write ended; `None` when it changed nothing, or when nobody knows what it did.

        Exactly once for each token, also on cancellation and errors.
        """
        ...
