"""Flame graphs from folded stacks: one self-contained SVG, drawn with what the standard library has.

A folded stack is a line `outermost;…;innermost COUNT`. Frames are told apart by who wrote the code that ran, which is
their colour; the legend says how much of the time each spent itself. No script, no link, no path of the machine.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

Stacks = Mapping[tuple[str, ...], int]
"""The number of samples of each stack, outermost frame first."""

_FRAME: Final = re.compile(r"(?P<name>.*) \((?P<file>[^()]*?)(?::\d+)?\)")
_CALLS: Final = re.compile(
    r"(read|write|writev|send|sendto|sendmsg|recv|recvfrom|recvmsg|epoll_\w+|poll|futex|mmap|brk)\b"
)
_LIBRARIES: Final = (
    (re.compile(r"^(libssl|libcrypto|_ssl)\b"), "OpenSSL"),
    (re.compile(r"(^|/)msgspec/"), "msgspec"),
    (re.compile(r"(^|/)(zstandard/|libzstd|(zstd|zdict|(de)?compress(or|iondict|ionparams))\.c$)"), "zstandard"),
    (re.compile(r"(^|/)(httptools/|pyreqwest/)"), "HTTP parser"),
    (re.compile(r"(^|/)uvloop/|^(?!steersman|benchmarks).*\.(c|h|pyx|pxd|pxi)$|^_asyncio\b|^asyncio/"), "event loop"),
    (re.compile(r"^(libc|libm|libpthread|ld-linux\S*|\[vdso\]|libz)\b"), "libc"),
    (re.compile(r"^(python[\d.]*|libpython)\b"), "interpreter"),
)
SYSTEM: Final = "system calls"
_COLOURS: Final = {
    "benchmark's operator": "#c9c9c9",
    "steersman.operator": "#f2b134",
    "steersman.controller": "#ed8a2f",
    "steersman.cache": "#e0592a",
    "steersman.client": "#c43d4b",
    "steersman.client.transport": "#a23a78",
    "steersman.models": "#e8cf4a",
    "steersman.telemetry": "#f5dd9d",
    "msgspec": "#5a9e6f",
    "zstandard": "#8cbf6b",
    "OpenSSL": "#3f7fb5",
    "HTTP parser": "#5cb8c4",
    "event loop": "#7d8fb8",
    "interpreter": "#b8a894",
    "libc": "#a3a3a3",
    SYSTEM: "#6b6b6b",
}
_OTHER: Final = "#d4c7b0"


def parse(lines: Iterable[str]) -> Stacks:
    """Folded stacks. Raises ValueError for a line that is none."""
    stacks: Counter[tuple[str, ...]] = Counter()
    for line in lines:
        if line.strip():
            stack, _, count = line.rstrip().rpartition(" ")
            stacks[tuple(stack.split(";"))] += int(count)
    return stacks


def owner(frame: str) -> str:
    """Return the owner of a frame's code: a package of Steersman, a library, the interpreter or the kernel."""
    name, file = _parts(frame)
    if found := re.search(r"(^|/)steersman/(client/transport|\w+)/", file):
        return "steersman." + found.group(2).replace("/", ".")
    if file.startswith("benchmarks/"):
        return "benchmark's operator"
    library = next((known for pattern, known in _LIBRARIES if pattern.search(file)), "")
    if library == "libc" and _CALLS.match(name):
        return SYSTEM
    return library or ("standard library" if file.endswith(".py") or file.startswith("<") else file)


def tidy(stack: Sequence[str]) -> tuple[str, ...]:
    """A stack without line numbers, addresses and the loop's inner life; repeated frames are one."""
    frames: list[str] = []
    for frame in stack:
        name, file = _parts(frame)
        who = owner(frame)
        if name.startswith("0x") or (who == "event loop" and not file.endswith(".py")):
            shown = who
        elif file.endswith(".py"):
            shown = f"{name} ({file})"
        else:
            shown = f"{name} ({'libc' if who == SYSTEM else who})"
        if not frames or frames[-1] != shown:
            frames.append(shown)
    return tuple(frames)


def within(stacks: Stacks, root: str) -> Stacks:
    """The stacks that contain `root`, from there on."""
    kept: Counter[tuple[str, ...]] = Counter()
    for stack, count in stacks.items():
        if root in stack:
            kept[stack[stack.index(root) :]] += count
    return kept


