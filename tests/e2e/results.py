"""The results of a run of the suite, the expected results, and their text forms."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, cast

import yaml

__all__ = [
    "ExpectationError",
    "Outcome",
    "Result",
    "differences",
    "expected",
    "from_json",
    "markdown",
    "surprises",
    "to_json",
]

_LINE_CHARACTERS: Final = 120


class Outcome(StrEnum):
    """The outcome of a test."""

    PASSED = "passed"
    FAILED = "failed"


@dataclass(frozen=True)
class Result:
    """One test of one run."""

    test: str
    outcome: Outcome
    seconds: float
    reason: str = ""

    @property
    def sig(self) -> str:
        """The special interest group that owns the test."""
        found = re.match(r"\[(sig-[a-z-]+)\]", self.test)
        return found.group(1) if found else "none"


class ExpectationError(ValueError):
    """The file of expected failures is wrong; the message names the entry."""


def expected(path: Path, tests: Iterable[str]) -> dict[str, str]:
    """Return the reasons of the expected failures by test.

    Raises:
        ExpectationError: An entry has no reason, or names a test that does not exist.
    """
    content = cast(Any, yaml.safe_load(path.read_text("utf-8")) or {})
    known, found = set(tests), dict[str, str]()
    for entry in cast(list[Any], content.get("failures") or []):
        test, reason = str(entry.get("test") or ""), str(entry.get("reason") or "").strip()
        if test not in known:
            raise ExpectationError(f"{path.name}: {test!r} is not a conformance test: remove the entry or correct it")
        if not reason:
            raise ExpectationError(f"{path.name}: {test!r} has no reason: say why the test cannot pass")
        found[test] = reason
    return found


def surprises(results: Iterable[Result], expectations: Mapping[str, str]) -> list[str]:
    """Return one line for each unexpected failure and each unexpected pass."""
    lines: list[str] = []
    for result in results:
        if result.outcome is Outcome.FAILED and result.test not in expectations:
            lines.append(f"unexpected failure: {result.test}: {result.reason}")
        if result.outcome is Outcome.PASSED and result.test in expectations:
            lines.append(f"unexpected pass: {result.test}: remove it from the expected failures")
    return lines


def differences(results: Iterable[Result], before: Iterable[Result]) -> list[str]:
    """Return one line for each test whose outcome differs from the run before."""
    old = {result.test: result.outcome for result in before}
    return [
        f"{old[result.test]} → {result.outcome}: {result.test}"
        for result in results
        if result.test in old and old[result.test] is not result.outcome
    ]


def to_json(results: Sequence[Result], version: str) -> str:
    """Return the results as JSON, sorted by test."""
    tests = [
        {"test": r.test, "outcome": str(r.outcome), "seconds": round(r.seconds, 1), "reason": r.reason}
        for r in sorted(results, key=lambda r: r.test)
    ]
    return json.dumps({"version": version, "tests": tests}, indent=1, ensure_ascii=False) + "\n"


def from_json(text: str) -> list[Result]:
    """Return the results that `to_json` wrote."""
    return [
        Result(test["test"], Outcome(test["outcome"]), float(test["seconds"]), test["reason"])
        for test in cast(Any, json.loads(text))["tests"]
    ]


def markdown(
    results: Sequence[Result], *, version: str, total: int, expectations: Mapping[str, str], changes: Sequence[str]
) -> str:
    """Return the page for the documentation.

    Args:
        results: The tests that ran.
        version: The version of Kubernetes.
        total: How many conformance tests there are.
        expectations: Why tests are expected to fail.
        changes: The differences to the run before.
    """
    passed = [r for r in results if r.outcome is Outcome.PASSED]
    failed = sorted((r for r in results if r.outcome is Outcome.FAILED), key=lambda r: r.test)
    lines = [
        "# Kubernetes' conformance suite",
        "",
        "`make conformance` runs the conformance tests of Kubernetes, unmodified, against the embedded cluster, and",
        "writes this page. The cluster has two process nodes; see [The embedded cluster](embedded-cluster.md).",
        "",
        "Tests that fail for reasons beyond the cluster's control, such as load, are run again alone; each result is",
        "that of the last run. The images that the tests name are built from Kubernetes' modules and Debian packages",
        "(`tests/e2e/images.py`).",
        "",
        f"Kubernetes {version}: {len(results)} of {total} tests ran, {len(passed)} passed, {len(failed)} failed.",
        "",
        "| SIG | tests | passed | failed |",
        "|---|---|---|---|",
    ]
    for sig in sorted({r.sig for r in results}):
        of_sig = [r for r in results if r.sig == sig]
        good = sum(r.outcome is Outcome.PASSED for r in of_sig)
        lines.append(f"| {sig} | {len(of_sig)} | {good} | {len(of_sig) - good} |")
    lines += ["", "## Failures", ""]
    lines += _items(f"`{r.test}`: {_escaped(expectations.get(r.test) or r.reason)}" for r in failed)
    lines += ["", "## Differences to the last run", ""]
    lines += _items(map(_escaped, changes))
    return "\n".join(lines) + "\n"


def _items(texts: Iterable[str]) -> list[str]:
    """Return the lines of a list in Markdown."""
    wrapped = (
        textwrap.wrap(text, _LINE_CHARACTERS - 2, break_long_words=False, break_on_hyphens=False) for text in texts
    )
    return [f"{'  ' if number else '- '}{line}" for lines in wrapped for number, line in enumerate(lines)] or ["None."]


def _escaped(text: str) -> str:
    return re.sub(r"([<>*_\[\]`|])", r"\\\1", text)
