"""The text of the settings files in ConfigMaps."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

__all__ = ["settings_text"]


def settings_text(settings: Mapping[str, object]) -> str:
    """Return settings as JSON with sorted keys and an indent of one space.

    Each reconcile writes this text. `json.dumps` with an indent leaves cycles of closures, which stay in memory until
    the garbage collector runs.
    """
    return msgspec.json.format(msgspec.json.encode(settings, order="sorted"), indent=1).decode()
