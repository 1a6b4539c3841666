"""The reflector's vocabulary: its state, what can happen to it, and what it can ask for. Plain frozen values."""

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
    """Where a reflector is."""

    STARTING = "starting"
    STREAMING = "streaming the initial events"
    LISTING = "listing"
    WATCHING = "watching"
    BACKING_OFF = "backing off"
    PARKED = "parked"
    STOPPED = "stopped"


class Failure(Enum):
    """Why an attempt failed, as far as it matters for what to do next."""

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
    UNREACHABLE = "unreachable"
    """No connection, a broken one, or a server error."""
    SILENT = "silent"
    """Neither event nor bookmark for longer than a living server is silent."""
    MALFORMED = "malformed"
    """Bytes that are no JSON of the expected frame."""


class _Value(msgspec.Struct, frozen=True, gc=False):
    pass


class State(_Value, frozen=True, gc=False, kw_only=True):
    """All that a reflector knows."""

    phase: Phase = Phase.STARTING
    then: Phase = Phase.STARTING
    """What follows after a back-off."""
    version: str = ""
    """The newest resourceVersion seen; never goes back but when a restored cluster is believed (W1, W3)."""
    continue_: str = ""
    synced: bool = False
    """Whether a whole content has been committed once."""
    watch_list: bool = True
    """Whether WatchList is tried (W2)."""
    failures: int = 0
    """Failures in a row."""
    opened: float = 0.0
    """When the present stream was opened."""
    progressed: bool = False
    """Whether the present stream has said anything."""
    healthy_since: float | None = None
    expired: bool = False
    """Whether there was a 410 since the last progress of a watch."""
    missing: int = 0
    """404s in a row."""
    stale: int = 0
    """Lists refused in a row for being older than what was seen."""
    endless: int = 0
    """Initial streams in a row that ended before their closing bookmark."""
    malformed: bool = False
    """Whether the bytes after `version` were malformed once already."""


# Events.


class Start(_Value, frozen=True, gc=False):
    """The reflector is to run."""


class PageRead(_Value, frozen=True, gc=False):
    """A page of a list was staged; an empty `continue_` says it was the last."""

    version: str
    continue_: str
    at: float


class InitialEnd(_Value, frozen=True, gc=False):
    """The bookmark that ends the initial events."""

    version: str
    at: float


class Progressed(_Value, frozen=True, gc=False):
    """Events or bookmarks up to `version` were taken in; `""` while initial events come in."""

    version: str
    at: float


class Ended(_Value, frozen=True, gc=False):
    """The stream ended in order."""

    at: float


class Failed(_Value, frozen=True, gc=False):
    """The attempt failed."""

    failure: Failure
    message: str
    at: float
    retry_after: float = 0.0


class Slept(_Value, frozen=True, gc=False):
    """The back-off is over."""

    at: float


class Stop(_Value, frozen=True, gc=False):
    """The reflector is to end."""


Event: TypeAlias = Start | PageRead | InitialEnd | Progressed | Ended | Failed | Slept | Stop

# Effects. The last of a step's effects is the one piece of I/O whose outcome is the next event.


class Begin(_Value, frozen=True, gc=False):
    """Start to collect a new content."""


class Commit(_Value, frozen=True, gc=False):
    """Swap the collected content in, tell the handlers how it differs, and be synced."""

    version: str


class Discard(_Value, frozen=True, gc=False):
    """Forget the collected content."""


class Clear(_Value, frozen=True, gc=False):
    """Empty the store, with deletes to the handlers: the kind is gone (W10)."""


class ForgetWatchList(_Value, frozen=True, gc=False):
    """Remember that this server has no WatchList."""


class Report(_Value, frozen=True, gc=False):
    """Say what happened."""

    level: Literal["debug", "info", "warning"]
    event: str
    problem: str = ""


class ReadPage(_Value, frozen=True, gc=False):
    """Read one page of the most recent list, or the one that a token continues."""

    limit: int
    continue_: str


class OpenStream(_Value, frozen=True, gc=False):
    """Watch from `version`; with `initial`, for the whole content first."""

    version: str
    initial: bool = False


class Sleep(_Value, frozen=True, gc=False):
    """Wait `seconds`, made longer by up to half of it at random; then `Slept`."""

    seconds: float


class Continue(_Value, frozen=True, gc=False):
    """Go on reading the present stream."""


Effect: TypeAlias = (
    Begin | Commit | Discard | Clear | ForgetWatchList | Report | ReadPage | OpenStream | Sleep | Continue
)
