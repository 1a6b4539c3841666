"""Draws the pictures of the documentation into docs/images: the live view of `steersman dev`, and the packages.

    python hack/pictures.py [NAME...]    # dev, packages; both by default

The live view is the last screen of a real session, which runs in a pseudo-terminal.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

ROOT: Final = Path(__file__).resolve().parent.parent
IMAGES: Final = ROOT / "docs/images"
COLUMNS, LINES = 132, 36
SESSION_SECONDS: Final = 60.0
_HOME: Final = b"\x1b[H"
_FONT: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""The fonts of Rich's SVG are loaded from the network; without them a monospaced font of the reader is used."""


def dev() -> str:
    """Return the screen of `steersman dev` of HelloApp with a sample, once its Deployment is ready."""
    screen = _session([sys.executable, "-m", "steersman", "dev", "helloapp:operator", "--load", "config/samples"])
    console = Console(record=True, width=COLUMNS, height=LINES, force_terminal=True, file=io.StringIO())
    console.print(Text.from_ansi(screen), end="")
    return _FONT.sub("", console.export_svg(title="steersman dev helloapp:operator"))


def _session(command: list[str]) -> str:
    """Return the last screen of a full-screen program, after its first screen with a ready Deployment."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(ROOT / "operators/helloapp")
        os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS), LINES=str(LINES), COLORTERM="truecolor")
        os.environ.update(XDG_STATE_HOME="/tmp/state", XDG_RUNTIME_DIR="/tmp/state")  # shown on the screen
        os.execv(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    output, deadline, settled = b"", time.monotonic() + SESSION_SECONDS, None
    try:
        while time.monotonic() < deadline and (settled is None or time.monotonic() < settled):
            if select.select([terminal], [], [], 0.2)[0]:
                output += os.read(terminal, 65536)
            if settled is None and b"Ready" in output.rpartition(_HOME)[2]:
                settled = time.monotonic() + 3.0
    finally:
        os.kill(child, signal.SIGINT)
        _drain(terminal)
        os.waitpid(child, 0)
    assert settled is not None, output[-2000:]
    frames = [frame for frame in output.split(_HOME) if b"steersman dev" in frame and b"Ready" in frame]
    return re.sub(r"\x1b\[\?\d+[hl]", "", frames[-2].decode("utf-8", "replace")).replace("\r", "")


def _drain(terminal: int) -> None:
    """Read until the program has ended, so that it is not blocked by a full terminal."""
    while True:
        try:
            if not os.read(terminal, 65536):
                return
        except OSError:
            return


def packages() -> str:
    """Return the packages in the order that import-linter checks: each imports only those after it."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(contract["layers"] for contract in settings["contracts"] if contract["type"] == "layers")
    names = [name.strip().removeprefix("steersman.") for layer in layers for name in layer.split("|")]
    columns, width, height, gap = 4, 170, 30, 14
    rows = -(-len(names) // columns)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{columns * (width + gap)}" height="{rows * (height + gap)}"'
        ' font-family="sans-serif" font-size="14" text-anchor="middle" fill="#3f51b5">'
    ]
    for number, name in enumerate(names):
        x, y = number % columns * (width + gap), number // columns * (height + gap)
        lines.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>')
        lines.append(f'<text x="{x + width / 2:g}" y="{y + 20}" fill="#fff">{name}</text>')
        if number % columns < columns - 1 and number < len(names) - 1:
            lines.append(f'<path d="M{x + width + 2} {y + height / 2 - 5:g}l9 5l-9 5z"/>')
    return "\n".join([*lines, "</svg>"]) + "\n"


PICTURES: Final[Mapping[str, Callable[[], str]]] = {"dev": dev, "packages": packages}


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or PICTURES:
        (IMAGES / f"{name}.svg").write_text(PICTURES[name]())


if __name__ == "__main__":
    main()
