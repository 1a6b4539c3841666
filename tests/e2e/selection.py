"""Which tests of the suite run. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from typing import Final

from tests.e2e.results import Outcome, Result
from tests.e2e.suite import is_serial

__all__ = ["QUICK_SECONDS", "listed", "quick", "repeated"]

QUICK_SECONDS: Final = 170.0
"""The length of the part of the suite that `quick` selects, by the times on record."""
_TEST_MAX_SECONDS: Final = 40.0


def listed(text: str, known: Sequence[str]) -> list[str]:
    """Return the tests that a text lists, one a line, without blank lines and lines that begin with `#`.

    Raises:
        ValueError: A line is not the name of a test.
    """
    lines = [line.strip() for line in text.splitlines()]
    wanted = {line for line in lines if line and not line.startswith("#")}
    if unknown := wanted - set(known):
        raise ValueError(f"{min(unknown)!r} is not a conformance test")
    return [test for test in known if test in wanted]


def quick(tests: Sequence[str], record: Sequence[Result], workers: int) -> list[str]:
    """Return tests of all SIGs, the fastest of each first, that `workers` run side by side in `QUICK_SECONDS`.

    Args:
        tests: The tests to choose from.
        record: The results on record, whose times count. Tests that fail on record are chosen, too, so that one that
            passes against the expectation is noticed.
        workers: How many tests run side by side.
    """
    known = set(tests)
    fast = sorted(
        (r for r in record if r.seconds <= _TEST_MAX_SECONDS and r.test in known),
        key=lambda r: (r.seconds, r.test),
    )
    by_sig: dict[str, list[Result]] = {}
    for result in fast:
        if not is_serial(result.test):
            by_sig.setdefault(result.sig, []).append(result)
    chosen: set[str] = set()
    seconds_left = QUICK_SECONDS * workers
    for result in chain.from_iterable(zip_longest(*by_sig.values())):
        if result is None:
            continue
        if result.seconds > seconds_left:
            break
        chosen.add(result.test)
        seconds_left -= result.seconds
    return [test for test in tests if test in chosen]


def repeated(results: Sequence[Result], expectations: Mapping[str, str], limit: int) -> list[str]:
    """Return the tests that failed against the expectation, to run them once more; none if there are more than `limit`.

    Args:
        results: The results of a run.
        expectations: The reasons of the expected failures by test.
        limit: How many failures a busy machine can cause.
    """
    failed = [r.test for r in results if r.outcome is Outcome.FAILED and r.test not in expectations]
    return failed if len(failed) <= limit else []