def shares(stacks: Stacks) -> list[tuple[str, float]]:
    """Return the share of self time by owner, largest first; time in libc counts for its caller."""
    total = sum(stacks.values()) or 1
    spent: Counter[str] = Counter()
    for stack, count in stacks.items():
        owners = [_owner_of_tidy(frame) for frame in stack]
        while len(owners) > 1 and owners[-1] == "libc":
            owners.pop()
        spent[owners[-1]] += count
    return sorted(((who, count / total) for who, count in spent.items()), key=lambda share: (-share[1], share[0]))


def _owner_of_tidy(frame: str) -> str:
    if frame in _COLOURS:
        return frame
    name, file = _parts(frame)
    if file in _COLOURS:
        return SYSTEM if file == "libc" and _CALLS.match(name) else file
    return owner(frame)


def _parts(frame: str) -> tuple[str, str]:
    found = _FRAME.fullmatch(frame)
    if found is None:
        return frame, ""
    # Compiled modules carry the platform in their names, source files may carry a path of the machine.
    file = re.sub(r"\.(cpython|abi3)[^/]*$|\.so(\.\d+)*$", "", found["file"])
    return found["name"], re.sub(
        r"^.*/(?=(site-packages|lib/python3\.\d+)/)(site-packages|lib/python3\.\d+)/|^/.*/", "", file
    )


@dataclass
class _Node:
    count: int = 0
    children: dict[str, _Node] = field(default_factory=dict)


def _tree(stacks: Stacks) -> _Node:
    root = _Node()
    for stack, count in stacks.items():
        node = root
        node.count += count
        for frame in stack:
            node = node.children.setdefault(frame, _Node())
            node.count += count
    return root


_WIDTH, _ROW, _LEFT, _TOP = 1200, 17, 10, 58


def render(stacks: Stacks, title: str, note: str = "") -> str:
    """The SVG; a frame that is narrower than a third of a pixel is left out. The outermost frames are at the bottom."""
    root = _tree(stacks)
    scale = (_WIDTH - 2 * _LEFT) / (root.count or 1)
    boxes = list(_boxes(root, 0, 0.0, scale))
    depth = 1 + max((level for level, *_ in boxes), default=0)
    legend = [share for share in shares(stacks) if share[1] >= 0.002]
    floor = _TOP + depth * _ROW
    height = floor + 30 + (len(legend) + 3) // 4 * 20
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
        ' font-family="Verdana, DejaVu Sans, sans-serif" font-size="11">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_WIDTH / 2:g}" y="24" text-anchor="middle" font-size="16">{escape(title)}</text>',
        f'<text x="{_WIDTH / 2:g}" y="44" text-anchor="middle" fill="#555555">{escape(note)}</text>',
    ]
    for level, frame, x, width, count in boxes:
        out.append(_box(frame, _LEFT + x, floor - (level + 1) * _ROW, width, count / root.count))
    for number, (who, share) in enumerate(legend):
        x, y = _LEFT + number % 4 * (_WIDTH - 2 * _LEFT) / 4, floor + 18 + number // 4 * 20
        out.append(f'<rect x="{x:.1f}" y="{y}" width="12" height="12" fill="{_COLOURS.get(who, _OTHER)}"/>')
        out.append(f'<text x="{x + 18:.1f}" y="{y + 10}">{escape(who)}: {share:.1%} itself</text>')
    return "\n".join([*out, "</svg>\n"])


def _boxes(node: _Node, level: int, x: float, scale: float) -> Iterator[tuple[int, str, float, float, int]]:
    for frame in sorted(node.children):
        child = node.children[frame]
        width = child.count * scale
        if width >= 1 / 3:
            yield level, frame, x, width, child.count
            yield from _boxes(child, level + 1, x, scale)
        x += width


def _box(frame: str, x: float, y: float, width: float, share: float) -> str:
    fill = _COLOURS.get(_owner_of_tidy(frame), _OTHER)
    space_left = int((width - 6) / 6.6)
    text = ""
    if space_left >= 3:
        short = frame if len(frame) <= space_left else _parts(frame)[0]
        short = short if len(short) <= space_left else short[: space_left - 1] + "…"
        text = f'<text x="{x + 3:.1f}" y="{y + 12}">{escape(short)}</text>'
    shape = f'x="{x:.1f}" y="{y}" width="{max(width - 0.4, 0.3):.1f}" height="{_ROW - 1}" rx="1" fill="{fill}"'
    return f"<g><title>{escape(frame)}: {share:.1%}</title><rect {shape}/>{text}</g>"
