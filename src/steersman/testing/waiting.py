"""`eventually`: waits for a condition, and reports the last value if it is not met.

For threads and blocking calls in sync tests, and with `await` in async ones, on real or virtual time. It polls with
growing intervals, and never longer than the time limit.
"""

from __future__ import annotations

import asyncio
import difflib
import inspect
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, cast, overload

__all__ = ["eventually"]

T = TypeVar("T")

_FIRST: Final = 0.005
_LONGEST: Final = 0.1
_SHOWN: Final = 4000


@overload
def eventually(
    condition: Callable[[], Awaitable[T]],
    *,
    within: float = 10.0,
    what: str = "",
    until: Callable[[T], object] = bool,
    shown: Callable[[], object] | None = None,
) -> Awaitable[T]: ...
@overload
def eventually(
    condition: Callable[[], T],
    *,
    within: float = 10.0,
    what: str = "",
    until: Callable[[T], object] = bool,
    shown: Callable[[], object] | None = None,
) -> T: ...
def eventually(
    condition: Callable[[], Any],
    *,
    within: float = 10.0,
    what: str = "",
    until: Callable[[Any], object] = bool,
    shown: Callable[[], object] | None = None,
) -> Any:
    """Call `condition` until its result is true, and return the result; an exception counts as false.

    `within` is in seconds. An `async def` condition is awaited: `await eventually(ready)`. `until` is a predicate of
    the result instead of its truth; `shown` returns the value for the error message instead of the last result. Raises
    `AssertionError` with `what`, the last result or exception, and the changes during the wait.
    """
    watch = _Watch(what or _name(condition), within, until, shown)
    return _waited(condition, watch) if inspect.iscoroutinefunction(condition) else _blocking(condition, watch)


def _blocking(condition: Callable[[], Any], watch: _Watch) -> Any:
    deadline, pause = time.monotonic() + watch.within, _FIRST
    while True:
        try:
            if watch.saw(value := condition()):
                return value
        except Exception as problem:  # noqa: BLE001 - a condition that cannot be judged yet is not met yet
            watch.failed(problem)
        left = deadline - time.monotonic()
        if left <= 0:
            raise watch.verdict() from watch.problem
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, _LONGEST)


async def _waited(condition: Callable[[], Awaitable[Any]], watch: _Watch) -> Any:
    clock = asyncio.get_running_loop().time
    deadline, pause = clock() + watch.within, _FIRST
    while True:
        try:
            if watch.saw(value := await condition()):
                return value
        except Exception as problem:  # noqa: BLE001 - see above
            watch.failed(problem)
        left = deadline - clock()
        if left <= 0:
            raise watch.verdict() from watch.problem
        await asyncio.sleep(min(pause, left))
        pause = min(pause * 1.5, _LONGEST)


class _Watch:
    """The results of a condition so far."""

    def __init__(
        self, what: str, within: float, until: Callable[[Any], object], shown: Callable[[], object] | None
    ) -> None:
        self.what, self.within = what, within
        self.problem: Exception | None = None
        self._until, self._shown = until, shown
        self._first = self._last = ""
        self._tries = 0

    def saw(self, value: Any) -> bool:
        self.problem = None
        if self._until(value):
            return True
        self._note(value if self._shown is None else self._shown())
        return False

    def failed(self, problem: Exception) -> None:
        self.problem = problem
        self._note(f"{type(problem).__name__}: {problem}")

    def _note(self, value: object) -> None:
        self._last = _text(value)
        self._first = self._first if self._tries else self._last
        self._tries += 1

    def verdict(self) -> AssertionError:
        lines = [f"after {self.within:g} s still not: {self.what} (tried {self._tries} times)", "last: " + self._last]
        if self._first != self._last:
            changed = difflib.unified_diff(
                self._first.splitlines(), self._last.splitlines(), "first", "last", "", "", 1
            )
            lines += ["what changed:", *(line.rstrip("\n") for line in changed)]
        else:
            lines.append("nothing changed meanwhile")
        return AssertionError("\n".join(lines))


def _text(value: object) -> str:
    if isinstance(value, dict | list | tuple):
        try:
            text = json.dumps(value, indent=2, sort_keys=True)
        except (TypeError, ValueError):
            text = repr(cast(object, value))
    else:
        text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


def _name(condition: Callable[..., Any]) -> str:
    name = getattr(condition, "__name__", "the condition")
    return "the condition" if name == "<lambda>" else name.replace("_", " ").strip()
