"""Keeps the garbage collector away from what lives long; a full collection then takes milliseconds, not a second."""

from __future__ import annotations

import gc

__all__ = ["settle"]


def settle() -> None:
    """Collect once, then exempt everything alive from future collections and make those rarer.

    To be called once, when the caches have synced: what exists then (classes, modules, indexes) stays. A long full
    collection stops the event loop, and with it the renewal of leases.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
