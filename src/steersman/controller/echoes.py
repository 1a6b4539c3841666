"""Own status writes coming back: the status that a reconcile returned does not wake the controller that wrote it.

Skipping is decided by content, not by version alone: a change is an echo only when the object is what the reconcile
was given plus the status that it returned. So somebody else's change is never taken for ours, not even when our patch
changed nothing any more and was answered with the version of theirs, or when a new list hides what came in between.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

import msgspec
from msgspec import UNSET

from steersman.controller.protocols import Entry
from steersman.controller.request import StatusWritten
from steersman.controller.status_wire import raw_status_of
from steersman.models import DecodeError, View, replace
from steersman.models.wire import decode

__all__ = ["Echoes"]

_KEPT: Final = 128
"""Writes that are waited for at least; whatever is beyond may wake the controller for nothing, and no harm is done."""


class Echoes:
    """What one controller has written and not seen yet, by uid.

    An echo that overtakes its answer is not recognised: it wakes the controller, which finds nothing to do.
    """

    def __init__(self) -> None:
        self._expected: dict[str, StatusWritten] = {}

    def expect(self, written: StatusWritten) -> None:
        """A reconcile has ended with this status, which it has written unless it was there already."""
        if written.before is None:
            return
        expected = self._expected
        expected[written.uid] = written
        if len(expected) > 2 * _KEPT:  # where a predicate keeps echoes out, nobody takes them from here
            self._expected = dict(islice(expected.items(), _KEPT, None))

    def brings(self, entry: Entry, view: View[Any]) -> bool:
        """Whether `entry`, the newest state of an object, is nothing but an expected echo."""
        if not self._expected:
            return False
        uid = entry.uid
        written = self._expected.get(uid)
        if written is None or written.resource_version != entry.resource_version:
            return False
        del self._expected[uid]
        before = written.before
        assert before is not None
        try:
            return _adds_only(written.status, before, entry) or _amounts_to(written.status, before, entry, view)
        except (DecodeError, msgspec.DecodeError):
            return False


def _adds_only(status: Any, before: Entry, after: Entry) -> bool:
    """Whether, byte by byte, `after` is `before` with another version and `status`: true for nearly all echoes.

    The API server writes the status last, and a quoted name cannot stand inside a string. False proves nothing.
    """
    old, new = before.raw(), after.raw()
    was, now = raw_status_of(old), raw_status_of(new)
    if now is UNSET or not new.endswith(end := b"%s}" % now):
        return False
    if was is UNSET:
        start = old[:-1] + b',"status":'
    elif old.endswith(ending := b"%s}" % was):
        start = old[: -len(ending)]
    else:
        return False
    version = b'"resourceVersion":"%s"'
    then, since = (version % entry.resource_version.encode() for entry in (before, after))
    if start.replace(then, since, 1) != new[: -len(end)]:
        return False
    return bool(decode(status.__class__, bytes(now)) == status)


def _amounts_to(status: Any, before: Entry, after: Entry, view: View[Any]) -> bool:
    """Whether `after`, as it is read, is `before` with another version and `status`."""
    old: Any = before.object(view)
    new: Any = after.object(view)
    metadata = replace(old.metadata, resource_version=after.resource_version)
    return bool(new == replace(old, metadata=metadata, status=status))
