"""Expiry of Events: an hour after their last write, as with `--event-ttl` of kube-apiserver.

There is no timer: expired Events are deleted before the next request is served. Controllers and nodes renew their
leases every few seconds, so that there is always a next request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from steersman_cluster.storage import Event, GroupResource, Storage

__all__ = ["EVENT_TTL_SECONDS", "EventExpiry"]

EVENT_TTL_SECONDS: Final = 3600.0
_EVENTS: Final[GroupResource] = ("", "events")


class EventExpiry:
    """The Events of one API server, by the time when they expire.

    Events that were stored before the server started expire an hour after the start.
    """

    def __init__(self, storage: Storage, now: Callable[[], float]) -> None:
        self._storage = storage
        self._now = now
        self._due: deque[tuple[float, str, str, int]] = deque()
        for item in storage.items(_EVENTS):
            self._due.append((now() + EVENT_TTL_SECONDS, item.namespace, item.name, item.revision))

    def written(self, event: Event) -> None:
        """Record a change of an Event; a write restarts its hour."""
        if event.resource == _EVENTS and event.type != "DELETED":
            item = event.item
            self._due.append((self._now() + EVENT_TTL_SECONDS, item.namespace, item.name, item.revision))

    def expire(self) -> None:
        """Delete the expired Events."""
        due = self._due
        if not due or due[0][0] > (now := self._now()):
            return
        while due and due[0][0] <= now:
            _, namespace, name, revision = due.popleft()
            item = self._storage.get(_EVENTS, namespace, name)
            if item is not None and item.revision == revision:
                self._storage.delete(_EVENTS, namespace, name)
