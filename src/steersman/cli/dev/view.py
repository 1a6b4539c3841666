"""Renders the state of `steersman dev` on a terminal, without I/O of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.layout import Layout
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from steersman.cli.dev.state import Branch, DevState

__all__ = ["View"]

_ROUTINE_LINE = re.compile(r"\d\d:\d\d:\d\d (?:debug|info) ")
_COLORS = {"good": "green", "bad": "red", "busy": "yellow", "": ""}


class View:
    """Return the screen for the current size of the terminal."""

    def __init__(self, scene: DevState) -> None:
        self._scene = scene

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        scene, height = self._scene, console.size.height
        middle = max(6, (height - 3) * 3 // 5)
        log = max(3, height - 3 - middle)
        right = Layout()
        queues = min(len(scene.queues) + 3, max(4, middle // 3))
        events = max(3, (middle - queues) // 2)
        right.split_column(
            Layout(self._queues(), size=queues),
            Layout(self._reconciles(middle - queues - events - 2), size=middle - queues - events),
            Layout(self._events(events - 2), size=events),
        )
        body = Layout(size=middle)
        body.split_row(Layout(self._objects(middle - 2)), right)
        layout = Layout()
        shown = self._log(log - 2, console, max(1, options.max_width - 4))
        layout.split_column(Layout(self._header(), size=3), body, Layout(shown, size=log))
        yield layout

    def _header(self) -> Panel:
        scene = self._scene
        state = Text(scene.operator, style="green" if scene.running else "yellow")
        line = Text.assemble(
            (scene.target, "bold"), "  ", state, "   ", (f"export KUBECONFIG={scene.kubeconfig}", "cyan"), "   ",
            ("Ctrl-C stops the session", "dim"),
        )  # fmt: skip
        line.no_wrap, line.overflow = True, "ellipsis"
        return Panel(line, title="steersman dev", title_align="left")

    def _objects(self, room: int) -> Panel:
        lines = list(_lines(self._scene.roots))
        left_out = len(lines) - room
        if left_out > 0:
            lines = [*lines[: room - 1], (Text(f"… and {left_out + 1} more", style="dim"), Text())]
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        table.add_column(no_wrap=True, overflow="ellipsis", max_width=36)
        for name, said in lines:
            table.add_row(name, said)
        none = Text("none yet: apply one with kubectl or `steersman cluster load --name dev`", style="dim")
        return Panel(table if lines else none, title="objects", title_align="left")

    def _queues(self) -> Panel:
        table = _table("controller", "waiting", "workers", "reconciles", "errors")
        for queue in self._scene.queues:
            table.add_row(
                queue.controller,
                str(queue.depth),
                f"{queue.active}/{queue.workers}",
                str(queue.reconciles),
                Text(str(queue.errors), style="red" if queue.errors else ""),
            )
        return Panel(table, title="queues", title_align="left")

    def _reconciles(self, room: int) -> Panel:
        table = Table.grid(padding=(0, 1))
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, justify="right")
        table.add_column(no_wrap=True, overflow="ellipsis")
        table.add_column()
        for ran in list(self._scene.ran)[-max(1, room) :][::-1]:
            result = Text(ran.result, no_wrap=True, overflow="ellipsis") if ran.ok else Text(ran.result, style="red")
            table.add_row(Text(ran.at, style="dim"), _duration(ran.seconds), Text(ran.key), result)
        return Panel(table, title="last reconciles", title_align="left")

    def _events(self, room: int) -> Panel:
        lines: list[Text] = []
        for event in self._scene.events[: max(1, room)]:
            reason = (event.reason, "yellow" if event.warning else "cyan")
            line = Text.assemble((event.at, "dim"), " ", reason, " ", event.about, "  ", event.message)
            line.no_wrap, line.overflow = True, "ellipsis"
            lines.append(line)
        return Panel(Group(*lines), title="events", title_align="left")

    def _log(self, room: int, console: Console, width: int) -> Panel:
        """Return the end of the log: lines at the levels debug and info are cut, others are wrapped."""
        said = [line for entry in list(self._scene.log)[-max(1, room) :] for line in entry.splitlines()]
        lines = [part for line in said[-max(1, room) :] for part in _log_lines(line, console, width)]
        title = f"log: {self._scene.log_file}" if self._scene.log_file else "log"
        return Panel(Group(*lines[-max(1, room) :]), title=escape(title), title_align="left")


def _log_lines(line: str, console: Console, width: int) -> Iterable[Text]:
    if _ROUTINE_LINE.match(line):
        return [Text(line, no_wrap=True, overflow="ellipsis")]
    return Text(line).wrap(console, width, overflow="fold")


def _duration(seconds: float) -> str:
    return (
        f"{seconds:.1f} s"
        if seconds >= 1
        else f"{seconds * 1000:.1f} ms"
        if seconds < 0.01
        else f"{seconds * 1000:.0f} ms"
    )


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for number, column in enumerate(columns):
        table.add_column(column, no_wrap=True, justify="left" if number == 0 else "right")
    return table


def _lines(branches: tuple[Branch, ...], indent: str = "") -> Iterator[tuple[Text, Text]]:
    for number, branch in enumerate(branches):
        last = number == len(branches) - 1
        head = "" if not indent else indent[:-2] + ("└ " if last else "├ ")
        where = f"{branch.namespace}/" if not indent and branch.namespace not in ("", "default") else ""
        name = Text.assemble((head, "dim"), (branch.kind, "bold"), f" {where}{branch.name}")
        yield name, Text(branch.said, style=_COLORS[branch.tone])
        below = indent[:-2] + ("  " if last else "│ ") if indent else ""
        yield from _lines(branch.children, below + "  ")
