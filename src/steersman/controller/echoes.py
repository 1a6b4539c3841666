"""Own status writes coming back: the status that a reconcile returned does not wake the controller that wrote it.

Skipping is decided by content, not by version alone: a change is an echo only when the object is what the reconcile
was given plus the status that it returned. So somebody else's change is never taken for ours, not even when our patch
changed nothing any more and was answered with the version of theirs, or when a new list hides what came in between.
"""

from __future__ import annotations

from typing import Any, Final

from steersman.controller.protocols import Entry
from steersman.controller.request import StatusWritten
from steersman.models import DecodeError, View, replace

__all__ = ["Echoes"]

_KEPT: Final = 128
"""Writes that are waited for; whatever is beyond wakes the controller for nothing, and no harm is done."""


class Echoes:
    """What one controller has written and not seen yet, by uid.

    An echo that overtakes its answer is not recognised: it wakes the controller, which finds nothing to do.
    """

    def __init__(self) -> None:
        self._expected: dict[str, StatusWritten] = {}

    def expect(self, written: StatusWritten) -> None:
        """A reconcile has ended with this status, which it has written unless it was there already."""
        metadata = written.obj.metadata
        if written.resource_version == metadata.resource_version:
            return
        expected, uid = self._expected, metadata.uid
        expected.pop(uid, None)
        expected[uid] = written
        if len(expected) > _KEPT:
            del expected[next(iter(expected))]

    def brings(self, entry: Entry, view: View[Any]) -> bool:
        """Whether `entry`, the newest state of an object, is nothing but an expected echo."""
        if not self._expected:
            return False
        uid = entry.uid
        expected = self._expected.get(uid)
        if expected is None or expected.resource_version != entry.resource_version:
            return False
        del self._expected[uid]
        try:
            found: Any = entry.object(view)
        except DecodeError:
            return False
        obj = expected.obj
        metadata = replace(obj.metadata, resource_version=expected.resource_version)
        return bool(found == replace(obj, metadata=metadata, status=expected.status))
