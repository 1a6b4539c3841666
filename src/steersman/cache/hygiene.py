"""Keeps memory tidy after a sync: the garbage collector away from what lives long, and freed pages with the kernel.

A full collection then takes milliseconds instead of a second. Nothing here is needed for correctness.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from functools import cache
from mmap import PAGESIZE
from typing import Any, Final

__all__ = ["EACH", "give_back", "huge_pages", "keep_freed", "set_aside", "settle", "small_pages"]

_MMAP_THRESHOLD: Final = (-3, 4 * 1024 * 1024)
_TRIM_THRESHOLD: Final = (-1, 8 * 1024 * 1024)
"""Parameters of mallopt(3) and what they are set to, in bytes."""
_TOP_PAD: Final = -2
_PAD: Final = 128 * 1024
"""What the heap grows by at least, unless it is told otherwise."""
_FAR: Final = 32 * 1024 * 1024
_HUGE_PAGES: Final = 14
"""What madvise(2) calls MADV_HUGEPAGE."""
EACH: Final = 1024 * 1024
"""Bytes of large objects after which `huge_pages` is to be called again."""
_WISHES: Final = frozenset({"GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_"})
"""Variables by which users tell the C library what we would."""


@cache
def _libc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL("libc.so.6")
    except OSError:
        return None
    if not hasattr(library, "malloc_trim"):
        return None
    library.sbrk.argtypes, library.sbrk.restype = (ctypes.c_ssize_t,), ctypes.c_size_t
    library.madvise.argtypes = (ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)
    return library


def _tunable() -> Any:
    """The C library where it may be told something: not where it is another, or the environment has its wishes."""
    return None if os.environ.keys() & _WISHES else _libc()


@cache
def keep_freed() -> None:
    """Have the C library keep up to 8 MB of freed memory at hand, once for the process.

    By itself it returns every buffer of a watch to the kernel and asks for it again, page by page: a tenth of what an
    event costs. Where the environment says otherwise, that stands.
    """
    if (library := _tunable()) is not None and hasattr(library, "mallopt"):
        for parameter in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
            library.mallopt(*parameter)


class _Heap:
    """Where the heap ended when `huge_pages` was last asked for; one for the process, as the heap is."""

    end = 0


def huge_pages() -> None:
    """Have the heap grow far at a time, on huge pages where the kernel gives them to who asks for them.

    To be called again for each `EACH` of large objects. When a page of 4 KB is first written to, the kernel takes two
    microseconds, in all a fifth of what an object of 100 KB costs; a huge page takes it a quarter of that. What is not
    written to takes no memory. `small_pages` ends it. Where the environment has its own wishes, nothing is done.
    """
    if (library := _tunable()) is None:
        return
    library.mallopt(_TOP_PAD, _FAR)
    known, end = _Heap.end, library.sbrk(0)
    begin = -(-known // PAGESIZE) * PAGESIZE
    if known and end > begin:
        library.madvise(begin, end - begin, _HUGE_PAGES)
    _Heap.end = end


def small_pages() -> None:
    """Have the heap grow as it did before `huge_pages`."""
    if _Heap.end and (library := _libc()) is not None:
        library.mallopt(_TOP_PAD, _PAD)
        _Heap.end = 0


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
