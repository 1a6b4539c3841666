"""The order of resourceVersions: decimal integers compare as numbers (KEP-5504), other strings only by equality."""

from __future__ import annotations

__all__ = ["at_least", "later", "older"]


def older(left: str, right: str) -> bool:
    """Return whether `left` is certainly older than `right`; false if they cannot be compared."""
    # Numbers with equally many digits compare as text, which is nearly always the case within a stream.
    if len(left) == len(right) and left >= right:
        return False
    if left.isdecimal() and right.isdecimal():
        return int(left) < int(right)
    return False


def at_least(seen: str, wanted: str) -> bool:
    """Return whether a watch at version `seen` has certainly passed `wanted`."""
    if seen == wanted:
        return True
    return seen.isdecimal() and wanted.isdecimal() and int(seen) >= int(wanted)


def later(known: str, new: str) -> str:
    """Return `new`, or `known` if `new` is empty or certainly older."""
    return known if not new or older(new, known) else new
