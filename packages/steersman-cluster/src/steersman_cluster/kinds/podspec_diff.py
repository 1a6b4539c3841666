"""The difference that the refusal of a Pod's change shows, for humans to read.

The API server prints its internal types; here is the same as JSON, which says what is different but not byte by byte
what the real server says.
"""

from __future__ import annotations

from steersman_cluster.kinds.diffs import unified
from steersman_cluster.objects import Object

__all__ = ["spec_diff"]


def spec_diff(before: Object, after: Object) -> str:
    """Unified, with three lines of context."""
    return unified(before, after)
