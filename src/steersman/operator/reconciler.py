"""One reconcile: reads the object, runs finalizers, calls the user's function, writes the status.

The function receives a typed, immutable object that includes this process's last write. Its result is checked and
written. An object that does not fit its class is reported once and skipped until it changes (W9).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import msgspec

from steersman.cache import Entry, UndecodableError
from steersman.controller import Request, Result, TerminalError
from steersman.controller.blocking import run_blocking
from steersman.controller.finalizers import Finalizer, FinalizerState, run_finalizers
from steersman.controller.status import write_status
from steersman.models import Dynamic, Key, MergePatch, metadata_of
from steersman.operator.cache_reader import READ_BARRIER_SECONDS, CacheReader
from steersman.operator.context import Context, SyncContext
from steersman.operator.declarations import ControllerDeclaration, FinalizerDeclaration, Handler
from steersman.operator.metrics import UNDECODABLE_RECONCILES
from steersman.operator.runtime import Runtime
from steersman.telemetry.log import get_logger

__all__ = ["Reconciler"]

log = get_logger("reconcile")


class Reconciler:
    """Reconciles the keys of one declared controller; workers call `reconcile`.

    `alone` means that no other controller reads objects of its kind.
    """

    def __init__(
        self,
        declaration: ControllerDeclaration,
        finalizers: Sequence[FinalizerDeclaration],
        runtime: Runtime,
        reader: CacheReader,
        *,
        alone: bool,
    ) -> None:
        self.declaration = declaration
        self._read = Entry.object_once if alone else Entry.object
        self._view = declaration.kind
        self._gvk = declaration.kind.info.gvk
        self._finalizers = tuple(finalizers)
        self._runtime = runtime
        self._reader = reader
        self._handler = declaration.handler
        self._status = _status_type(self._view.type)
        self._pool: ThreadPoolExecutor | None = None
        self._undecodable = UNDECODABLE_RECONCILES.labels(declaration.name)
        self.add: Callable[[Key, int, str], None] | None = None
        """Adds a key with a priority and a reason to the work queue of the controller."""

    @property
    def reconcile(self) -> Callable[[Request], Awaitable[Result | None]]:
        """Run one reconcile, with a span if tracing is on. Raises the exceptions of the user's function."""
        return self._reconcile if self._runtime.tracing is None else self._traced

    async def _traced(self, request: Request) -> Result | None:
        tracing = self._runtime.tracing
        assert tracing is not None
        with tracing.reconcile(self.declaration.name, self._view.info.kind, request):
            return await self._reconcile(request)

    def close(self) -> None:
        """Release the threads without waiting for running functions."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def _reconcile(self, request: Request) -> Result | None:
        key, runtime = request.key, self._runtime
        if self._reader.views or runtime.cache.outstanding(self._view, key):
            await self._settled(key)
        entry = runtime.cache.entry(self._gvk, key)
        if entry is None:
            return None
        try:
            obj = self._read(entry, self._view)
        except UndecodableError as problem:
            self._report(entry, problem)
            return None
        if self._finalizers:
            outcome = await run_finalizers(
                self._runtime.client,
                obj,
                self._bound(request),
                field_manager=self._runtime.field_manager,
            )
            if outcome.state is FinalizerState.ADDED:
                return Result(requeue_after=0.0)  # `where` may exclude this change.
            if outcome.state is not FinalizerState.READY:
                return Result(requeue_after=outcome.requeue_after) if outcome.requeue_after is not None else None
        elif entry.deleting and not self.declaration.terminating:
            return None
        handler = self._handler
        try:
            if handler.is_async and not handler.takes_context:
                returned = await handler.call(obj)
            else:
                returned = await self._call(handler, request, obj)
            return None if returned is None else await self._conclude(obj, returned, entry)
        except TerminalError as problem:
            # The object is not retried before it changes, so the Event must explain why nothing happens.
            self._runtime.event(obj, problem.reason, str(problem), type="Warning", action="Reconcile")
            raise

    async def _settled(self, key: Key) -> None:
        """Wait for own writes that reads could miss (C2): of the reconciled kind only those to this object."""
        cache = self._runtime.cache
        await self._reader.wait_for_own_writes()
        if cache.outstanding(self._view, key):
            await cache.read_barrier(self._view, key, READ_BARRIER_SECONDS)

    def _bound(self, request: Request) -> list[Finalizer[Any]]:
        def bind(declared: FinalizerDeclaration) -> Finalizer[Any]:
            return Finalizer(declared.name, lambda obj: self._clean_up(declared, request, obj))

        return [bind(f) for f in self._finalizers]

    async def _clean_up(self, finalizer: FinalizerDeclaration, request: Request, obj: Any) -> Result | None:
        returned = await self._call(finalizer.handler, request, obj)
        if returned is None:
            return None
        if not isinstance(returned, Result):
            raise finalizer.place.error(f"returned a {type(returned).__name__}; expected None or Result")
        return await self._conclude(obj, returned)

    def _conclude(self, obj: Any, returned: Any, entry: Entry | None = None) -> Awaitable[Result | None]:
        """Process the result of a reconcile: write the status, schedule the next run."""
        if isinstance(returned, Result):
            status, after = returned.status, returned.requeue_after
        else:
            status, after = returned, None
        if status is not None:
            self._check_status(status)
            if self._view.form == "typed":
                runtime = self._runtime
                return write_status(
                    runtime.client,
                    obj,
                    status,
                    now=runtime.now,
                    field_manager=runtime.field_manager,
                    after=after,
                    before=entry,
                )
        return self._write_plain_status(obj, status, after)

    async def _write_plain_status(self, obj: Any, status: Any, after: float | None) -> Result | None:
        later = None if after is None else Result(requeue_after=after)
        if status is None or (isinstance(obj, Dynamic) and obj.get("status") == status):
            return later
        runtime = self._runtime
        metadata, patch = obj.metadata, MergePatch({"metadata": {"uid": obj.metadata.uid}, "status": status})
        await runtime.client.patch(
            self._view,
            metadata.name,
            patch,
            namespace=metadata.namespace,
            subresource="status",
            want="metadata",
            field_manager=runtime.field_manager,
        )
        return later

    def _check_status(self, status: Any) -> None:
        if self._status is None:
            if self._view.form == "typed":
                raise self.declaration.place.error(
                    f"returned a {type(status).__name__}, but {self._view.info.kind} has no `status` field for it"
                )
        elif not isinstance(status, self._status):
            raise self.declaration.place.error(
                f"returned a {type(status).__name__}; expected {self._status.__name__}, Result or None"
            )

    async def _call(self, handler: Handler, request: Request, obj: Any) -> Any:
        context = Context(self._runtime, self._reader, request, obj, add=self.add)
        if handler.is_async:
            return await (handler.call(obj, context) if handler.takes_context else handler.call(obj))
        blocking = SyncContext(context, asyncio.get_running_loop())
        arguments = (obj, blocking) if handler.takes_context else (obj,)
        return await self._in_thread(handler, arguments)

    async def _in_thread(self, handler: Handler, arguments: tuple[Any, ...]) -> Any:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(
                self.declaration.workers, thread_name_prefix=f"reconcile-{self.declaration.name}"
            )
        work = run_blocking(self._pool, handler.call, *arguments)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if self._runtime.stopping or work.done():
                raise
            # A thread cannot be cancelled. Its key stays locked until it ends, or two reconciles could run for it.
            log.warning(
                "blocking_function_timed_out", hint="a plain function cannot be cancelled; give it timeouts of its own"
            )
            await asyncio.wait([work])
            raise

    def _report(self, entry: Entry, problem: UndecodableError) -> None:
        """Record an Event that the object does not fit its class; the cache has logged it once."""
        self._undecodable.inc()
        try:
            subject = entry.object(metadata_of(self._view))
        except UndecodableError:
            return
        self._runtime.event(
            subject,
            "Undecodable",
            f"this {self._view.info.kind} does not fit its type and is not reconciled until it changes: {problem}",
            type="Warning",
            action="Decode",
        )


def _status_type(kind: Any) -> type[Any] | None:
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return None
    from typing import get_args, get_type_hints

    if "status" not in cast(Any, kind).__struct_fields__:
        return None
    try:
        hint = get_type_hints(kind).get("status")
    except Exception:  # noqa: BLE001 - an annotation that cannot be resolved is checked by the API server instead
        return object
    for candidate in (hint, *get_args(hint)):
        if isinstance(candidate, type) and candidate is not type(None):
            return candidate
    return object
