"""How Go prints decoded JSON (`%v`), for the error texts that quote patches."""

from __future__ import annotations

from typing import Any, cast

__all__ = ["go_text"]


def go_text(value: Any) -> str:
    """A decoded JSON value as Go's `%v` shows it: `map[a:1 b:[x y] c:<nil>]`, keys sorted."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        return f"map[{' '.join(f'{key}:{go_text(entries[key])}' for key in sorted(entries))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_text, cast('list[Any]', value)))}]"
    return str(value)
