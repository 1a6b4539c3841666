"""The reflector as a pure state machine: which list or watch to do next, and what to do about each way it can end.

`step(state, event) -> (state, effects)` decides; `shell.py` performs. No clock, no randomness and no I/O here: times
come in with events, and delays leave as effects that the shell jitters. The objects themselves never pass through.

    STARTING -> STREAMING (WatchList) or LISTING (pages) -> WATCHING, with BACKING_OFF between attempts and PARKED
    while the server does not serve the kind; STOPPED from anywhere.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from steersman.cache.versions import older

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
    "step",
]

FIRST_DELAY: Final = 0.8
LAST_DELAY: Final = 30.0
HEALTHY_AFTER: Final = 120.0
"""Seconds of health after which the next failure counts as the first (W6)."""
PAGE: Final = 500
BRIEF: Final = 1.0
"""A stream that ends within this many seconds, having said nothing, counts as a failure."""
REFUSED_STALE_LISTS: Final = 5
"""The most recent list is older than what was seen: refused this often, then believed. Each is a consistent read, so
by then the cluster has been restored from a backup, and waiting would last for ever."""


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
_Step: TypeAlias = tuple[State, tuple[Effect, ...]]

_GO_ON: Final[tuple[Effect, ...]] = (Continue(),)


def step(state: State, event: Event) -> _Step:  # noqa: C901 - one table
    """What to do after `event`; raises `ValueError` for an event that cannot happen in the present phase."""
    match event, state.phase:
        case Progressed(), Phase.WATCHING | Phase.STREAMING:
            return _progressed(state, event), _GO_ON
        case _, Phase.STOPPED:
            return state, ()
        case Stop(), _:
            return replace(state, phase=Phase.STOPPED), (Discard(),)
        case Start(), Phase.STARTING:
            return _fresh(state)
        case PageRead(), Phase.LISTING:
            return _page_read(state, event)
        case InitialEnd(), Phase.STREAMING:
            return _initial_end(state, event)
        case Ended(), Phase.WATCHING:
            return _watch_ended(state, event)
        case Ended(), Phase.STREAMING:
            return _endless(state, event.at, "the stream ended before its initial events did")
        case Failed(), Phase.LISTING | Phase.STREAMING | Phase.WATCHING:
            return _failed(state, event)
        case Slept(), Phase.BACKING_OFF | Phase.PARKED:
            return _slept(state, event)
        case _:
            raise ValueError(f"a reflector that is {state.phase.value} cannot take {event!r}")


def backoff(failures: int) -> float:
    """Seconds before the next attempt after so many failures in a row, without jitter (W6)."""
    return min(LAST_DELAY, FIRST_DELAY * 2.0 ** min(failures, 16))


def _fresh(state: State, *before: Effect) -> _Step:
    # Always of the most recent state, never of resourceVersion 0 (W1): a server that lags would take us back.
    if state.watch_list:
        return (
            replace(state, phase=Phase.STREAMING, continue_="", progressed=False),
            (*before, Begin(), OpenStream("", initial=True)),
        )
    return replace(state, phase=Phase.LISTING, continue_=""), (*before, Begin(), ReadPage(PAGE, ""))


def _progressed(state: State, event: Progressed) -> State:
    if state.phase is Phase.STREAMING:
        return state if state.progressed else replace(state, progressed=True)
    healthy = event.at if state.healthy_since is None else state.healthy_since
    failures = 0 if event.at - healthy >= HEALTHY_AFTER else state.failures
    version = state.version if not event.version or older(event.version, state.version) else event.version
    return replace(
        state,
        version=version,
        progressed=True,
        healthy_since=healthy,
        failures=failures,
        expired=False,
        malformed=False,
    )


def _page_read(state: State, event: PageRead) -> _Step:
    if event.continue_:
        return replace(state, continue_=event.continue_), (ReadPage(PAGE, event.continue_),)
    if _is_stale(state, event.version):
        return _refuse_stale(state, event.version, event.at)
    effects = _committed(state, event.version)
    return (
        replace(_after_commit(state, event.version), opened=event.at, progressed=False),
        (*effects, OpenStream(event.version)),
    )


def _initial_end(state: State, event: InitialEnd) -> _Step:
    if _is_stale(state, event.version):
        return _refuse_stale(state, event.version, event.at)
    return (
        replace(_after_commit(state, event.version), healthy_since=event.at, progressed=True),
        (*_committed(state, event.version), Continue()),
    )


def _after_commit(state: State, version: str) -> State:
    return replace(
        state,
        phase=Phase.WATCHING,
        version=version,
        continue_="",
        synced=True,
        missing=0,
        stale=0,
        endless=0,
        malformed=False,
    )


def _committed(state: State, version: str) -> tuple[Effect, ...]:
    commit = Commit(version)
    if state.missing:
        return commit, Report("info", "the kind is served now")
    if state.failures:
        return commit, Report("info", "listed again after failures")
    return (commit,)


def _is_stale(state: State, version: str) -> bool:
    return older(version, state.version) and state.stale < REFUSED_STALE_LISTS


def _refuse_stale(state: State, version: str, at: float) -> _Step:
    problem = f"the server lists resourceVersion {version}, but {state.version} has been seen"
    state = replace(state, stale=state.stale + 1)
    return _back_off(
        state, Phase.STARTING, at, "a list older than what was seen is refused", problem, before=(Discard(),)
    )


def _watch_ended(state: State, event: Ended) -> _Step:
    if not state.progressed and event.at - state.opened < BRIEF:
        return _back_off(state, Phase.WATCHING, event.at, "the watch ended at once", "")
    return _reopen(state, event.at)


def _reopen(state: State, at: float) -> _Step:
    return replace(state, phase=Phase.WATCHING, opened=at, progressed=False), (OpenStream(state.version),)


def _endless(state: State, at: float, problem: str) -> _Step:
    # A server without the feature may ignore sendInitialEvents and never send the closing bookmark.
    state = replace(state, endless=state.endless + 1)
    if state.endless >= 2:
        state = replace(state, watch_list=False, endless=0)
        return _fresh(state, Discard(), Report("info", "lists in pages from now on", problem))
    return _back_off(state, Phase.STARTING, at, "the initial events did not end", problem, before=(Discard(),))


def _failed(state: State, event: Failed) -> _Step:
    match event.failure:
        case Failure.EXPIRED:
            return _expired(state, event)
        case Failure.MISSING:
            return _missing(state, event)
        case Failure.REFUSED if state.phase is Phase.STREAMING:
            note = Report("info", "the server has no WatchList: lists in pages from now on", event.message)
            return _fresh(replace(state, watch_list=False), Discard(), ForgetWatchList(), note)
        case Failure.REFUSED if state.phase is Phase.WATCHING:
            return _back_off(state, Phase.STARTING, event.at, "the watch is refused", event.message)
        case Failure.FORBIDDEN if state.phase is Phase.STREAMING and not state.endless:
            # Who may list but not watch still gets a list, and then the clearer of the two messages.
            return _fresh(replace(state, watch_list=False), Discard())
        case Failure.SILENT if state.phase is Phase.STREAMING:
            return _endless(state, event.at, event.message)
        case Failure.SILENT if state.progressed:
            return _reopen(state, event.at)
        case Failure.MALFORMED if state.phase is Phase.WATCHING and not state.malformed:
            return _back_off(
                replace(state, malformed=True), Phase.WATCHING, event.at, "the watch is malformed", event.message
            )
        case Failure.MALFORMED:
            return _back_off(
                replace(state, malformed=False),
                Phase.STARTING,
                event.at,
                "what the server sends is malformed",
                event.message,
                before=(Discard(),),
            )
        case _:
            return _retry(state, event)


def _retry(state: State, event: Failed) -> _Step:
    said = "the watch broke" if state.phase is Phase.WATCHING else "cannot list"
    if state.phase is Phase.STREAMING:
        return _back_off(
            state, Phase.STARTING, event.at, said, event.message, before=(Discard(),), least=event.retry_after
        )
    return _back_off(state, state.phase, event.at, said, event.message, least=event.retry_after)


def _expired(state: State, event: Failed) -> _Step:
    repeated = state.expired
    state = replace(state, expired=True)
    if not repeated:
        note = Report("debug", "the position is too old: lists afresh", event.message)
        return _fresh(state, Discard(), note)
    return _back_off(
        state, Phase.STARTING, event.at, "the position expires at once", event.message, before=(Discard(),)
    )


def _missing(state: State, event: Failed) -> _Step:
    state = replace(state, missing=state.missing + 1)
    if state.synced and state.missing == 1:
        # One 404 may be a server that is only starting; emptying a store is not for one doubtful answer.
        return _back_off(state, Phase.STARTING, event.at, "the kind may be gone", event.message, before=(Discard(),))
    if state.synced and state.missing == 2:
        told: tuple[Effect, ...] = (Clear(), Report("warning", "the kind is gone: its objects are too", event.message))
    elif state.missing == 1:
        told = (Report("warning", "the kind is not served yet: waiting for its definition", event.message),)
    else:
        told = ()
    delay = backoff(state.failures)
    state = replace(state, phase=Phase.PARKED, failures=state.failures + 1, healthy_since=None)
    return state, (Discard(), *told, Sleep(delay))


def _back_off(
    state: State,
    then: Phase,
    at: float,
    event: str,
    problem: str,
    *,
    before: tuple[Effect, ...] = (),
    least: float = 0.0,
) -> _Step:
    healthy = state.healthy_since is not None and at - state.healthy_since >= HEALTHY_AFTER
    failures = 0 if healthy else state.failures
    note = Report("debug" if failures else "warning", event, problem)
    return (
        replace(state, phase=Phase.BACKING_OFF, then=then, failures=failures + 1, healthy_since=None),
        (*before, note, Sleep(max(least, backoff(failures)))),
    )


def _slept(state: State, event: Slept) -> _Step:
    if state.phase is Phase.PARKED or state.then is Phase.STARTING:
        return _fresh(state)
    if state.then is Phase.LISTING:
        return replace(state, phase=Phase.LISTING), (ReadPage(PAGE, state.continue_),)
    return _reopen(state, event.at)
