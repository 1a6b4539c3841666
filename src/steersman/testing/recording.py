"""Records the reconciles of an operator: a copy of its declarations, with functions that report every run.

The user's `Operator` is not changed. Reports are values, created in the thread of the function.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from steersman.operator.declarations import ControllerDeclaration, FinalizerDeclaration, Handler, TimerDeclaration
from steersman.operator.operator import Operator

__all__ = ["Reconcile", "Recorder", "recorded"]


@dataclass(frozen=True, slots=True)
class Reconcile:
    """One run of a function: the controller, the object, and the result."""

    controller: str
    namespace: str
    name: str
    returned: object = None
    error: BaseException | None = None
    """The raised exception, including `RequeueError`."""

    def __str__(self) -> str:
        what = "/".join(filter(None, (self.namespace, self.name)))
        return f"{self.controller} {what}" + (f": {type(self.error).__name__}: {self.error}" if self.error else "")


class Recorder:
    """Finished and running functions. Thread-safe to read."""

    def __init__(self) -> None:
        self.reconciles: list[Reconcile] = []
        """Runs of controllers, in the order of their ends."""
        self.others: list[Reconcile] = []
        """Runs of finalizers and timers."""
        self._running = 0
        self._lock = threading.Lock()

    @property
    def running(self) -> int:
        """The number of running functions."""
        return self._running

    def began(self) -> None:
        """Count the start of a reconcile."""
        with self._lock:
            self._running += 1

    def ended(self, into: list[Reconcile], what: Reconcile) -> None:
        """Record the end of a reconcile."""
        with self._lock:
            self._running -= 1
            into.append(what)


class _Recorded(Operator):
    """The declarations of another operator, with functions that report."""

    def __init__(self, inner: Operator, recorder: Recorder) -> None:
        super().__init__(inner.name, field_manager=inner.field_manager)
        self.__dict__.update(vars(inner))

        def told(handler: Handler, name: str, into: list[Reconcile]) -> Handler:
            return _told(handler, name, recorder, into)

        self._found = tuple(replace(c, handler=told(c.handler, c.name, recorder.reconciles)) for c in inner.controllers)
        self._cleaning = tuple(replace(f, handler=told(f.handler, f.name, recorder.others)) for f in inner.finalizers)
        self._ticking = tuple(replace(t, handler=told(t.handler, t.name, recorder.others)) for t in inner.timers)

    @property
    def controllers(self) -> tuple[ControllerDeclaration, ...]:
        return self._found

    @property
    def finalizers(self) -> tuple[FinalizerDeclaration, ...]:
        return self._cleaning

    @property
    def timers(self) -> tuple[TimerDeclaration, ...]:
        return self._ticking


def recorded(operator: Operator, recorder: Recorder) -> Operator:
    """Return a copy of `operator` that reports to `recorder`."""
    return _Recorded(operator, recorder)


def _told(handler: Handler, name: str, recorder: Recorder, into: list[Reconcile]) -> Handler:
    call: Callable[..., Any] = handler.call

    def end(arguments: tuple[Any, ...], returned: object, error: BaseException | None) -> None:
        metadata = getattr(arguments[0], "metadata", None) if arguments else None
        place = str(getattr(metadata, "namespace", None) or ""), str(getattr(metadata, "name", None) or "")
        recorder.ended(into, Reconcile(name, *place, returned, error))

    if handler.is_async:

        @functools.wraps(call)
        async def awaited(*arguments: Any) -> Any:
            recorder.began()
            try:
                returned = await call(*arguments)
            except BaseException as problem:
                end(arguments, None, problem)
                raise
            end(arguments, returned, None)
            return returned

        return replace(handler, call=awaited)

    @functools.wraps(call)
    def called(*arguments: Any) -> Any:
        recorder.began()
        try:
            returned = call(*arguments)
        except BaseException as problem:
            end(arguments, None, problem)
            raise
        end(arguments, returned, None)
        return returned

    return replace(handler, call=called)
