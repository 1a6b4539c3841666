"""Recognises watch events of a controller's own status writes, which must not start another reconcile.

An event is an echo only if the object equals the one that the reconcile received plus the status that it returned. The
version alone is not enough: a patch that changes nothing returns the version of another client's write, and a new list
hides the changes between.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

import msgspec
from msgspec import UNSET

from steersman.controller.protocols import Entry
from steersman.controller.request import StatusWritten
from steersman.controller.status_patch import raw_status_of
from steersman.models import DecodeError, View, replace
from steersman.models.wire import decode

__all__ = ["StatusEchoes"]

_MAX_EXPECTED: Final = 128
"""Expected echoes that are kept at least; an echo beyond them starts a reconcile that finds nothing to do."""


class StatusEchoes:
    """The status writes of one controller whose events have not arrived, by uid.

    An event that overtakes the response is not recognised; it starts a reconcile that finds nothing to do.
    """

    def __init__(self) -> None:
        self._expected: dict[str, StatusWritten] = {}

    def expect(self, written: StatusWritten) -> None:
        """Expect the event of a status write; a result without a write is ignored."""
        if written.before is None:
            return
        expected = self._expected
        expected[written.uid] = written
        if len(expected) > 2 * _MAX_EXPECTED:  # if a predicate filters the events out, nothing else removes them
            self._expected = dict(islice(expected.items(), _MAX_EXPECTED, None))

    def matches(self, entry: Entry, view: View[Any]) -> bool:
        """Return whether `entry`, the newest state of an object, is an expected echo."""
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
            return _differs_by_bytes(written.status, before, entry) or _differs_by_value(
                written.status, before, entry, view
            )
        except (DecodeError, msgspec.DecodeError):
            return False


def _differs_by_bytes(status: Any, before: Entry, after: Entry) -> bool:
    """Return whether `after` equals `before` byte by byte, except for the version and `status`.

    The API server writes the status last, and a quoted name cannot occur in a string. False does not prove that the
    event is not an echo.
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


def _differs_by_value(status: Any, before: Entry, after: Entry, view: View[Any]) -> bool:
    """Return whether the decoded `after` equals `before`, except for the version and `status`."""
    old: Any = before.object(view)
    new: Any = after.object(view)
    metadata = replace(old.metadata, resource_version=after.resource_version)
    return bool(new == replace(old, metadata=metadata, status=status))
