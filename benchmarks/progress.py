"""Says how far the benchmark is: a bar with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Self


class Progress:
    """A context manager; everything goes to standard error, so that standard output is the report alone."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._bar = _terminal_bar() if sys.stderr.isatty() else None
        self._task: Any = None

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("building", total=self._total, left="")
        return self

    def __exit__(self, _kind: type[BaseException] | None, _e: BaseException | None, _at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def step(self, done: int, what: str, spent: float, left: float) -> None:
        """About to measure `what`; `done` steps are behind, `left` seconds are expected to lie ahead."""
        text = f"about {span(left)} left"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, description=what, left=text)
        else:
            print(f"[{done + 1}/{self._total}] {what}  ({span(spent)} gone, {text})", file=sys.stderr, flush=True)

    def skip(self, steps: int) -> None:
        """So many steps will not be made."""
        self.expect(self._total - steps)

    def expect(self, total: int) -> None:
        """There will be so many steps in all, as far as one can tell now."""
        self._total = total
        if self._bar is not None:
            self._bar.update(self._task, total=total)

    def say(self, text: str) -> None:
        """Something to read, which stays above the bar."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)


def _terminal_bar() -> Any:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar
    except ImportError:
        return None
    columns = (
        BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[left]}"),
        TextColumn("{task.description}", markup=False),
    )  # fmt: skip
    # A redraw costs CPU on the core of the stub server, so twice a second has to do.
    return Bar(*columns, console=Console(stderr=True), refresh_per_second=2)


def span(seconds: float) -> str:
    """`45 s`, `3 min 10 s`."""
    whole = max(0, round(seconds))
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"
