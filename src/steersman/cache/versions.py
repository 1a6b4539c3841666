"""The order of resourceVersions: decimal integers compare as such (KEP-5504), anything else only by equality."""

from __future__ import annotations

__all__ = ["at_least", "older"]


def older(left: str, right: str) -> bool:
    """Whether `left` is certainly older than `right`; false where the two cannot be compared."""
    if left.isdecimal() and right.isdecimal():
        return int(left) < int(right)
    return False


def at_least(seen: str, wanted: str) -> bool:
    """Whether whoever has seen `seen` has certainly seen `wanted` too."""
    if seen == wanted:
        return True
    return seen.isdecimal() and wanted.isdecimal() and int(seen) >= int(wanted)
