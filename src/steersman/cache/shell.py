"""The reflector's shell: performs what the state machine decides, on real bytes and the event loop's clock.

One task per informer, one timer per stream, and nothing per event. It never raises for anything that a server or a
handler does; it ends when it is cancelled.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final

from msgspec.structs import replace

from steersman.cache.informer import Informer
from steersman.cache.lines import MalformedStreamError
from steersman.cache.listwatch import ListWatch
from steersman.cache.reading import Reading, Watchdog
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
from steersman.client.transport import pour
from steersman.telemetry.log import get_logger

__all__ = ["Server", "Shell", "failure_of"]

WATCH_SECONDS: Final = (40.0, 48.0)
"""How long a watch is asked for. The server sends a bookmark before it ends one, so that the position stays fresh
however little happens; and because a living stream ends, a dead one is known by its silence within a minute (W7)."""
INITIAL_SECONDS: Final = (300.0, 600.0)
"""How long a stream that begins with the whole content is asked for."""
SLACK: Final = 10.0
PLAIN_FOR: Final = 5.0
"""Seconds that new objects stay uncompressed at least: most that change are read, or change again, by then."""
PACK_AT_ONCE: Final = 10
"""Objects that are compressed in one go, in a tenth of a millisecond: an event that comes meanwhile waits for that.
With fifty at a time those were one in a hundred of the events that come 500 a second, and the slowest."""
PACK_BYTES: Final = 16 * 1024
"""The same for large objects: one at a time."""
PACK_EVERY: Final = 0.002
_log = get_logger("cache")


class Server:
    """What is known of one API server, shared by all its reflectors."""

    __slots__ = ("watch_list",)

    def __init__(self) -> None:
        self.watch_list = True
        """False once the server has refused a WatchList (W2)."""


class Shell:
    """Keeps one informer current from one `ListWatch`."""

    def __init__(self, informer: Informer, source: ListWatch, *, server: Server, rng: random.Random) -> None:
        self._informer = informer
        self._source = source
        self._server = server
        self.state = self._at_first()
        self._rng = rng
        self._settling: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """List and watch until cancelled."""
        self.state = self._at_first()
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
            if self._settling is not None:
                self._settling.cancel()

    def _at_first(self) -> State:
        # An informer that widens has a content already: a list must not be older than that.
        version = self._informer.version
        return State(watch_list=self._server.watch_list, version=version, synced=bool(version))

    async def _advance(self, event: Event) -> Effect:
        """Step, perform all that is local, and return the piece of I/O that is left."""
        informer = self._informer
        if isinstance(event, Failed):
            informer.metrics.failed(event.failure.value)
        if not self._server.watch_list and self.state.watch_list:
            self.state = replace(self.state, watch_list=False)  # another reflector has learned it
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
            informer.problem = f"{report.event}: {report.problem}" if report.problem else report.event
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
        except Exception as problem:  # noqa: BLE001 - whatever goes wrong, the answer is to try again later
            return self._failed(problem, time())
        return PageRead(version, token, time())

    async def _stream(self, effect: OpenStream) -> Effect:
        """Read one stream until it ends or something else is to be done; returns that."""
        seconds = self._rng.uniform(*(INITIAL_SECONDS if effect.initial else WATCH_SECONDS))
        limit = WATCH_SECONDS[1] + SLACK
        deadline = asyncio.timeout(None)
        watchdog = Watchdog(limit, deadline)
        time = asyncio.get_running_loop().time
        try:
            async with deadline:
                left = await self._read_stream(effect, seconds, watchdog)
            if left is not None:
                return left
            event: Event = Ended(time())
        except Exception as problem:  # noqa: BLE001 - whatever goes wrong, the answer is to try again later
            if isinstance(problem, TimeoutError) and deadline.expired():
                event = Failed(Failure.SILENT, f"neither event nor bookmark for {limit:.0f} s", time())
            else:
                event = self._failed(problem, time())
        finally:
            watchdog.stop()
        # A failure in the middle of a run of lines must not lose the position that the lines before it reached.
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
            reading = Reading(self._informer, watchdog, self._took_in, collects=effect.initial)
            while await pour(chunks, reading.take):
                while (fed := reading.fed) is not None:
                    left = await self._advance(InitialEnd(fed.version, self._loop.time()))
                    if not isinstance(left, Continue):
                        return left
                    reading.collects = False
                    reading.go_on(fed.rest)
                await reading.pause()
        return None

    def _took_in(self) -> None:
        """The informer has taken something in."""
        if not self.state.progressed:  # how far is noted when the stream ends
            self._note_progress(self._loop.time())
        if self._settling is None and len(fresh := self._informer.store.fresh):
            self._settling = self._loop.call_later(PLAIN_FOR, self._settle, fresh.until_now())
        if self._informer.problem:
            self._recovered()

    def _settle(self, turn: int) -> None:
        """Pack what has been there for long enough, a slice at a time."""
        self._settling = None
        store = self._informer.store
        if store.settle(PACK_AT_ONCE, PACK_BYTES, turn):
            self._settling = self._loop.call_later(PACK_EVERY, self._settle, turn)
        elif len(store.fresh):
            self._settling = self._loop.call_later(PLAIN_FOR, self._settle, store.fresh.until_now())

    def _note_progress(self, at: float) -> None:
        """Let the state know what has been taken in; `at` is when that was."""
        self.state, _ = step(self.state, Progressed(self._informer.version, at))

    def _recovered(self) -> None:
        if self.state.phase is Phase.WATCHING:
            self._informer.problem = ""
            _log.info("the watch runs again", kind=self._informer.kind, scope=str(self._informer.scope))

    def _failed(self, problem: Exception, at: float) -> Failed:
        failure = failure_of(problem)
        if failure is Failure.UNREACHABLE and not isinstance(problem, ClientError):
            _log.exception("an informer's stream failed unexpectedly", kind=self._informer.kind)
        wait = problem.retry_after if isinstance(problem, ApiError) else None
        return Failed(failure, str(problem) or type(problem).__name__, at, wait or 0.0)


def failure_of(problem: Exception) -> Failure:
    """What an exception means to the state machine."""
    match problem:
        case MalformedStreamError():
            return Failure.MALFORMED
        case Expired():
            return Failure.EXPIRED
        case NotFound():
            return Failure.MISSING
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
