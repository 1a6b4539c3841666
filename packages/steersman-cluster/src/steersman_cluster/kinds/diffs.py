"""The differences that some refusals show: two values as indented JSON, as a unified diff without file names."""

from __future__ import annotations

import difflib
import json
from typing import Any

__all__ = ["unified"]


def unified(before: Any, after: Any) -> str:
    """Return the unified diff with three lines of context; empty without changes."""
    old, new = (json.dumps(value, indent=1, ensure_ascii=False).splitlines() for value in (before, after))
    lines = list(difflib.unified_diff(old, new, n=3, lineterm=""))[2:]
    return "".join(f"{line}\n" for line in lines)
