"""The argument and the outcomes of a reconcile: `Request`, `Result`, `RequeueError`, `TerminalError`."""

from __future__ import annotations

from typing import Any

import msgspec

from steersman.controller.protocols import Entry
from steersman.models import Key

__all__ = ["Request", "RequeueError", "Result", "StatusWritten", "TerminalError"]


class Request(msgspec.Struct, frozen=True, gc=False):
    """One run of a reconcile: the key, the reasons of the trigger, and the attempt number (from 1).

    `reasons` ("Deployment updated", "requeue-after", "retry") are for logs; a reconcile must not depend on them.
    `reconcile_id` is practically unique in the cluster and connects log lines, Events and traces.
    """

    key: Key
    reasons: tuple[str, ...] = ()
    attempt: int = 1
    reconcile_id: str = ""


class Result(msgspec.Struct, frozen=True):
    """The result of a successful reconcile: run again in `requeue_after` seconds; write `status` if it is given."""

    requeue_after: float | None = None
    status: Any = None


class StatusWritten(Result, frozen=True, kw_only=True):
    """A result whose `status` has been written.

    `resource_version` is the version after the write to the object with that `uid`. `before` is the object that the
    reconcile received, from which the event of the write is recognised; `None` if nothing was written.
    """

    resource_version: str = ""
    uid: str = ""
    before: Entry | None = None


class RequeueError(Exception):
    """Raised by a reconcile to be called again, after `after` seconds or with backoff; logged at level debug."""

    def __init__(self, reason: str = "", *, after: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.after = after


class TerminalError(Exception):
    """Raised by a reconcile for an error that a retry cannot fix; there is no retry until the next event.

    `reason` is a CamelCase word for conditions and Events.
    """

    def __init__(self, message: str, *, reason: str = "TerminalError") -> None:
        super().__init__(message)
        self.reason = reason
