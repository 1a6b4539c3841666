"""The reflector loop: performs the effects of the reflector's state machine with the event loop's clock and streams.

It uses one task per informer and one timer per stream, and none per event. Errors of the server or of handlers do not
end it; it runs until it is cancelled.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final

from msgspec.structs import replace

from steersman.cache.informer import Informer
from steersman.cache.lines import MalformedStreamError
from steersman.cache.listwatch import ListWatch
from steersman.cache.reflector import (
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
    step,
)
from steersman.cache.stream_reader import StreamReader, Watchdog
from steersman.client.errors import (
    ApiError,
    BadRequest,
    ClientError,
    Expired,
    Forbidden,
    Invalid,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    TooManyRequests,
    Unauthorized,
    UnsupportedMediaType,
)
from steersman.client.transport import deliver
from steersman.telemetry.log import get_logger

__all__ = ["ReflectorLoop", "ServerFeatures", "classify_failure"]

WATCH_TIMEOUT_SECONDS: Final = (40.0, 48.0)
"""The range of a watch's timeoutSeconds. The server sends a bookmark before it ends a watch, so the version stays
recent without events. A stream that is silent for longer than this is dead (W7)."""
INITIAL_WATCH_TIMEOUT_SECONDS: Final = (300.0, 600.0)
"""The range of timeoutSeconds of a watch that starts with all objects."""
SILENCE_MARGIN_SECONDS: Final = 10.0
UNCOMPRESSED_SECONDS: Final = 5.0
"""Seconds for which new records stay uncompressed: most objects that change are read, or change again, by then."""
COMPRESS_MAX_OBJECTS: Final = 10
"""Objects that are compressed in one pass, in about 0.1 ms. Events wait for the pass, so it must be short."""
COMPRESS_MAX_BYTES: Final = 16 * 1024
"""Bytes that are compressed in one pass, so that large objects are compressed one at a time."""
COMPRESS_INTERVAL_SECONDS: Final = 0.002
_UNINITIALIZED: Final = "storage is (re)initializing"
"""The message of an API server whose watch cache of a kind is not filled yet."""
_SUMMARIES: Final = {
    "initial_events_incomplete": "the initial events did not end",
    "kind_not_found": "the server does not serve the kind now",
    "kind_not_served": "the kind is not served yet",
    "kind_removed": "the kind is not served any more",
    "list_failed": "cannot list",
    "resource_version_expired_again": "the resourceVersion of a new list has expired",
    "response_malformed": "the response is malformed",
    "stale_list_rejected": "a list older than the content was rejected",
    "watch_ended_early": "the watch ended without an event",
    "watch_failed": "the watch failed",
    "watch_malformed": "the watch is malformed",
    "watch_refused": "the server rejected the watch",
}
"""Texts of `Informer.problem` for the warnings of the reflector."""
_log = get_logger("cache")


class ServerFeatures:
    """The features of one API server, shared by all its reflectors."""

    __slots__ = ("watch_list",)

    def __init__(self) -> None:
        self.watch_list = True
        """False after the server has rejected a WatchList (W2)."""


class ReflectorLoop:
    """Keeps one informer current from one `ListWatch`."""

    def __init__(self, informer: Informer, source: ListWatch, *, server: ServerFeatures, rng: random.Random) -> None:
        self._informer = informer
        self._source = source
        self._server = server
        self.state = self._initial_state()
        self._rng = rng
        self._compression_timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """List and watch until cancelled."""
        self.state = self._initial_state()
        try:
            effect = await self._advance(Start())
            while True:
                match effect:
                    case ReadPage():
                        effect = await self._advance(await self._read_page(effect))
                    case OpenStream():
                        effect = await self._stream(effect)
                    case Sleep(seconds=seconds):
                        await asyncio.sleep(seconds * (1.0 + 0.5 * self._rng.random()))
                        effect = await self._advance(Slept(self._loop.time()))
                    case _:
                        return
        finally:
            self.state, _ = step(self.state, Stop())
            self._informer.discard()
            if self._compression_timer is not None:
                self._compression_timer.cancel()

    def _initial_state(self) -> State:
        # An informer that widens has content already, and a list must not be older.
        version = self._informer.version
        return State(watch_list=self._server.watch_list, version=version, synced=bool(version))

    async def _advance(self, event: Event) -> Effect:
        """Advance the state machine, perform the local effects, and return the last effect, which does I/O."""
        informer = self._informer
        if isinstance(event, Failed):
            informer.metrics.failed(event.failure.value)
        if not self._server.watch_list and self.state.watch_list:
            self.state = replace(self.state, watch_list=False)  # another reflector has found out
        self.state, effects = step(self.state, event)
        informer.parked = self.state.phase is Phase.PARKED
        for effect in effects[:-1]:
            match effect:
                case Begin():
                    informer.begin()
                case Commit(version=version):
                    await informer.commit(version)
                    informer.problem = ""
                case Discard():
                    informer.discard()
                case Clear():
                    await informer.clear()
                case ForgetWatchList():
                    self._server.watch_list = False
                case Report():
                    self._report(effect)
                case _:
                    raise AssertionError(f"{effect!r} must be the last of its step")
        return effects[-1]

    def _report(self, report: Report) -> None:
        informer = self._informer
        if report.level == "warning" or informer.problem:
            summary = _SUMMARIES.get(report.event, report.event)
            informer.problem = f"{summary}: {report.problem}" if report.problem else summary
        if report.level == "info":
            informer.problem = ""
        say = {"debug": _log.debug, "info": _log.info, "warning": _log.warning}[report.level]
        details = {"problem": report.problem} if report.problem else {}
        say(report.event, kind=informer.kind, scope=str(informer.scope), **details)

    async def _read_page(self, effect: ReadPage) -> Event:
        time = asyncio.get_running_loop().time
        try:
            page = await self._source.list_page(
                limit=effect.limit, continue_=effect.continue_, resource_version="", match=""
            )
            version, token = self._informer.stage_page(page)
        except Exception as problem:  # noqa: BLE001 - every failure leads to a retry
            return self._failed(problem, time())
        return PageRead(version, token, time())

    async def _stream(self, effect: OpenStream) -> Effect:
        """Read one stream until it ends or another effect is due, which is returned."""
        seconds = self._rng.uniform(*(INITIAL_WATCH_TIMEOUT_SECONDS if effect.initial else WATCH_TIMEOUT_SECONDS))
        limit = WATCH_TIMEOUT_SECONDS[1] + SILENCE_MARGIN_SECONDS
        deadline = asyncio.timeout(None)
        watchdog = Watchdog(limit, deadline)
        time = asyncio.get_running_loop().time
        try:
            async with deadline:
                left = await self._read_stream(effect, seconds, watchdog)
            if left is not None:
                return left
            event: Event = Ended(time())
        except Exception as problem:  # noqa: BLE001 - every failure leads to a retry
            if isinstance(problem, TimeoutError) and deadline.expired():
                event = Failed(Failure.SILENT, f"neither event nor bookmark for {limit:.0f} s", time())
            else:
                event = self._failed(problem, time())
        finally:
            watchdog.stop()
        # A failure between two lines must not lose the version that the lines before it have reached.
        if self.state.phase is Phase.WATCHING and (
            self.state.progressed or self._informer.version != self.state.version
        ):
            self._note_progress(watchdog.last)
        return await self._advance(event)

    async def _read_stream(self, effect: OpenStream, seconds: float, watchdog: Watchdog) -> Effect | None:
        stream = self._source.watch(
            resource_version=effect.version, send_initial_events=effect.initial, timeout=seconds
        )
        async with stream as chunks:
            reading = StreamReader(self._informer, watchdog, self._record_received, collects=effect.initial)
            while await deliver(chunks, reading.take):
                while (fed := reading.fed) is not None:
                    left = await self._advance(InitialEnd(fed.version, self._loop.time()))
                    if not isinstance(left, Continue):
                        return left
                    reading.collects = False
                    reading.go_on(fed.rest)
                await reading.pause()
        return None

    def _record_received(self) -> None:
        """Handle new lines of the informer."""
        if not self.state.progressed:  # the version is recorded when the stream ends
            self._note_progress(self._loop.time())
        if self._compression_timer is None and len(records := self._informer.store.uncompressed):
            self._compression_timer = self._loop.call_later(
                UNCOMPRESSED_SECONDS, self._compress, records.current_batch()
            )
        if self._informer.problem:
            self._recovered()

    def _compress(self, batch: int) -> None:
        """Compress the records that are old enough, one pass at a time."""
        self._compression_timer = None
        store = self._informer.store
        if store.compress(COMPRESS_MAX_OBJECTS, COMPRESS_MAX_BYTES, batch):
            self._compression_timer = self._loop.call_later(COMPRESS_INTERVAL_SECONDS, self._compress, batch)
        elif len(store.uncompressed):
            self._compression_timer = self._loop.call_later(
                UNCOMPRESSED_SECONDS, self._compress, store.uncompressed.current_batch()
            )

    def _note_progress(self, at: float) -> None:
        """Record in the state the informer's version, which it reached at the time `at`."""
        self.state, _ = step(self.state, Progressed(self._informer.version, at))

    def _recovered(self) -> None:
        if self.state.phase is Phase.WATCHING:
            self._informer.problem = ""
            _log.info("watch_recovered", kind=self._informer.kind, scope=str(self._informer.scope))

    def _failed(self, problem: Exception, at: float) -> Failed:
        failure = classify_failure(problem)
        if failure is Failure.UNREACHABLE and not isinstance(problem, ClientError):
            _log.exception("watch_failed_unexpectedly", kind=self._informer.kind)
        wait = problem.retry_after if isinstance(problem, ApiError) else None
        return Failed(failure, str(problem) or type(problem).__name__, at, wait or 0.0)


def classify_failure(problem: Exception) -> Failure:
    """Return the class of failure of an exception."""
    match problem:
        case MalformedStreamError():
            return Failure.MALFORMED
        case Expired():
            return Failure.EXPIRED
        case NotFound():
            return Failure.MISSING
        case TooManyRequests() if _UNINITIALIZED in str(problem):
            return Failure.UNINITIALIZED
        case TooManyRequests():
            return Failure.THROTTLED
        case Unauthorized() | Forbidden():
            return Failure.FORBIDDEN
        case BadRequest() | MethodNotAllowed() | NotAcceptable() | UnsupportedMediaType() | Invalid():
            return Failure.REFUSED
        case ApiError(code=501):
            return Failure.REFUSED
        case _:
            return Failure.UNREACHABLE
