"""Figures of the reports that the documentation quotes.

A page marks a figure as `<!-- figure: NAME -->0.76<!-- end -->`. The text between the marks is computed from the
results that the reports are made of: `python -m benchmarks.quoted` writes it anew, and a test fails while a page has
another one. A sentence about performance has no figure that is not marked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.harness import HERE
from benchmarks.rows import OURS
from benchmarks.verdicts import Results, side_by_side, values

__all__ = ["FIGURES", "marked", "pages", "quoted", "rewritten"]

ROOT: Final = HERE.parent
_MARK: Final = re.compile(r"(<!-- figure: (?P<name>[a-z0-9-]+) -->)(?P<text>.*?)(<!-- end -->)", re.DOTALL)
_BYTES_IN_A_KILOBYTE: Final = 1000


def pages(root: Path = ROOT) -> list[Path]:
    """The pages that may quote figures: README, contributing guide, documentation, and the operators' READMEs."""
    found = [root / "README.md", root / "CONTRIBUTING.md"]
    return [*found, *sorted(root.glob("docs/**/*.md")), *sorted(root.glob("operators/*/README.md"))]


def _results(name: str) -> Results:
    loaded: Results = json.loads((HERE / f"{name}.json").read_text())
    return loaded


def _ratio(study: str, row: str, ours: str, theirs: str) -> float:
    """CPU of one side by that of the other: medians of the rounds that both took part in."""
    pairs = side_by_side(_results(study), row, "cpu_us", ours, theirs)
    return median(mine for mine, _ in pairs) / median(other for _, other in pairs)


def _median(study: str, row: str, peer: str, metric: str) -> float:
    return median(values(_results(study), row, peer, metric))


def _review_cpu() -> str:
    found = [_ratio("webhook", row, OURS, "controller-runtime") for row in ("small", "large", "alone")]
    return f"{min(found):.2f} to {max(found):.2f}"


def _compiled(row: str) -> Callable[[], str]:
    return lambda: f"{_ratio('results', row, OURS, f'{OURS}+interpreted'):.2f}"


def _transport(ours: str, theirs: str, digits: int) -> Callable[[], str]:
    return lambda: f"{_ratio('transports', 'transport-patch', ours, theirs):.{digits}f}"


def _kilobytes(row: str) -> Callable[[], str]:
    return lambda: f"{_median('results', row, OURS, 'bytes') / _BYTES_IN_A_KILOBYTE:.1f} KB"


def _start(peer: str) -> Callable[[], str]:
    return lambda: f"{_median('embedded', 'start', peer, 'exec_ms') / 1000:.1f} s"


def _own_code(key: str) -> Mapping[str, Callable[[], str]]:
    """Return the figures of a hand-written part beside a library: both times, and how many times the library takes."""

    def row() -> Mapping[str, float]:
        return json.loads((HERE / "own-code.json").read_text())[key]

    def times() -> str:
        found = row()
        return f"{found['library'] / found['ours']:.2f} times, {found['low']:.2f} to {found['high']:.2f} by round"

    return {
        f"own-{key}": lambda: f"{row()['ours']:.0f} µs",
        f"own-{key}-library": lambda: f"{row()['library']:.0f} µs",
        f"own-{key}-times": times,
    }


FIGURES: Final[Mapping[str, Callable[[], str]]] = {
    "apiserver-exec": _start("kube-apiserver"),
    "compiled-event": _compiled("events-saturated"),
    "compiled-sync": _compiled("sync-widgets-10k"),
    "compiled-update": _compiled("patch-saturated"),
    "embedded-exec": _start(OURS),
    "embedded-start": lambda: f"{_median('embedded', 'start', OURS, 'start_ms'):.0f} ms",
    "idle-rss": lambda: f"{_median('results', 'idle', OURS, 'rss_mb'):.0f} MB",
    "pod-bytes": _kilobytes("sync-pods-10k"),
    "review-cpu": _review_cpu,
    "update-aiohttp": _transport("aiohttp", "native", 1),
    "update-http2": _transport("native", "native-http1", 2),
    "update-pyreqwest": _transport("pyreqwest", "native", 1),
    "widget-bytes": _kilobytes("sync-widgets-10k"),
    **_own_code("cel"),
    **_own_code("cron"),
    **_own_code("http2"),
    **_own_code("tls"),
}
"""The text of every figure, by its name."""


def marked(text: str) -> Iterator[tuple[str, str]]:
    """The name and the text of every figure that a page marks."""
    for match in _MARK.finditer(text):
        yield match["name"], match["text"]


def quoted(text: str) -> str:
    """The page with the figures of the present results. Raises `KeyError` for a name that is not in `FIGURES`."""
    return _MARK.sub(lambda match: f"{match[1]}{FIGURES[match['name']]()}{match[4]}", text)


def rewritten(root: Path = ROOT) -> list[Path]:
    """Write the present figures into all pages; returns the pages that changed."""
    changed: list[Path] = []
    for page in pages(root):
        before = page.read_text()
        if (after := quoted(before)) != before:
            page.write_text(after)
            changed.append(page)
    return changed


if __name__ == "__main__":
    print(*(f"wrote {page}" for page in rewritten()), sep="\n")
