"""The order of resourceVersions: decimal integers compare as such (KEP-5504), anything else only by equality."""

from __future__ import annotations

__all__ = ["at_least", "later", "older"]


def older(left: str, right: str) -> bool:
    """Whether `left` is certainly older than `right`; false where the two cannot be compared."""
    # Equally many digits compare as text, and in a stream that is nearly always so.
    if len(left) == len(right) and left >= right:
        return False
    if left.isdecimal() and right.isdecimal():
        return int(left) < int(right)
    return False


def at_least(seen: str, wanted: str) -> bool:
    """Whether whoever has seen `seen` has certainly seen `wanted` too."""
    if seen == wanted:
        return True
    return seen.isdecimal() and wanted.isdecimal() and int(seen) >= int(wanted)


def later(known: str, new: str) -> str:
    """`new`, unless it is empty or certainly older than `known`."""
    return known if not new or older(new, known) else new
