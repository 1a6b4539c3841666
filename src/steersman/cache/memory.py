"""Process-wide memory settings that suit a large cache: malloc thresholds, huge pages, garbage collector.

A program applies them by passing `ProcessMemory` to its cache; a library must not change settings of the process
that it runs in. They reduce CPU time and pauses, and correctness does not depend on them.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from functools import cache
from mmap import PAGESIZE
from typing import Any, Final, Protocol

__all__ = ["HUGE_PAGES_INTERVAL_BYTES", "NO_MEMORY_POLICY", "MemoryPolicy", "ProcessMemory"]

HUGE_PAGES_INTERVAL_BYTES: Final = 1024 * 1024
"""Bytes of large objects between two calls of `MemoryPolicy.large_objects_staged`."""

_MMAP_THRESHOLD: Final = (-3, 4 * 1024 * 1024)
_TRIM_THRESHOLD: Final = (-1, 8 * 1024 * 1024)
"""Parameters of mallopt(3), and their values in bytes."""
_TOP_PAD: Final = -2
_TOP_PAD_DEFAULT_BYTES: Final = 128 * 1024
_TOP_PAD_LIST_BYTES: Final = 32 * 1024 * 1024
_MADV_HUGEPAGE: Final = 14
_TRIM_AFTER_OBJECTS: Final = 5000
"""Objects of a list whose buffers leave enough free memory to return it to the kernel."""
_MALLOC_VARIABLES: Final = frozenset(
    {"GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_"}
)
"""Environment variables by which users set the same parameters; they take precedence."""


class MemoryPolicy(Protocol):
    """The points at which a cache lets its program adjust process-wide memory settings."""

    def cache_started(self) -> None:
        """Called before the first list."""
        ...

    def large_objects_staged(self) -> None:
        """Called while a list is read, every `HUGE_PAGES_INTERVAL_BYTES` of large objects."""
        ...

    def list_ended(self) -> None:
        """Called when a list is committed or discarded."""
        ...

    def list_notified(self, objects: int) -> None:
        """Called when the handlers have received a list of so many objects."""
        ...

    def caches_synced(self) -> None:
        """Called by the program when all caches have synced."""
        ...


class _NoMemoryPolicy:
    def cache_started(self) -> None:
        pass

    def large_objects_staged(self) -> None:
        pass

    def list_ended(self) -> None:
        pass

    def list_notified(self, objects: int) -> None:
        pass

    def caches_synced(self) -> None:
        pass


NO_MEMORY_POLICY: Final[MemoryPolicy] = _NoMemoryPolicy()
"""Leaves all settings of the process unchanged."""


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


class ProcessMemory:
    """The settings for a process whose main work is a cache; use one instance per process.

    Settings of malloc need glibc, and leave those alone that the environment sets.
    """

    def __init__(self) -> None:
        self._started = False
        self._heap_end = 0
        """The end of the heap at the last request for huge pages; 0 outside of a list."""

    def cache_started(self) -> None:
        """Raise malloc's thresholds, and exempt all living objects from garbage collections; effective once."""
        if self._started:
            return
        self._started = True
        self._keep_freed_memory()
        # Modules and classes are about 100,000 objects. A full collection that visits them falls due while 10,000
        # objects are listed, and takes a fifth of the time of that list. `gc.unfreeze` undoes this.
        gc.collect(1)
        gc.freeze()

    def _keep_freed_memory(self) -> None:
        # By default glibc returns each buffer of a watch to the kernel and requests it again, page by page.
        if (library := _tunable()) is not None and hasattr(library, "mallopt"):
            for parameter in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
                library.mallopt(*parameter)

    def large_objects_staged(self) -> None:
        """Grow the heap in steps of 32 MiB on huge pages, which reduces page faults; until `list_ended`."""
        if (library := _tunable()) is None:
            return
        library.mallopt(_TOP_PAD, _TOP_PAD_LIST_BYTES)
        known, end = self._heap_end, library.sbrk(0)
        begin = -(-known // PAGESIZE) * PAGESIZE
        if known and end > begin:
            library.madvise(begin, end - begin, _MADV_HUGEPAGE)
        self._heap_end = end

    def list_ended(self) -> None:
        """Grow the heap in malloc's default steps again."""
        if self._heap_end and (library := _libc()) is not None:
            library.mallopt(_TOP_PAD, _TOP_PAD_DEFAULT_BYTES)
            self._heap_end = 0

    def list_notified(self, objects: int) -> None:
        """Return free memory to the kernel after a large list."""
        if objects >= _TRIM_AFTER_OBJECTS:
            _trim_heap()

    def caches_synced(self) -> None:
        """Collect garbage, exempt all living objects from later collections, and make collections rarer.

        Call this once, when all caches have synced: classes, modules and indexes live on. A long full collection
        blocks the event loop, and with it the renewal of the lease.
        """
        gc.collect()
        _trim_heap()
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)


def _tunable() -> Any:
    """Return glibc if its parameters may be set: not if it is another library or the environment sets them."""
    return None if os.environ.keys() & _MALLOC_VARIABLES else _libc()


def _trim_heap() -> None:
    if (library := _libc()) is not None:
        library.malloc_trim(0)
