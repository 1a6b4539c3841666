"""Validation of the lists of a Job's indexes, such as `1,3-5`. Pure functions."""

from __future__ import annotations

import json
import re
from itertools import product

__all__ = ["format_error", "overlap_error", "total"]

_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)


def format_error(text: str, completions: int) -> str:
    """Return the error of a list; "" for a valid one."""
    last: int | None = None
    for part in text.split(",") if text else ():
        first, end, why = _interval(part, completions)
        if why:
            return why
        if last is not None and last >= first:
            return f"non-increasing order, previous: {last}, current: {first}"
        last = end
    return ""


def total(text: str, completions: int) -> int:
    """Return the number of indexes in a well-formed list."""
    return sum(end - first + 1 for first, end, _ in _intervals(text, completions))


def overlap_error(done: str, failed: str, completions: int) -> str:
    """Return the error if an index is in both lists; invalid intervals are ignored."""
    pairs = product(_intervals(done, completions), _intervals(failed, completions))
    both = min((max(one[0], other[0]) for one, other in pairs if one[0] <= other[1] and other[0] <= one[1]), default=-1)
    return f"failedIndexes and completedIndexes overlap at index: {both}" if both >= 0 else ""


def _intervals(text: str, completions: int) -> list[tuple[int, int, str]]:
    found = [_interval(part, completions) for part in text.split(",")] if text else []
    return [item for item in found if not item[2]]


def _interval(part: str, completions: int) -> tuple[int, int, str]:
    """Return the first and the last index, and the error of an invalid interval."""
    limits = part.split("-")
    if len(limits) > 2:
        requirement = "the requirement that an index interval can have at most two parts separated by '-'"
        return 0, 0, f"the fragment {json.dumps(part)} violates {requirement}"
    numbers: list[int] = []
    for limit in limits:
        if not _NUMBER.fullmatch(limit):
            return 0, 0, f"cannot convert string to integer for index: {json.dumps(limit)}"
        numbers.append(int(limit))
        if numbers[-1] >= completions:
            return 0, 0, f"too large index: {json.dumps(limit)}"
    if len(numbers) == 2 and numbers[0] >= numbers[1]:
        return 0, 0, f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}"
    return numbers[0], numbers[-1], ""
