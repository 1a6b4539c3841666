"""/healthz, /livez and /readyz: named checks, answered from a thread that does not depend on the event loop.

Liveness asks whether the loop moves: a heartbeat, judged from outside. Readiness asks whether this replica does its
work: caches in step, or standing by. `?verbose` lists every check; `?exclude=name` leaves one out, as Kubernetes'
own servers do.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from steersman.operator.metrics import LOOP_STALLS
from steersman.operator.server import Answer, Route, Visit
from steersman.telemetry.log import get_logger

__all__ = ["Check", "Health", "Heartbeat", "StallWatch"]

log = get_logger("health")

Check = Callable[[], str | None]
"""Says `None` when all is well, else what is wrong in a few words. Called from another thread; must not block."""


@dataclass(slots=True)
class Health:
    """The live and ready checks of a process, by name."""

    live: dict[str, Check] = field(default_factory=dict[str, Check])
    ready: dict[str, Check] = field(default_factory=dict[str, Check])

    def routes(self) -> dict[str, Route]:
        """The paths to serve."""
        return {
            "/healthz": lambda visit: _report("healthz", self.live, visit),
            "/livez": lambda visit: _report("livez", self.live, visit),
            "/readyz": lambda visit: _report("readyz", self.ready, visit),
        }


def _report(name: str, checks: dict[str, Check], visit: Visit) -> Answer:
    query = parse_qs(visit.query, keep_blank_values=True)
    excluded = set(query.get("exclude", ()))
    lines: list[str] = []
    failed = False
    for check_name, check in list(checks.items()):
        if check_name in excluded:
            lines.append(f"[+]{check_name} excluded: ok")
            continue
        problem = _ask(check)
        failed = failed or problem is not None
        lines.append(f"[+]{check_name} ok" if problem is None else f"[-]{check_name} failed: {problem}")
    if not failed and "verbose" not in query:
        return Answer(200, b"ok")
    lines.append(f"{name} check {'failed' if failed else 'passed'}")
    return Answer(500 if failed else 200, ("\n".join(lines) + "\n").encode())


def _ask(check: Check) -> str | None:
    try:
        return check()
    except Exception as problem:  # noqa: BLE001 - a broken check is a failed one
        return f"the check itself failed: {type(problem).__name__}: {problem}"


@dataclass(slots=True)
class Heartbeat:
    """The loop's sign of life: a timer that notes the time. `age()` may be asked from any thread."""

    interval: float = 0.25
    clock: Callable[[], float] = time.monotonic
    last: float = 0.0
    _timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin beating on the running loop."""
        self.beat()

    def beat(self) -> None:
        self.last = self.clock()
        self._timer = asyncio.get_running_loop().call_later(self.interval, self.beat)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def age(self) -> float:
        """Seconds since the loop last moved, less the interval at which it is expected to."""
        return max(0.0, self.clock() - self.last - self.interval)

    def check(self, limit: float) -> Check:
        """A liveness check that fails when the loop has stood still for `limit` seconds."""

        def loop_moves() -> str | None:
            age = self.age()
            return f"the event loop has not moved for {age:.1f} s" if age > limit else None

        return loop_moves


@dataclass(slots=True)
class StallWatch:
    """Reports what the loop's thread was doing when it stood still for over `threshold` seconds (R6).

    `look` is called every half second by a thread of its own, reports a stall once with the stack that causes it,
    and once more when it is over.
    """

    heartbeat: Heartbeat
    threshold: float = 1.0
    thread_id: int = field(default_factory=threading.get_ident)
    _worst: float = 0.0
    _end: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def look(self) -> None:
        age = self.heartbeat.age()
        if age > self.threshold:
            if not self._worst:
                LOOP_STALLS.inc()
                log.warning(
                    "the event loop stands still: something in it blocks; use a plain `def`, or asyncio.to_thread",
                    seconds=round(age, 1),
                    stack=self._stack(),
                )
            self._worst = age
        elif self._worst:
            log.warning("the event loop moves again", stood_still_for=round(self._worst, 1))
            self._worst = 0.0

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="steersman-stall-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join(timeout=2)

    def _run(self) -> None:
        while not self._end.wait(min(0.5, self.threshold / 2)):
            self.look()

    def _stack(self) -> str:
        frame = sys._current_frames().get(self.thread_id)  # pyright: ignore[reportPrivateUsage]
        return "".join(traceback.format_stack(frame)[-12:]) if frame is not None else "the thread has ended"
