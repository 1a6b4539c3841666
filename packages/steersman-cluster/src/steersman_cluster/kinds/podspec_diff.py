"""The difference that the refusal of a Pod's change contains.

The API server prints its internal types; this module prints JSON, which shows the same fields in another notation.
"""

from __future__ import annotations

from steersman_cluster.kinds.diffs import unified
from steersman_cluster.objects import Object

__all__ = ["spec_diff"]


def spec_diff(before: Object, after: Object) -> str:
    """Unified, with three lines of context."""
    return unified(before, after)
