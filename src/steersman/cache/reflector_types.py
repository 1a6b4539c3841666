"""The types of the reflector's state machine: its state, its events and its effects, all frozen values."""

from __future__ import annotations

from enum import Enum
from typing import Literal, TypeAlias

import msgspec

__all__ = [
    "Begin",
    "Clear",
    "Commit",
    "Continue",
    "Discard",
    "Effect",
    "Ended",
    "Event",
    "Failed",
    "Failure",
    "ForgetWatchList",
    "InitialEnd",
    "OpenStream",
    "PageRead",
    "Phase",
    "Progressed",
    "ReadPage",
    "Report",
    "Sleep",
    "Slept",
    "Start",
    "State",
    "Stop",
]


class Phase(Enum):
    """The phase of a reflector."""

    STARTING = "starting"
    STREAMING = "streaming the initial events"
    LISTING = "listing"
    WATCHING = "watching"
    BACKING_OFF = "backing off"
    PARKED = "parked"
    STOPPED = "stopped"


class Failure(Enum):
    """The classes of failures between which the reflector distinguishes."""

    EXPIRED = "expired"
    """410 as a status, as an ERROR event, or on a continue token."""
    MISSING = "missing"
    """404: the kind is not served."""
    REFUSED = "refused"
    """The server does not understand the request (400, 405, 406, 415, 422, 501)."""
    FORBIDDEN = "forbidden"
    """401 or 403."""
    THROTTLED = "throttled"
    """429."""
    UNINITIALIZED = "uninitialized"
    """429 from an API server whose watch cache of the kind is not filled yet. A list in pages does not need this cache.
    Source: KEP-4568."""
    UNREACHABLE = "unreachable"
    """No connection, a lost connection, or a server error."""
    SILENT = "silent"
    """Neither event nor bookmark for longer than the bookmark interval of a healthy server."""
    MALFORMED = "malformed"
    """The bytes are not JSON of the expected structure."""


class _Value(msgspec.Struct, frozen=True, gc=False):
    pass


class State(_Value, frozen=True, gc=False, kw_only=True):
    """The state of a reflector."""

    phase: Phase = Phase.STARTING
    then: Phase = Phase.STARTING
    """The phase after the backoff."""
    version: str = ""
    """The newest resourceVersion; it decreases only when the list of a restored cluster is accepted (W1, W3)."""
    continue_: str = ""
    synced: bool = False
    """Whether a list has been committed."""
    watch_list: bool = True
    """Whether WatchList is tried (W2)."""
    failures: int = 0
    """Failures in a row."""
    opened: float = 0.0
    """The time at which the current stream was opened."""
    progressed: bool = False
    """Whether the current stream has delivered any event or bookmark."""
    healthy_since: float | None = None
    expired: bool = False
    """Whether there was a 410 since the last event or bookmark of a watch."""
    missing: int = 0
    """404s in a row."""
    stale: int = 0
    """Lists rejected in a row because they were older than the content."""
    endless: int = 0
    """Initial streams in a row that ended before their closing bookmark."""
    malformed: bool = False
    """Whether the bytes after `version` were malformed once before."""


# Events.


class Start(_Value, frozen=True, gc=False):
    """The reflector shall run."""


class PageRead(_Value, frozen=True, gc=False):
    """A page of a list was staged; an empty `continue_` marks the last page."""

    version: str
    continue_: str
    at: float


class InitialEnd(_Value, frozen=True, gc=False):
    """The bookmark arrived that ends the initial events."""

    version: str
    at: float


class Progressed(_Value, frozen=True, gc=False):
    """Events or bookmarks up to `version` were processed; `""` during the initial events."""

    version: str
    at: float


class Ended(_Value, frozen=True, gc=False):
    """The stream ended without an error."""

    at: float


class Failed(_Value, frozen=True, gc=False):
    """The attempt failed."""

    failure: Failure
    message: str
    at: float
    retry_after: float = 0.0


class Slept(_Value, frozen=True, gc=False):
    """The backoff is over."""

    at: float


class Stop(_Value, frozen=True, gc=False):
    """The reflector shall end."""


Event: TypeAlias = Start | PageRead | InitialEnd | Progressed | Ended | Failed | Slept | Stop

# Effects. The last effect of a step is its only I/O, whose outcome is the next event.


class Begin(_Value, frozen=True, gc=False):
    """Start to stage a list."""


class Commit(_Value, frozen=True, gc=False):
    """Replace the content with the staged list, call the handlers with the changes, and mark it as synced."""

    version: str


class Discard(_Value, frozen=True, gc=False):
    """Drop the staged list."""


class Clear(_Value, frozen=True, gc=False):
    """Empty the store and call the handlers with deletes, because the kind is gone (W10)."""


class ForgetWatchList(_Value, frozen=True, gc=False):
    """Remember that this server does not support WatchList."""


class Report(_Value, frozen=True, gc=False):
    """Log an event; warnings also become the informer's `problem`."""

    level: Literal["debug", "info", "warning"]
    event: str
    problem: str = ""


class ReadPage(_Value, frozen=True, gc=False):
    """Read one page of the most recent list, or the page of a continue token."""

    limit: int
    continue_: str


class OpenStream(_Value, frozen=True, gc=False):
    """Watch from `version`; with `initial`, start with all objects."""

    version: str
    initial: bool = False


class Sleep(_Value, frozen=True, gc=False):
    """Wait `seconds` plus a random jitter of up to half of it; then `Slept`."""

    seconds: float


class Continue(_Value, frozen=True, gc=False):
    """Continue to read the current stream."""


Effect: TypeAlias = (
    Begin | Commit | Discard | Clear | ForgetWatchList | Report | ReadPage | OpenStream | Sleep | Continue
)
