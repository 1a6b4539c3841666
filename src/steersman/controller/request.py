"""What a reconcile is given and what it may answer: `Request`, `Result`, `RequeueError`, `TerminalError`.

Plain values and two exceptions; the worker loop gives them their meaning.
"""

from __future__ import annotations

from typing import Any

import msgspec

from steersman.controller.protocols import Entry
from steersman.models import Key

__all__ = ["Request", "RequeueError", "Result", "StatusWritten", "TerminalError"]


class Request(msgspec.Struct, frozen=True, gc=False):
    """One run of a reconcile: which object, why, and which attempt in a row it is (from 1).

    `reasons` names what led here ("Deployment updated", "requeue-after", "retry"); it is for people and logs. A
    reconcile decides by what it reads, never by a reason. `reconcile_id` is unique in the cluster for all practical
    purposes and joins log lines, Events and traces.
    """

    key: Key
    reasons: tuple[str, ...] = ()
    attempt: int = 1
    reconcile_id: str = ""


class Result(msgspec.Struct, frozen=True):
    """A successful reconcile: look again in `requeue_after` seconds; `status` is written if it is given."""

    requeue_after: float | None = None
    status: Any = None


class StatusWritten(Result, frozen=True, kw_only=True):
    """A result whose `status` has been written by whoever wraps the reconcile.

    `resource_version` is what the write left. That write, coming back through the watch, does not wake the controller
    where `before`, what it was given, is known: the object of that `uid`. It is `None` where nothing was written.
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
    """Retrying cannot help: reported and counted once, then left alone until the object or a child changes.

    `reason` is a CamelCase word for conditions and Events.
    """

    def __init__(self, message: str, *, reason: str = "TerminalError") -> None:
        super().__init__(message)
        self.reason = reason
