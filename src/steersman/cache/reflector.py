"""The reflector as a pure state machine: decides the next list or watch, and the reaction to each of its outcomes.

`step(state, event) -> (state, effects)` decides; `reflector_loop.py` performs the effects. There is no clock, no
randomness and no I/O here: events carry times, and effects carry delays, to which the loop adds jitter. The objects
themselves do not pass through.

    STARTING -> STREAMING (WatchList) or LISTING (pages) -> WATCHING, with BACKING_OFF between attempts and PARKED
    while the server does not serve the kind; STOPPED from anywhere.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec.structs import replace

from steersman.cache.reflector_types import (
    Begin,
    Clear,
    Commit,
    Continue,
    Discard,
    Effect,
    Ended,
    Event,
    Failed,
    Failure,
    ForgetWatchList,
    InitialEnd,
    OpenStream,
    PageRead,
    Phase,
    Progressed,
    ReadPage,
    Report,
    Sleep,
    Slept,
    Start,
    State,
    Stop,
)
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

BACKOFF_MIN_SECONDS: Final = 0.8
BACKOFF_MAX_SECONDS: Final = 30.0
HEALTHY_AFTER_SECONDS: Final = 120.0
"""Seconds of a running watch after which the next failure counts as the first (W6)."""
LIST_PAGE_LIMIT: Final = 500
SHORT_STREAM_SECONDS: Final = 1.0
"""A stream that ends within this time without any event or bookmark counts as a failure."""
MAX_STALE_LISTS: Final = 5
"""Lists in a row that are rejected because they are older than the content. The next one is accepted: all are
consistent reads, so the cluster has been restored from a backup."""


_Step: TypeAlias = tuple[State, tuple[Effect, ...]]

_CONTINUE: Final[tuple[Effect, ...]] = (Continue(),)


def step(state: State, event: Event) -> _Step:  # noqa: C901 - one table
    """Return the next state and the effects of `event`.

    Raises:
        ValueError: The event cannot happen in the current phase.
    """
    match event, state.phase:
        case Progressed(), Phase.WATCHING | Phase.STREAMING:
            return _progressed(state, event), _CONTINUE
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
    """Return the seconds to the next attempt after so many failures in a row, without jitter (W6)."""
    return min(BACKOFF_MAX_SECONDS, BACKOFF_MIN_SECONDS * 2.0 ** min(failures, 16))


def _fresh(state: State, *before: Effect) -> _Step:
    # Always the most recent state, never resourceVersion 0 (W1): a server that lags could return older objects.
    if state.watch_list:
        return (
            replace(state, phase=Phase.STREAMING, continue_="", progressed=False),
            (*before, Begin(), OpenStream("", initial=True)),
        )
    return _listing(state, *before)


def _listing(state: State, *before: Effect) -> _Step:
    return replace(state, phase=Phase.LISTING, continue_=""), (*before, Begin(), ReadPage(LIST_PAGE_LIMIT, ""))


def _progressed(state: State, event: Progressed) -> State:
    if state.phase is Phase.STREAMING:
        return state if state.progressed else replace(state, progressed=True)
    healthy = event.at if state.healthy_since is None else state.healthy_since
    failures = 0 if event.at - healthy >= HEALTHY_AFTER_SECONDS else state.failures
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
        return replace(state, continue_=event.continue_), (ReadPage(LIST_PAGE_LIMIT, event.continue_),)
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
        return commit, Report("info", "kind_served")
    if state.failures:
        return commit, Report("info", "list_recovered")
    return (commit,)


def _is_stale(state: State, version: str) -> bool:
    return older(version, state.version) and state.stale < MAX_STALE_LISTS


def _refuse_stale(state: State, version: str, at: float) -> _Step:
    problem = f"the server lists resourceVersion {version}, but {state.version} has been seen"
    state = replace(state, stale=state.stale + 1)
    return _back_off(state, Phase.STARTING, at, "stale_list_rejected", problem, before=(Discard(),))


def _watch_ended(state: State, event: Ended) -> _Step:
    if not state.progressed and event.at - state.opened < SHORT_STREAM_SECONDS:
        return _back_off(state, Phase.WATCHING, event.at, "watch_ended_early", "")
    return _reopen(state, event.at)


def _reopen(state: State, at: float) -> _Step:
    return replace(state, phase=Phase.WATCHING, opened=at, progressed=False), (OpenStream(state.version),)


def _endless(state: State, at: float, problem: str) -> _Step:
    # A server without the feature may ignore sendInitialEvents and never send the closing bookmark.
    state = replace(state, endless=state.endless + 1)
    if state.endless >= 2:
        state = replace(state, watch_list=False, endless=0)
        return _fresh(state, Discard(), Report("info", "watch_list_disabled", problem))
    return _back_off(state, Phase.STARTING, at, "initial_events_incomplete", problem, before=(Discard(),))


def _failed(state: State, event: Failed) -> _Step:
    match event.failure:
        case Failure.EXPIRED:
            return _expired(state, event)
        case Failure.MISSING:
            return _missing(state, event)
        case Failure.REFUSED if state.phase is Phase.STREAMING:
            note = Report("info", "watch_list_unsupported", event.message)
            return _fresh(replace(state, watch_list=False), Discard(), ForgetWatchList(), note)
        case Failure.REFUSED if state.phase is Phase.WATCHING:
            return _back_off(state, Phase.STARTING, event.at, "watch_refused", event.message)
        case Failure.FORBIDDEN if state.phase is Phase.STREAMING and not state.endless:
            # A user that may list but not watch gets a list, and then the clearer of the two errors.
            return _fresh(replace(state, watch_list=False), Discard())
        case Failure.SILENT if state.phase is Phase.STREAMING:
            return _endless(state, event.at, event.message)
        case Failure.SILENT if state.progressed:
            return _reopen(state, event.at)
        case Failure.MALFORMED:
            return _malformed(state, event)
        case _:
            return _retry(state, event)


def _malformed(state: State, event: Failed) -> _Step:
    if state.phase is Phase.WATCHING and not state.malformed:
        return _back_off(replace(state, malformed=True), Phase.WATCHING, event.at, "watch_malformed", event.message)
    state = replace(state, malformed=False)
    return _back_off(state, Phase.STARTING, event.at, "response_malformed", event.message, before=(Discard(),))


def _retry(state: State, event: Failed) -> _Step:
    report = "watch_failed" if state.phase is Phase.WATCHING else "list_failed"
    if state.phase is Phase.STREAMING:
        if event.failure is Failure.UNINITIALIZED and not state.failures:
            return _listing(state, Discard())
        return _back_off(
            state,
            Phase.STARTING,
            event.at,
            report,
            event.message,
            before=(Discard(),),
            least=event.retry_after,
        )
    return _back_off(state, state.phase, event.at, report, event.message, least=event.retry_after)


def _expired(state: State, event: Failed) -> _Step:
    repeated = state.expired
    state = replace(state, expired=True)
    if not repeated:
        note = Report("debug", "resource_version_expired", event.message)
        return _fresh(state, Discard(), note)
    return _back_off(
        state, Phase.STARTING, event.at, "resource_version_expired_again", event.message, before=(Discard(),)
    )


def _missing(state: State, event: Failed) -> _Step:
    state = replace(state, missing=state.missing + 1)
    if state.synced and state.missing == 1:
        # A server that is starting may respond with 404 once, so the store is emptied only at the second one.
        return _back_off(state, Phase.STARTING, event.at, "kind_not_found", event.message, before=(Discard(),))
    if state.synced and state.missing == 2:
        told: tuple[Effect, ...] = (Clear(), Report("warning", "kind_removed", event.message))
    elif state.missing == 1:
        told = (Report("warning", "kind_not_served", event.message),)
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
    healthy = state.healthy_since is not None and at - state.healthy_since >= HEALTHY_AFTER_SECONDS
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
        return replace(state, phase=Phase.LISTING), (ReadPage(LIST_PAGE_LIMIT, state.continue_),)
    return _reopen(state, event.at)
