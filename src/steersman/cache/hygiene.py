"""Keeps memory tidy after a sync: the garbage collector away from what lives long, and freed pages with the kernel.

A full collection then takes milliseconds instead of a second. Nothing here is needed for correctness.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from functools import cache
from typing import Any, Final

__all__ = ["give_back", "keep_freed", "set_aside", "settle"]

_MMAP_THRESHOLD: Final = (-3, 4 * 1024 * 1024)
_TRIM_THRESHOLD: Final = (-1, 8 * 1024 * 1024)
"""Parameters of mallopt(3) and what they are set to, in bytes."""


@cache
def _libc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL("libc.so.6")
        return library if hasattr(library, "malloc_trim") else None
    except OSError:
        return None


@cache
def keep_freed() -> None:
    """Have the C library keep up to 8 MB of freed memory at hand, once for the process.

    By itself it returns every buffer of a watch to the kernel and asks for it again, page by page: a tenth of what an
    event costs. Where the environment sets either threshold, that stands.
    """
    if os.environ.keys() & {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"}:
        return
    if (library := _libc()) is not None and hasattr(library, "mallopt"):
        for parameter in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
            library.mallopt(*parameter)


@cache
def set_aside() -> None:
    """Exempt from collections, once for the process, what is alive when a cache starts: mostly modules and classes.

    They come to 100,000 objects, all of which a full collection looks at; one falls due while 10,000 objects are
    listed, and takes a fifth as long as all the rest of that. No threshold is changed, and `gc.unfreeze` undoes it.
    """
    gc.collect(1)
    gc.freeze()


def give_back() -> None:
    """Return the C library's free memory to the kernel, where it can: after a big sync a third of the cache's size."""
    if (library := _libc()) is not None:
        library.malloc_trim(0)


def settle() -> None:
    """Collect once, then exempt everything alive from future collections and make those rarer.

    To be called once, when the caches have synced: what exists then (classes, modules, indexes) stays. A long full
    collection stops the event loop, and with it the renewal of leases.
    """
    gc.collect()
    give_back()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
