"""Go's text of decoded JSON (`%v`), and the refusal that quotes a patch with it."""

from __future__ import annotations

import json
from typing import Any, cast

from steersman_cluster.errors import APIError, field_invalid, invalid

__all__ = ["go_text", "undecodable"]


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


def undecodable(quoted: Any, why: str) -> APIError:
    """Return the 422 for a patch whose result cannot be decoded or fails strict validation.

    Args:
        quoted: The patched document for JSON and merge patches (quoted as JSON), or the text of a strategic patch
            (`go_text(patch)`).
        why: The text of the decoder.
    """
    if not isinstance(quoted, str):
        quoted = json.dumps(dict(sorted(quoted.items())), separators=(",", ":"), ensure_ascii=False)
    return invalid("", "", "", [field_invalid("patch", quoted, why)])
