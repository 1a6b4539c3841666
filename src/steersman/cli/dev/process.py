"""The operator's process under `steersman dev`: `steersman run` with reports of reconciles and queues to its parent.

Reports are JSON lines on a non-blocking pipe: reports that the parent does not read in time are dropped. A second
pipe, on which the parent never writes, ends the process when the parent ends for any reason.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from steersman.controller import RequeueError, Result, TerminalError
from steersman.operator.declarations import Handler
from steersman.operator.operator import Operator

__all__ = ["command", "main", "observe"]

Report = Callable[[Mapping[str, Any]], None]

_SAMPLE_EVERY = 0.25
_GRACE = 10.0


def command(target: str, settings: Mapping[str, Any], report: int, lifeline: int) -> list[str]:
    """The environment of the child; it must inherit both file descriptors."""
    return [sys.executable, "-m", __name__, target, json.dumps(settings), str(report), str(lifeline)]


def observe(operator: Operator, report: Report) -> None:
    """Wrap the function of every controller to report its results."""
    declared = operator._controllers  # pyright: ignore[reportPrivateUsage] - a debugger's privilege
    for name, declaration in declared.items():
        declared[name] = msgspec.structs.replace(declaration, handler=_timed(declaration.handler, name, report))


def _timed(handler: Handler, controller: str, report: Report) -> Handler:
    def tell(arguments: tuple[Any, ...], started: float, returned: object, problem: BaseException | None) -> None:
        metadata = getattr(arguments[0], "metadata", None) if arguments else None
        report(
            {
                "controller": controller,
                "namespace": getattr(metadata, "namespace", None) or "",
                "name": getattr(metadata, "name", None) or "",
                "seconds": time.monotonic() - started,
                "ok": problem is None,
                "result": _result(returned, problem)[:500],  # Writes below PIPE_BUF bytes are atomic.
            }
        )

    call = handler.call
    if handler.is_async:

        @functools.wraps(call)
        async def timed_async(*arguments: Any) -> Any:
            started = time.monotonic()
            try:
                returned = await call(*arguments)
            except BaseException as problem:
                tell(arguments, started, None, problem)
                raise
            tell(arguments, started, returned, None)
            return returned

        return msgspec.structs.replace(handler, call=timed_async)

    @functools.wraps(call)
    def timed(*arguments: Any) -> Any:
        started = time.monotonic()
        try:
            returned = call(*arguments)
        except BaseException as problem:
            tell(arguments, started, None, problem)
            raise
        tell(arguments, started, returned, None)
        return returned

    return msgspec.structs.replace(handler, call=timed)


def _result(returned: object, problem: BaseException | None) -> str:
    match problem:
        case None:
            pass
        case RequeueError():
            return f"not yet: {problem.reason}" if problem.reason else "not yet"
        case TerminalError():
            return f"failed, no retry: {problem}"
        case _:
            return f"{type(problem).__name__}: {problem}"
    if isinstance(returned, Result):
        return "done" if returned.requeue_after is None else f"again in {returned.requeue_after:g} s"
    return "done" if returned is None else "status"


def _reporter(descriptor: int) -> Report:
    os.set_blocking(descriptor, False)

    def report(what: Mapping[str, Any]) -> None:
        with suppress(OSError):  # The parent is slow, or has ended.
            os.write(descriptor, json.dumps(what, default=str).encode() + b"\n")

    return report


def _sample(report: Report) -> None:
    """Report queues and workers periodically, from a thread, because the event loop may be blocked."""
    from steersman.controller.metrics import collector

    wanted = {
        "workqueue_depth": "depth",
        "controller_runtime_active_workers": "active",
        "controller_runtime_max_concurrent_reconciles": "workers",
    }
    last: dict[str, Any] = {}
    while True:
        queues: dict[str, dict[str, float]] = {}
        try:
            for family in collector.collect():
                for sample in family.samples:
                    queue = queues.setdefault(sample.labels["controller"], {}) if "controller" in sample.labels else {}
                    if (field := wanted.get(sample.name)) is not None:
                        queue[field] = queue.get(field, 0) + sample.value
                    elif sample.name == "controller_runtime_reconcile_total":
                        result = "errors" if sample.labels["result"] == "error" else "reconciles"
                        queue[result] = queue.get(result, 0) + sample.value
        except RuntimeError:
            queues = last  # Another thread changed a dictionary during the read.
        if queues != last:
            last = queues
            report({"queues": queues})
        time.sleep(_SAMPLE_EVERY)


def _end_with_parent(lifeline: int) -> None:
    try:
        while os.read(lifeline, 1):
            pass
    except OSError:
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE)
    os._exit(1)


def main(arguments: list[str]) -> int:
    """Run the operator; returns the exit code of `steersman run`."""
    from steersman.cli.errors import explain
    from steersman.cli.run.replica import run_replica
    from steersman.operator.settings import load_settings

    target, settings, report_to, lifeline = arguments
    report = _reporter(int(report_to))
    threading.Thread(target=_end_with_parent, args=(int(lifeline),), daemon=True).start()
    threading.Thread(target=_sample, args=(report,), daemon=True).start()
    try:
        return run_replica(
            target, load_settings(json.loads(settings), os.environ), prepare=lambda found: observe(found, report)
        )
    except Exception as problem:  # noqa: BLE001 - becomes a message
        return explain(problem)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
