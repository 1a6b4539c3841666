"""`Controller`: sources add keys to a work queue, and workers reconcile them.

A controller owns its queue and its workers. Caches, leadership and the client belong to the caller and outlive it: on
shutdown the controller stops first, while API requests still work (R4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from random import Random
from typing import Any, cast

from steersman.controller.backoff import DEFAULT_BACKOFF, Backoff
from steersman.controller.blocking import is_async, run_blocking
from steersman.controller.metrics import ControllerStats, collector
from steersman.controller.queue import Debounce, WorkQueue
from steersman.controller.request import Request, Result
from steersman.controller.sources import Source, SourceHandler
from steersman.controller.status_echoes import StatusEchoes
from steersman.controller.worker import LastStarted, OnError, Reconcile, Worker
from steersman.models import Key
from steersman.telemetry.log import get_logger

__all__ = ["Controller"]

_log = get_logger("controller")


class Controller:
    """Reconciles the keys of one kind. The event of a status that a reconcile returned does not start another one.

    Args:
        name: The name in metrics and logs.
        reconcile: An async function of a `Request`, or a synchronous one, which runs in a thread.
        kind: The kind in logs.
        sources: The sources of keys.
        workers: The number of concurrent reconciles.
        timeout: Seconds after which a reconcile is cancelled; a synchronous one is logged and awaited.
        backoff: The delays after failures.
        debounce: Collects the events of a key before it is reconciled.
        rng: The source of jitter and reconcile ids.
        on_error: Called for each error of a reconcile.

    Raises:
        ValueError: `workers` or `timeout` is out of range.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile | Callable[[Request], Result | None],
        *,
        kind: str = "",
        sources: Sequence[Source] = (),
        workers: int = 1,
        timeout: float | None = None,
        backoff: Backoff = DEFAULT_BACKOFF,
        debounce: Debounce | None = None,
        rng: Random | None = None,
        on_error: OnError | None = None,
    ) -> None:
        if workers < 1:
            raise ValueError(f"controller {name!r}: workers={workers}, needs at least 1")
        if timeout is not None and timeout <= 0:
            raise ValueError(f"controller {name!r}: timeout={timeout}, needs seconds above 0, or None")
        self.name = name
        self.kind = kind
        rng = rng or Random()  # noqa: S311 - jitter and ids, no secrets
        self.queue: WorkQueue[Key] = WorkQueue(name, rng=rng, backoff=backoff, debounce=debounce)
        self.stats = ControllerStats(workers)
        self.echoes = StatusEchoes()
        self._last_started = LastStarted()
        self._rng = rng
        self._timeout = timeout
        self._on_error = on_error
        self._pool: ThreadPoolExecutor | None = None
        self._running: dict[asyncio.Task[None], Worker] = {}
        self._handlers: list[SourceHandler] = []
        if is_async(reconcile):
            # `is_async` looks at the function; a type checker cannot follow it.
            self._reconcile = cast(Reconcile, reconcile)
        else:
            self._blocking = cast("Callable[[Request], Result | None]", reconcile)
            self._reconcile = self._in_thread
        for source in sources:
            self.watch(source)

    def watch(self, source: Source) -> None:
        """Add a source, at any time; the current objects of its informer arrive as initial events."""
        handler = SourceHandler(source, self.queue, self.stats, self._rng, self.name, self.echoes)
        self._handlers.append(handler)
        source.informer.add_handler(handler.handle)

    def unwatch(self, source: Source) -> None:
        """Remove a source, for example because its namespace is deleted."""
        for handler in [h for h in self._handlers if h.source is source]:
            self._handlers.remove(handler)
            source.informer.remove_handler(handler.handle)
            handler.close()

    async def run(self, synced: Callable[[], Awaitable[object]] | None = None) -> None:
        """Run the workers until `stop` or cancellation; they start after `synced()` has returned (C3)."""
        collector.register(self)
        try:
            if synced is not None:
                await synced()
            new_id = _ids(self._rng)
            async with asyncio.TaskGroup() as group:
                for n in range(self.stats.workers):
                    worker = self._worker(new_id)
                    task = group.create_task(worker.run(), name=f"{self.name}-{n}")
                    self._running[task] = worker
                    task.add_done_callback(self._worker_ended)
        finally:
            self.queue.shut_down()
            for handler in self._handlers:
                handler.close()
            if self._pool is not None:
                self._pool.shutdown(wait=False, cancel_futures=True)
            collector.unregister(self)

    async def stop(self, grace: float = 30.0) -> None:
        """Stop accepting keys, let running reconciles finish for `grace` seconds, then cancel them (R4).

        Returns when every worker has ended. A synchronous function in a thread cannot be cancelled and runs on.
        """
        self.queue.shut_down()
        for handler in self._handlers:
            handler.close()
        tasks = list(self._running)
        if not tasks:
            return
        _, schedule = await asyncio.wait(tasks, timeout=grace)
        for task in schedule:
            request = self._running[task].request
            _log.warning(
                "reconcile_cancelled_at_shutdown",
                controller=self.name,
                grace=grace,
                key=str(request.key) if request is not None else "",
            )
            task.cancel()
        if schedule:
            await asyncio.wait(schedule)

    @property
    def busy(self) -> tuple[Request, ...]:
        """The requests that the workers reconcile now."""
        return tuple(w.request for w in self._running.values() if w.request is not None)

    def _worker(self, new_id: Callable[[], str]) -> Worker:
        return Worker(
            self.name,
            self.kind,
            self.queue,
            self._reconcile,
            self.stats,
            new_id,
            self.echoes,
            self._last_started,
            timeout=self._timeout,
            on_error=self._on_error,
        )

    def _worker_ended(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)

    async def _in_thread(self, request: Request) -> Result | None:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.stats.workers, thread_name_prefix=f"reconcile-{self.name}")
        work: asyncio.Future[Any] = run_blocking(self._pool, self._blocking, request)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            worker = self._running.get(task) if task is not None else None
            deadline = worker.deadline if worker is not None else None
            if task is None or deadline is None or not deadline.fired or task.uncancel() > 0:
                raise
            deadline.fired = False
        self.stats.timeouts += 1
        _log.warning(
            "reconcile_timeout_ignored",
            timeout=self._timeout,
            hint="a synchronous function cannot be cancelled: make it async, or set timeouts in it",
        )
        return await asyncio.shield(work)


def _ids(rng: Random) -> Callable[[], str]:
    """Return a function that returns ids such as `5f3a9c0e71d2-1a`: a random prefix and a serial number."""
    numbered = f"{rng.getrandbits(48):012x}-%x"
    return map(numbered.__mod__, count(1)).__next__
