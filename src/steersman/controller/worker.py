"""The worker: takes keys from the work queue, runs the reconcile, and reports the outcome to the queue.

A controller has a fixed number of workers, each of which is one task. An exception of a reconcile leads to a retry or
to an error report and never ends a worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

from steersman.client.errors import ApiError, ClientError, Conflict
from steersman.controller.deadline import Deadline
from steersman.controller.metrics import ControllerStats
from steersman.controller.queue import QueueClosedError, WorkQueue
from steersman.controller.request import Request, RequeueError, Result, StatusWritten, TerminalError
from steersman.controller.status_echoes import StatusEchoes
from steersman.models import Key
from steersman.telemetry import log

__all__ = ["CURRENT_REQUEST", "LastStarted", "OnError", "Reconcile", "Worker"]

Reconcile: TypeAlias = Callable[[Request], Awaitable["Result | None"]]
"""The reconcile function. `RequeueError` and `TerminalError` have their own meaning.

Other exceptions lead to backoff.
"""

OnError: TypeAlias = Callable[[Request, Exception, bool], None]
"""Receives each error of a reconcile, and whether it is terminal, for Events and traces; synchronous."""

CURRENT_REQUEST: ContextVar[Request | None] = ContextVar("steersman_request", default=None)
"""The current request of this context; Events and traces take the reconcile id from it."""

YIELD_AFTER_SECONDS: Final = 0.002
"""Seconds after which a worker yields to other tasks."""

# Errors of the program, which would be panics in Go; they count as panics in addition to errors.
PROGRAMMING_ERRORS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    NotImplementedError,
    RecursionError,
    TypeError,
)


class LastStarted:
    """The worker of a controller that last started a reconcile; a worker that finds another one has yielded since."""

    __slots__ = ("worker",)

    def __init__(self) -> None:
        self.worker: Worker | None = None


class Worker:
    """One worker of a controller."""

    def __init__(
        self,
        controller: str,
        kind: str,
        queue: WorkQueue[Key],
        reconcile: Reconcile,
        stats: ControllerStats,
        new_id: Callable[[], str],
        echoes: StatusEchoes,
        last_started: LastStarted,
        *,
        timeout: float | None = None,
        on_error: OnError | None = None,
    ) -> None:
        self._queue = queue
        self._reconcile = reconcile
        self._stats = stats
        self._new_id = new_id
        self._timeout = timeout
        self._on_error = on_error
        self._echoes = echoes
        self._last_started = last_started
        self._names = {"controller": controller, "kind": kind}
        self._log = log.get_logger("controller")
        self.deadline: Deadline | None = None
        self.request: Request | None = None

    async def run(self) -> None:  # noqa: C901 - one coroutine for the whole reconcile
        """Reconcile keys until the queue is shut down or the task is cancelled."""
        task = asyncio.current_task()
        assert task is not None
        log.CONTEXT.set(self._context)
        if self._timeout is not None:
            self.deadline = Deadline(task, self._timeout)
        queue, last_started, new_id, clock = self._queue, self._last_started, self._new_id, task.get_loop().time
        reconcile, stats, deadline = self._reconcile, self._stats, self.deadline
        yielded = 0.0
        try:
            while True:
                job = queue.take()
                if job is None:
                    job = await queue.get()
                    yielded = clock()
                last_started.worker = self
                request = self.request = Request(job.key, job.reasons, job.attempt, new_id())
                CURRENT_REQUEST.set(request)
                stats.active += 1
                if deadline is not None:
                    deadline.start(clock())
                try:
                    result = await reconcile(request)
                except asyncio.CancelledError:
                    if deadline is None or not self._is_timeout(deadline):
                        queue.put_back(request.key, request.reasons)
                        raise
                    self._timed_out(request)
                except Exception as problem:  # noqa: BLE001 - R1: classified below
                    self._failed(request, problem)
                else:
                    self._finished(request, result)
                finally:
                    if deadline is not None:
                        deadline.end()
                        if deadline.fired:  # the reconcile has caught the cancellation and returned
                            self._is_timeout(deadline)
                    stats.active -= 1
                    self.request = None
                # A reconcile that has nothing to do awaits nothing. Without this, the initial list of a large cluster
                # would block the event loop, and with it the renewal of the lease.
                if last_started.worker is self and clock() - yielded > YIELD_AFTER_SECONDS:
                    await asyncio.sleep(0)
                    yielded = clock()
        except QueueClosedError:
            return
        finally:
            if self.deadline is not None:
                self.deadline.close()

    def _context(self) -> Mapping[str, Any]:
        """Return the fields of log lines of a reconcile (R5); called only when a line is written."""
        request = CURRENT_REQUEST.get()
        if request is None:
            return self._names
        return {
            **self._names,
            "namespace": request.key.namespace,
            "name": request.key.name,
            "reconcile_id": request.reconcile_id,
            "reasons": request.reasons,
        }

    def _is_timeout(self, deadline: Deadline) -> bool:
        if not deadline.fired:
            return False
        deadline.fired = False
        task = asyncio.current_task()
        return task is not None and task.uncancel() == 0

    def _finished(self, request: Request, result: Any) -> None:
        if result is None:
            self._stats.success += 1
            self._queue.done(request.key)
        elif isinstance(result, Result):
            if isinstance(result, StatusWritten):
                self._echoes.expect(result)
            after = result.requeue_after
            if after is None:
                self._stats.success += 1
            else:
                self._stats.requeue_after += 1
            self._queue.done(request.key, after)
        else:
            self._failed(request, TypeError(f"a reconcile returns None or a Result, not {result!r:.200}"))

    def _timed_out(self, request: Request) -> None:
        self._stats.timeouts += 1
        self._failed(request, TimeoutError(f"not finished within {self._timeout} s, and was cancelled"))

    def _failed(self, request: Request, problem: Exception) -> None:
        key, queue, stats = request.key, self._queue, self._stats
        if isinstance(problem, RequeueError):
            stats.requeue += 1
            if problem.after is None:
                wait = queue.fail(key)
            else:
                wait = problem.after
                queue.done(key, requeue_after=wait)
            self._log.debug("reconcile_requeued", reason=problem.reason, retry_in=round(wait, 3))
            return
        if isinstance(problem, Conflict):  # R2: another client has written first
            stats.conflicts += 1
            stats.requeue += 1
            wait = queue.fail(key)
            self._log.debug("reconcile_conflict", error=str(problem), retry_in=round(wait, 3))
            return
        if isinstance(problem, ApiError) and problem.namespace_terminating:
            # The objects are deleted in any order: this one, too, or a child whose absence the reconcile has seen.
            stats.requeue += 1
            wait = queue.fail(key)
            self._log.info("reconcile_in_terminating_namespace", error=str(problem), retry_in=round(wait, 3))
            return
        terminal = isinstance(problem, TerminalError)
        stats.error += 1
        if isinstance(problem, PROGRAMMING_ERRORS):
            stats.panics += 1
        if terminal:
            stats.terminal += 1
            queue.give_up(key)
            self._log.exception("reconcile_failed_terminally", error=str(problem), exc_info=problem)
        else:
            wait = queue.fail(key)
            # A repeated error of the API server has a traceback only at the first attempt.
            again = request.attempt > 1 and isinstance(problem, ClientError)
            self._log.error(
                "reconcile_failed",
                error=str(problem) or type(problem).__name__,
                attempt=request.attempt,
                retry_in=round(wait, 3),
                exc_info=None if again else problem,
            )
        if self._on_error is not None:
            try:
                self._on_error(request, problem, terminal)
            except Exception:  # noqa: BLE001 - an error report must not cause another error
                self._log.exception("error_report_failed")
