"""Figures in the documentation come from the reports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.quoted import FIGURES, ROOT, marked, pages, quoted

PAGES = pages()
_CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
_FIGURE = re.compile(r"<!-- figure: .*?<!-- end -->", re.DOTALL)
_PART = r"(half|an? (third|quarter|fifth|sixth|seventh|eighth|tenth)|three quarters|two thirds)"
UNMARKED = re.compile(
    r"\d[\d.,]* ?(µs|us\b)"  # microseconds are measured
    r"|\d[\d.,]* ?% (slower|faster|less|more|cheaper|dearer)"
    rf"|{_PART} (of the (time|CPU|memory|cost)|less|more|off|faster|slower|cheaper|dearer|of a second|of [A-Z]\w+'s)"
    r"|(takes?|took|costs?) (about )?\d[\d.,]* ?(KB|MB|bytes|ms|s)\b"
    r"|(about|within) \d[\d.,]* ?(KB|MB|seconds)\b"
    r"|\bin (a|one|two|three|five|ten|\d+) (second|minute)s?\b"
    r"|; \d+( to \d+)? (seconds|minutes)"
    r"|(twice|three times|ten times|\d+ times) (as (fast|slow|much|little|many)|less|more|faster|slower)",
    re.IGNORECASE,
)


def prose(text: str) -> str:
    """A page without code, with marked figures left out and paragraphs on one line."""
    return re.sub(r"\s+", " ", _FIGURE.sub("", _CODE.sub("", text)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_marked_figures_are_those_of_the_reports(page: Path) -> None:
    text = page.read_text()
    assert [name for name, _ in marked(text) if name not in FIGURES] == []
    assert quoted(text) == text, "run `python -m benchmarks.quoted`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_has_a_figure_of_performance_that_is_not_marked(page: Path) -> None:
    found = prose(page.read_text())
    told = [found[max(0, m.start() - 60) : m.end() + 20] for m in UNMARKED.finditer(found)]
    assert told == [], (
        "mark it as <!-- figure: NAME -->…<!-- end -->, with a name of benchmarks/quoted.py, or leave it out"
    )


def test_every_figure_is_quoted_somewhere() -> None:
    used = {name for page in PAGES for name, _ in marked(page.read_text())}
    assert used == set(FIGURES)


@pytest.mark.parametrize(
    "sentence",
    [
        "half the CPU of Go's is what a review takes: 32 us",
        "an update costs a third less than over HTTP/1.1",
        "builds without it ran 25 % slower",
        "An idle operator takes about 60 MB.",
        "ready in about a tenth of a second",
        "a real kube-apiserver in three seconds",
        "it also takes a third of PyYAML's time",
    ],
)
def test_a_figure_that_is_not_marked_is_found(sentence: str) -> None:
    assert UNMARKED.search(prose(sentence))
    assert not UNMARKED.search(prose(f"<!-- figure: idle-rss -->{sentence}<!-- end -->"))


def test_protocol_constants_are_no_figures() -> None:
    for text in ("15 s lease, 10 s renew deadline", "one object may be 3 MB", "Backoff 0.8 s → 30 s, doubling"):
        assert not UNMARKED.search(prose(text))
